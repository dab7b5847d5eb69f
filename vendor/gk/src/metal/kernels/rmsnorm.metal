// One threadgroup normalises one group. args.n: group, groups of a row, rows. args.f: eps.
KERNEL(rmsnorm) {
    SHARED float partial[WG / 32];
    uint size = args.n[0];
    uint row = group.y;
    if (row >= LIVE_ROWS(args.n[2])) return;
    uint first = group.x * size;
    device float *dst = ROW(dst_base, row, DST_STRIDE) + first;
    device const float *a = ROW(a_base, row, A_STRIDE) + first;
    device const float *b = (device const float *)b_base;
    float sum = 0.0f;
    for (uint i = self; i < size; i += WG) sum += a[i] * a[i];
    float scale = 1.0f / precise::sqrt(group_sum(sum, partial, lane, team) / float(size) + args.f[0]);
    for (uint i = self; i < size; i += WG) dst[i] = a[i] * scale * b[i];
}
