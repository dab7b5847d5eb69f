// Rotates pairs of each head and copies the rest. One item is a pair or one copied element. args.n: n_head, d_head,
// n_rot, rows.
KERNEL(rope) {
    uint d_head = args.n[1];
    uint n_rot = args.n[2];
    uint pairs = n_rot / 2u;
    uint items = pairs + (d_head - n_rot);
    uint i = ITEM;
    uint row = group.y;
    if (i >= args.n[0] * items || row >= LIVE_ROWS(args.n[3])) return;
    device float *dst = ROW(dst_base, row, DST_STRIDE);
    device const float *a = ROW(a_base, row, A_STRIDE);
    uint head = i / items;
    uint item = i - head * items;
    uint base = head * d_head;
    if (item >= pairs) {
        uint k = base + n_rot + (item - pairs);
        dst[k] = a[k];
        return;
    }
    device const float *table = ROW(b_base, POS + row, B_STRIDE);
    bool neox = (args.flags & NEOX) != 0u;
    uint k0 = base + (neox ? item : item * 2u);
    uint k1 = k0 + (neox ? pairs : 1u);
    float cosine = table[item * 2u];
    float sine = table[item * 2u + 1u];
    float x0 = a[k0];
    float x1 = a[k1];
    dst[k0] = x0 * cosine - x1 * sine;
    dst[k1] = x0 * sine + x1 * cosine;
}
