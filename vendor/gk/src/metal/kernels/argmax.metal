// One threadgroup per row: the lowest index of the largest key. args.n: columns, rows.
KERNEL(argmax) {
    SHARED uint best_key[WG];
    SHARED uint best_index[WG];
    uint row = group.x;
    if (row >= LIVE_ROWS(args.n[1])) return;
    device const float *a = ROW(a_base, row, A_STRIDE);
    uint key = 0u;
    uint index = 0xffffffffu;
    for (uint i = self; i < args.n[0]; i += WG) {
        uint k = order_key(a[i]);
        if (k > key || index == 0xffffffffu) {
            key = k;
            index = i;
        }
    }
    best_key[self] = key;
    best_index[self] = index;
    BARRIER;
    for (uint part = WG / 2; part != 0u; part /= 2u) {
        if (self < part) {
            uint k = best_key[self + part];
            uint i = best_index[self + part];
            // A thread without elements has key 0 and the highest index, so it loses every comparison.
            if (k > best_key[self] || (k == best_key[self] && i < best_index[self])) {
                best_key[self] = k;
                best_index[self] = i;
            }
        }
        BARRIER;
    }
    if (self == 0u) ((device uint *)dst_base)[row] = best_index[0];
}
