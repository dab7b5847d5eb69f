// dst[t] = row b[t] of the weight a; a thread computes four neighbouring elements. args.n: n_embd, n_vocab, T.
KERNEL(embed) {
    uint i = ITEM * 4u;
    uint row = group.y;
    if (i >= args.n[0] || row >= LIVE_ROWS(args.n[2])) return;
    uint id = ((device const uint *)b_base)[row];
    float4 value = float4(0.0f);
    if (id < args.n[1]) value = load_weight_quad(a_base, args, id, i);
    device float *dst = ROW(dst_base, row, DST_STRIDE);
    dst[i] = value.x;
    if (i + 1u < args.n[0]) dst[i + 1u] = value.y;
    if (i + 2u < args.n[0]) dst[i + 2u] = value.z;
    if (i + 3u < args.n[0]) dst[i + 3u] = value.w;
}
