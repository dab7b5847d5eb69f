// dst = f(a, b) for each element. n: columns, rows, rows of b. S0: 0 add, 1 mul, 2 silu, 3 swiglu.
KERNEL(elementwise) {
    uint i = get_global_id(0);
    uint row = get_global_id(1);
    if (i >= n.s0 || row >= LIVE_ROWS(n.s1)) return;
    float x = ROW(A, row, A_STRIDE)[i];
#if S0 != 2
    float y = ROW(B, n.s2 == 1u ? 0u : row, B_STRIDE)[i];
#endif
#if S0 == 0
    x += y;
#elif S0 == 1
    x *= y;
#elif S0 == 2
    x = x / (1.0f + exp(-x));
#else
    x = x / (1.0f + exp(-x)) * y;
#endif
    ROW(DST, row, DST_STRIDE)[i] = x;
}
