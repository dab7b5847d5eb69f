// dst[t] = row b[t] of the weight a; a work-item computes four neighbouring elements. n: n_embd, n_vocab, T.
KERNEL(embed) {
    uint i = (uint)get_global_id(0) * 4u;
    uint row = get_global_id(1);
    if (i >= n.s0 || row >= LIVE_ROWS(n.s2)) return;
    uint id = ((__global const uint *)B)[row];
    float4 value = (float4)(0.0f);
    if (id < n.s1) value = load_weight_quad(A, n, id, i);
    floats dst = ROW(DST, row, DST_STRIDE);
    dst[i] = value.s0;
    if (i + 1u < n.s0) dst[i + 1u] = value.s1;
    if (i + 2u < n.s0) dst[i + 2u] = value.s2;
    if (i + 3u < n.s0) dst[i + 3u] = value.s3;
}
