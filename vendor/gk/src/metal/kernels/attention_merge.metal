// Combines the splits of attention.metal; one threadgroup per (t, head). args.n: n_head, d_head, rows, positions of a
// split, splits.
KERNEL(attention_merge) {
    uint n_head = args.n[0];
    uint d = args.n[1];
    uint row = group.x;
    if (row >= LIVE_ROWS(args.n[2]) * n_head) return;
    uint t = row / n_head;
    uint used = (POS + t) / args.n[3] + 1u;
    uint size = d + 2u;
    device const float *part = (device const float *)extra + ulong(row) * args.n[4] * size;
    float largest = part[d];
    for (uint s = 1u; s < used; s++) largest = fmax(largest, part[s * size + d]);
    float weight = 0.0f;
    for (uint s = 0u; s < used; s++) weight += precise::exp(part[s * size + d] - largest) * part[s * size + d + 1u];
    device float *dst = ROW(dst_base, t, DST_STRIDE) + (row - t * n_head) * d;
    for (uint i = self; i < d; i += WG) {
        float sum = 0.0f;
        for (uint s = 0u; s < used; s++) sum += precise::exp(part[s * size + d] - largest) * part[s * size + i];
        dst[i] = sum / weight;
    }
}
