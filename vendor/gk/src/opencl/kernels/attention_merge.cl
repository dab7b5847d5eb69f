// Combines the splits of attention.cl; one work-group per (t, head). n: n_head, d_head, rows, positions of a split,
// splits.
KERNEL(attention_merge) {
    uint n_head = n.s0;
    uint d = n.s1;
    uint row = get_group_id(0);
    if (row >= LIVE_ROWS(n.s2) * n_head) return;
    uint t = row / n_head;
    uint used = (POS + t) / n.s3 + 1u;
    uint size = d + 2u;
    const_floats part = (const_floats)EXTRA + (ulong)row * n.s4 * size;
    float largest = part[d];
    for (uint s = 1u; s < used; s++) largest = fmax(largest, part[s * size + d]);
    float weight = 0.0f;
    for (uint s = 0u; s < used; s++) weight += exp(part[s * size + d] - largest) * part[s * size + d + 1u];
    for (uint i = SELF; i < d; i += WG) {
        float sum = 0.0f;
        for (uint s = 0u; s < used; s++) sum += exp(part[s * size + d] - largest) * part[s * size + i];
        ROW(DST, t, DST_STRIDE)[(row - t * n_head) * d + i] = sum / weight;
    }
}
