// dst = f(a, b) for each element. args.n: columns, rows, rows of b. S0: 0 add, 1 mul, 2 silu, 3 swiglu.
KERNEL(elementwise) {
    uint i = ITEM;
    uint row = group.y;
    if (i >= args.n[0] || row >= LIVE_ROWS(args.n[1])) return;
    float x = ROW(a_base, row, A_STRIDE)[i];
#if S0 != 2
    float y = ROW(b_base, args.n[2] == 1u ? 0u : row, B_STRIDE)[i];
#endif
#if S0 == 0
    x += y;
#elif S0 == 1
    x *= y;
#elif S0 == 2
    x = x / (1.0f + precise::exp(-x));
#else
    x = x / (1.0f + precise::exp(-x)) * y;
#endif
    ROW(dst_base, row, DST_STRIDE)[i] = x;
}
