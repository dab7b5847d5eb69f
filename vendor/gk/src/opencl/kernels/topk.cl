// The k largest elements of each row, one work-group per row. Every element has a unique key, (order, ~index): a radix
// selection finds the smallest of the k largest keys, 8 bits a pass, and the k elements are then ranked against each
// other. Counts are integer sums, so the order of atomics does not matter. n: columns, rows, k.
uint digit_of(uint key, uint index, uint pass) {
    return pass < 4u ? (key >> (24u - 8u * pass)) & 255u : (~index >> (24u - 8u * (pass - 4u))) & 255u;
}

KERNEL(topk) {
    __local uint histogram[256];
    __local uint chosen_key[256];
    __local uint chosen_index[256];
    __local uint found;
    __local uint digit;
    __local uint above;
    uint columns = n.s0;
    uint k = n.s2;
    uint self = SELF;
    uint row = get_group_id(0);
    if (row >= LIVE_ROWS(n.s1)) return;
    const_floats a = ROW(A, row, A_STRIDE);
    uint limit_key = 0u, limit_index_bits = 0u; // the digits found so far
    uint wanted = k;
    for (uint pass = 0u; pass < 8u; pass++) {
        for (uint i = self; i < 256u; i += WG) histogram[i] = 0u;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = self; i < columns; i += WG) {
            uint key = order_key(a[i]);
            bool same;
            if (pass < 4u) same = pass == 0u || (key >> (32u - 8u * pass)) == (limit_key >> (32u - 8u * pass));
            else same = key == limit_key && (pass == 4u || (~i >> (64u - 8u * pass)) == (limit_index_bits >> (64u - 8u * pass)));
            if (same) atomic_inc(&histogram[digit_of(key, i, pass)]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (self == 0u) {
            uint d = 255u, sum = 0u;
            while (d > 0u && sum + histogram[d] < wanted) {
                sum += histogram[d];
                d--;
            }
            digit = d;
            above = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        wanted -= above;
        if (pass < 4u) limit_key |= digit << (24u - 8u * pass);
        else limit_index_bits |= digit << (24u - 8u * (pass - 4u));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (self == 0u) found = 0u;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = self; i < columns; i += WG) {
        uint key = order_key(a[i]);
        if (key > limit_key || (key == limit_key && ~i >= limit_index_bits)) {
            uint slot = atomic_inc(&found);
            chosen_key[slot] = key;
            chosen_index[slot] = i;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint slot = self; slot < k; slot += WG) {
        uint key = chosen_key[slot];
        uint index = chosen_index[slot];
        uint rank = 0u;
        for (uint other = 0u; other < k; other++) {
            uint other_key = chosen_key[other];
            if (other_key > key || (other_key == key && chosen_index[other] < index)) rank++;
        }
        ((__global uint *)ROW(DST, row, DST_STRIDE))[rank] = index;
        ((__global uint *)ROW(C, row, C_STRIDE))[rank] = ((__global const uint *)a)[index];
    }
}
