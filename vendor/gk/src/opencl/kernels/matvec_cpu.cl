// matvec.cl for processors: one work-item owns ROWS rows of the weight and COLUMNS tokens and needs no other; its
// vectors are 8 elements of k, the registers of AVX2. n: k, n_out, rows of b. S0: type of the weight.
#define ROWS S1
#define COLUMNS S2

// Elements without the scale that a block of q8_0 has.
float8 load_weights(const_bytes weight, ulong element) {
#if S0 == TYPE_F32
    return vload8(0, (const_floats)weight + element);
#elif S0 == TYPE_F16
    return vload_half8(0, (__global const half *)weight + element);
#elif defined(__clang__)
    return __builtin_convertvector(vload8(0, (__global const char *)weight + element), float8); // PoCL's own is slow
#else
    return convert_float8(vload8(0, (__global const char *)weight + element));
#endif
}

// How many elements have one scale.
#if S0 == TYPE_Q8_0
#define BLOCK 32u
#else
#define BLOCK 8u
#endif

// Rows of q8_0 have no rest.
float load_weight(const_bytes weight, ulong element) {
#if S0 == TYPE_F16
    return load_half(weight, element);
#else
    return ((const_floats)weight)[element];
#endif
}

float sum_of(float8 v) {
    float4 x = v.lo + v.hi;
    return (x.s0 + x.s2) + (x.s1 + x.s3);
}

KERNEL(matvec_cpu) {
    uint k = n.s0;
    uint n_out = n.s1;
    uint live = LIVE_ROWS(n.s2);
    bool last_row = (flags & LAST_ROW) != 0u;
    uint first_column = last_row ? live - 1u : (uint)get_group_id(1) * COLUMNS;
    if (first_column >= live) return;
    uint tiles = (n_out + ROWS - 1u) / ROWS;
    const_bytes weight = A;
    const_bytes scales = EXTRA;
    const_floats b = ROW(B, first_column, B_STRIDE);
    for (uint tile = get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
        ulong first[ROWS];
        float8 sum[ROWS * COLUMNS];
#pragma unroll
        for (uint r = 0u; r < ROWS; r++) first[r] = (ulong)min(tile * ROWS + r, n_out - 1u) * k;
#pragma unroll
        for (uint i = 0u; i < ROWS * COLUMNS; i++) sum[i] = (float8)(0.0f);
        for (uint i = 0u; i + BLOCK <= k; i += BLOCK) {
#if S0 == TYPE_Q8_0
            float scale[ROWS];
#pragma unroll
            for (uint r = 0u; r < ROWS; r++) scale[r] = load_half(scales, (first[r] + i) / 32u);
#endif
#pragma unroll
            for (uint j = 0u; j < BLOCK; j += 8u) {
                float8 w[ROWS];
#pragma unroll
                for (uint r = 0u; r < ROWS; r++) {
                    w[r] = load_weights(weight, first[r] + i + j);
#if S0 == TYPE_Q8_0
                    w[r] *= scale[r];
#endif
                }
#pragma unroll
                for (uint c = 0u; c < COLUMNS; c++) {
                    float8 x = vload8(0, b + (ulong)min(c, live - 1u - first_column) * B_STRIDE + i + j);
#pragma unroll
                    for (uint r = 0u; r < ROWS; r++) sum[r * COLUMNS + c] = mad(w[r], x, sum[r * COLUMNS + c]);
                }
            }
        }
#pragma unroll
        for (uint r = 0u; r < ROWS; r++) {
            uint row = tile * ROWS + r;
#pragma unroll
            for (uint c = 0u; c < COLUMNS; c++) {
                if (row < n_out && first_column + c < live) {
                    float value = sum_of(sum[r * COLUMNS + c]);
#if S0 != TYPE_Q8_0
                    for (uint i = k & ~7u; i < k; i++) value += load_weight(weight, first[r] + i) * b[(ulong)c * B_STRIDE + i];
#endif
                    floats dst = ROW(DST, last_row ? 0u : first_column + c, DST_STRIDE);
                    if ((flags & BIAS) != 0u) value += ((const_floats)C)[row];
                    if ((flags & ACCUMULATE) != 0u) value += dst[row];
                    dst[row] = value;
                }
            }
        }
    }
}
