// One work-group per row: the lowest index of the largest key. n: columns, rows.
KERNEL(argmax) {
    __local uint best_key[WG];
    __local uint best_index[WG];
    uint row = get_group_id(0);
    if (row >= LIVE_ROWS(n.s1)) return;
    uint self = SELF;
    const_floats a = ROW(A, row, A_STRIDE);
    uint key = 0u;
    uint index = 0xffffffffu;
    for (uint i = self; i < n.s0; i += WG) {
        uint k = order_key(a[i]);
        if (k > key || index == 0xffffffffu) {
            key = k;
            index = i;
        }
    }
    best_key[self] = key;
    best_index[self] = index;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint part = WG / 2; part != 0u; part /= 2u) {
        if (self < part) {
            uint k = best_key[self + part];
            uint i = best_index[self + part];
            // A work-item without elements has key 0 and the highest index, so it loses every comparison.
            if (k > best_key[self] || (k == best_key[self] && i < best_index[self])) {
                best_key[self] = k;
                best_index[self] = i;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (self == 0u) ((__global uint *)DST)[row] = best_index[0];
}
