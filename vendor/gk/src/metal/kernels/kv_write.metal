// Stores rows of a (keys) and b (values) into the caches dst and c. args.n: n_head_kv, d_head, rows, n_ctx.
inline void put(device uchar *base, ulong index, float value) {
#if CACHE_TYPE == TYPE_F16
    ((device ushort *)base)[index] = float_to_half(value);
#else
    ((device float *)base)[index] = value;
#endif
}

KERNEL(kv_write) {
    uint d_head = args.n[1];
    uint n_ctx = args.n[3];
    uint i = ITEM;
    uint row = group.y;
    if (i >= args.n[0] * d_head || row >= LIVE_ROWS(args.n[2])) return;
    uint position = POS + row;
    uint head = i / d_head;
    uint k = i - head * d_head;
    ulong plane = ulong(head) * n_ctx * d_head;
    put(dst_base, plane + key_index(position, k, n_ctx, d_head), ROW(a_base, row, A_STRIDE)[i]);
    put(c_base, plane + position * d_head + k, ROW(b_base, row, B_STRIDE)[i]);
}
