// dst[t] = row b[t] of the weight a. n: n_embd, n_vocab, T. EXTRA: plane of q8_0 scales. S0: type of the weight.
KERNEL(embed) {
    uint i = get_global_id(0);
    uint row = get_global_id(1);
    if (i >= n.s0 || row >= LIVE_ROWS(n.s2)) return;
    uint id = ((__global const uint *)B)[row];
    float value = 0.0f;
    if (id < n.s1) {
        ulong element = (ulong)id * n.s0 + i;
#if S0 == TYPE_F32
        value = ((const_floats)A)[element];
#elif S0 == TYPE_F16
        value = load_half(A, element);
#else
        value = load_half(EXTRA, element / 32u) * (float)((__global const char *)A)[element];
#endif
    }
    ROW(DST, row, DST_STRIDE)[i] = value;
}
