// dst = a, each of them f32 or f16; equal types keep every bit. args.n: columns, rows. S0: type of dst, S1: of a.
KERNEL(copy) {
    uint i = ITEM;
    uint row = group.y;
    if (i >= args.n[0] || row >= LIVE_ROWS(args.n[1])) return;
    ulong to = ulong(row) * DST_STRIDE + i;
    ulong from = ulong(row) * A_STRIDE + i;
    // As integers: a float load may flush a denormal.
#if S0 == TYPE_F16 && S1 == TYPE_F16
    ((device ushort *)dst_base)[to] = ((device const ushort *)a_base)[from];
#elif S0 == TYPE_F16
    ((device ushort *)dst_base)[to] = float_to_half(((device const float *)a_base)[from]);
#elif S1 == TYPE_F16
    ((device uint *)dst_base)[to] = half_to_float_bits(((device const ushort *)a_base)[from]);
#else
    ((device uint *)dst_base)[to] = ((device const uint *)a_base)[from];
#endif
}
