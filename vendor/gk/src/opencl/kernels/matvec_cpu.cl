// matvec.cl for CPUs: one work-item processes ROWS rows of the weight and COLUMNS tokens independently of others; its
// vectors are 8 elements of k, the registers of AVX2. n: k, n_out, rows of b.
#define ROWS S2
#define COLUMNS S3

#if defined(__clang__)
#define FLOATS_OF(vector) __builtin_convertvector(vector, float8) // PoCL's convert_float8 is slow
#else
#define FLOATS_OF(vector) convert_float8(vector)
#endif

#if BLOCKS
#define STEP 32u // elements with the same scales

// Elements j .. j + 7 of 32, whose quants are at `quants`.
float8 load_eight(const piece *w, const_bytes quants, uint j) {
#if WEIGHT_TYPE == TYPE_Q8_0
    return w->scale[0] * FLOATS_OF(vload8(0, (__global const char *)quants + j));
#else
    uint2 word = (*(__global const uint2 *)(quants + j % 16u) >> (j / 16u * 4u)) & 0x0f0f0f0fu;
#if WEIGHT_TYPE == TYPE_Q6_K
    uint high = w->high[j / 16u] >> (j % 16u / 8u * 4u);
    word |= ((uint2)(high, high >> 2) & 0x03030303u) << 4;
    return w->scale[j / 16u] * (FLOATS_OF(as_uchar8(word)) - 32.0f);
#elif WEIGHT_TYPE == TYPE_Q4_K
    return w->scale[0] * FLOATS_OF(as_uchar8(word)) - w->minimum;
#else
    return w->scale[0] * (FLOATS_OF(as_uchar8(word)) - 8.0f);
#endif
#endif
}

#else
#define STEP 8u

float8 load_plain(const_bytes weight, ulong element) {
#if WEIGHT_TYPE == TYPE_F32
    return vload8(0, (const_floats)weight + element);
#elif WEIGHT_TYPE == TYPE_F16
    return vload_half8(0, (__global const half *)weight + element);
#else
    return as_float8(convert_uint8(vload8(0, (const_halves)weight + element)) << 16);
#endif
}

// For the rest of a row after complete vectors.
float load_one(const_bytes weight, ulong element) {
#if WEIGHT_TYPE == TYPE_F32
    return ((const_floats)weight)[element];
#elif WEIGHT_TYPE == TYPE_F16
    return load_half(weight, element);
#else
    return as_float((uint)((const_halves)weight)[element] << 16);
#endif
}
#endif

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
    const_floats b = ROW(B, first_column, B_STRIDE);
    for (uint tile = get_group_id(0); tile < tiles; tile += get_num_groups(0)) {
        ulong first[ROWS];
        float8 sum[ROWS * COLUMNS];
#pragma unroll
        for (uint r = 0u; r < ROWS; r++) first[r] = (ulong)min(tile * ROWS + r, n_out - 1u) * k;
#pragma unroll
        for (uint i = 0u; i < ROWS * COLUMNS; i++) sum[i] = (float8)(0.0f);
        for (uint i = 0u; i + STEP <= k; i += STEP) {
#if BLOCKS
            piece pieces[ROWS];
#pragma unroll
            for (uint r = 0u; r < ROWS; r++) load_scales(weight, n, (first[r] + i) / 32u, &pieces[r]);
#endif
#pragma unroll
            for (uint j = 0u; j < STEP; j += 8u) {
                float8 w[ROWS];
#pragma unroll
                for (uint r = 0u; r < ROWS; r++) {
#if BLOCKS
                    w[r] = load_eight(&pieces[r], QUANTS(first[r] + i), j);
#else
                    w[r] = load_plain(weight, first[r] + i + j);
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
#if !BLOCKS
                    for (uint i = k & ~7u; i < k; i++) value += load_one(weight, first[r] + i) * b[(ulong)c * B_STRIDE + i];
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
