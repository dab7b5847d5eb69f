// One work-group per row. n: columns, rows. f: scale.
KERNEL(softmax) {
    __local float partial[WG];
    uint columns = n.s0;
    uint row = get_group_id(0);
    if (row >= LIVE_ROWS(n.s1)) return;
    floats dst = ROW(DST, row, DST_STRIDE);
    floats a = ROW(A, row, A_STRIDE);
    float largest = -INFINITY;
    for (uint i = SELF; i < columns; i += WG) largest = fmax(largest, f.s0 * a[i]);
    largest = group_max(largest, partial);
    float sum = 0.0f;
    for (uint i = SELF; i < columns; i += WG) {
        float e = exp(f.s0 * a[i] - largest);
        dst[i] = e;
        sum += e;
    }
    float scale = 1.0f / group_sum(sum, partial);
    // Each work-item reads back only what it wrote itself.
    for (uint i = SELF; i < columns; i += WG) dst[i] *= scale;
}
