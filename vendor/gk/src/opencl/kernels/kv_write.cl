// Stores rows of a (keys) and b (values) into the caches dst and c. n: n_head_kv, d_head, rows, n_ctx.
void put(__global uchar *base, ulong index, float value) {
#if CACHE_TYPE == TYPE_F16
    ((halves)base)[index] = float_to_half(value);
#else
    ((floats)base)[index] = value;
#endif
}

KERNEL(kv_write) {
    uint d_head = n.s1;
    uint n_ctx = n.s3;
    uint i = get_global_id(0);
    uint row = get_global_id(1);
    if (i >= n.s0 * d_head || row >= LIVE_ROWS(n.s2)) return;
    uint position = POS + row;
    uint head = i / d_head;
    uint k = i - head * d_head;
    ulong plane = (ulong)head * n_ctx * d_head;
    put(DST, plane + key_index(position, k, n_ctx, d_head), ROW(A, row, A_STRIDE)[i]);
    put(C, plane + position * d_head + k, ROW(B, row, B_STRIDE)[i]);
}
