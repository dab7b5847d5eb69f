// One work-group normalises one group. n: group, groups of a row, rows. f: eps.
KERNEL(rmsnorm) {
    __local float partial[WG];
    uint size = n.s0;
    uint row = get_group_id(1);
    if (row >= LIVE_ROWS(n.s2)) return;
    uint first = get_group_id(0) * size;
    floats dst = ROW(DST, row, DST_STRIDE) + first;
    floats a = ROW(A, row, A_STRIDE) + first;
    const_floats b = (const_floats)B;
    float sum = 0.0f;
    for (uint i = SELF; i < size; i += WG) sum += a[i] * a[i];
    float scale = 1.0f / sqrt(group_sum(sum, partial) / (float)size + f.s0);
    for (uint i = SELF; i < size; i += WG) dst[i] = a[i] * scale * b[i];
}
