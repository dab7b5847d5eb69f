// dst = a, each of them f32 or f16; equal types keep every bit. n: columns, rows. S0: type of dst, S1: of a.
KERNEL(copy) {
    uint i = get_global_id(0);
    uint row = get_global_id(1);
    if (i >= n.s0 || row >= LIVE_ROWS(n.s1)) return;
    ulong to = (ulong)row * DST_STRIDE + i;
    ulong from = (ulong)row * A_STRIDE + i;
    // As integers: a float load may flush a denormal.
#if S0 == TYPE_F16 && S1 == TYPE_F16
    ((halves)DST)[to] = ((halves)A)[from];
#elif S0 == TYPE_F16
    ((halves)DST)[to] = float_to_half(((floats)A)[from]);
#elif S1 == TYPE_F16
    ((__global uint *)DST)[to] = half_to_float_bits(((halves)A)[from]);
#else
    ((__global uint *)DST)[to] = ((__global uint *)A)[from];
#endif
}
