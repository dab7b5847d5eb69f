// One threadgroup per row. args.n: columns, rows. args.f: scale.
KERNEL(softmax) {
    SHARED float partial[WG / 32];
    uint columns = args.n[0];
    uint row = group.x;
    if (row >= LIVE_ROWS(args.n[1])) return;
    device float *dst = ROW(dst_base, row, DST_STRIDE);
    device const float *a = ROW(a_base, row, A_STRIDE);
    float largest = -INFINITY;
    for (uint i = self; i < columns; i += WG) largest = fmax(largest, args.f[0] * a[i]);
    largest = group_max(largest, partial, lane, team);
    float sum = 0.0f;
    for (uint i = self; i < columns; i += WG) {
        float e = precise::exp(args.f[0] * a[i] - largest);
        dst[i] = e;
        sum += e;
    }
    float scale = 1.0f / group_sum(sum, partial, lane, team);
    // Each thread reads back only what it wrote itself.
    for (uint i = self; i < columns; i += WG) dst[i] *= scale;
}
