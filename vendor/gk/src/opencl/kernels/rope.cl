// Rotates pairs of each head and copies the rest. One item is a pair or one copied element. n: n_head, d_head, n_rot,
// rows.
KERNEL(rope) {
    uint d_head = n.s1;
    uint n_rot = n.s2;
    uint pairs = n_rot / 2u;
    uint items = pairs + (d_head - n_rot);
    uint i = get_global_id(0);
    uint row = get_global_id(1);
    if (i >= n.s0 * items || row >= LIVE_ROWS(n.s3)) return;
    floats dst = ROW(DST, row, DST_STRIDE);
    floats a = ROW(A, row, A_STRIDE);
    uint head = i / items;
    uint item = i - head * items;
    uint base = head * d_head;
    if (item >= pairs) {
        uint k = base + n_rot + (item - pairs);
        dst[k] = a[k];
        return;
    }
    const_floats table = ROW(B, POS + row, B_STRIDE);
    bool neox = (flags & NEOX) != 0u;
    uint k0 = base + (neox ? item : item * 2u);
    uint k1 = k0 + (neox ? pairs : 1u);
    float cosine = table[item * 2u];
    float sine = table[item * 2u + 1u];
    float x0 = a[k0];
    float x1 = a[k1];
    dst[k0] = x0 * cosine - x1 * sine;
    dst[k1] = x0 * sine + x1 * cosine;
}
