// What only some of AMD's GPUs have: products of bytes, and matrix units. fragments.cuh has the places of elements in registers.
#ifndef GK_GPU_AMD_CUH
#define GK_GPU_AMD_CUH

// The sum of four products of signed bytes, added to `sum`: LLVM's dot8-insts, and before RDNA 3 dot1-insts.
#if defined(__GFX11__) || defined(__GFX12__)
#define GK_DOT 1
GK_DEVICE int dot4(unsigned int x, unsigned int y, int sum) {
    return __builtin_amdgcn_sudot4(true, static_cast<int>(x), true, static_cast<int>(y), sum, false);
}
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    defined(__gfx950__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || \
    defined(__gfx1033__) || defined(__gfx1034__) || defined(__gfx1035__) || defined(__gfx1036__)
#define GK_DOT 1
GK_DEVICE int dot4(unsigned int x, unsigned int y, int sum) { return __builtin_amdgcn_sdot4(static_cast<int>(x), static_cast<int>(y), sum, false); }
#else
#define GK_DOT 0
#endif

// PRMT of CUDA: each nibble of the constant `selector` picks a byte of y:x. V_PERM_B32 has bytes instead of nibbles.
GK_DEVICE unsigned int select_bytes(unsigned int x, unsigned int y, unsigned int selector) {
    return __builtin_amdgcn_perm(y, x, (selector & 0xfu) | (selector & 0xf0u) << 4 | (selector & 0xf00u) << 8 | (selector & 0xf000u) << 12);
}

#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define GK_MMA GK_MMA_CDNA
#define GK_AMD_MATRIX_F16(a, b, sum) __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, sum, 0, 0, 0)
#define GK_AMD_MATRIX_BF16(a, b, sum) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, sum, 0, 0, 0)
#elif defined(__GFX11__)
#define GK_MMA GK_MMA_RDNA3
#define GK_AMD_MATRIX_F16 __builtin_amdgcn_wmma_f32_16x16x16_f16_w32
#define GK_AMD_MATRIX_BF16 __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define GK_MMA GK_MMA_RDNA4
#define GK_AMD_MATRIX_F16 __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12
#define GK_AMD_MATRIX_BF16 __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12
#else
#define GK_MMA 0
#endif

#if GK_MMA
// The instruction of the matrix units: sum += a * b, 16 x 16 elements each.
template <bool BF16, int SUMS, int WORDS> GK_DEVICE void amd_matrix(float (&sum)[SUMS], const unsigned int (&a)[WORDS], const unsigned int (&b)[WORDS]) {
    typedef _Float16 halves __attribute__((ext_vector_type(2 * WORDS)));
    typedef short shorts __attribute__((ext_vector_type(2 * WORDS)));
    typedef float floats __attribute__((ext_vector_type(SUMS)));
    floats all;
#pragma unroll
    for (int e = 0; e < SUMS; ++e) all[e] = sum[e];
    if (BF16) all = GK_AMD_MATRIX_BF16(__builtin_bit_cast(shorts, a), __builtin_bit_cast(shorts, b), all);
    else all = GK_AMD_MATRIX_F16(__builtin_bit_cast(halves, a), __builtin_bit_cast(halves, b), all);
#if GK_MMA != GK_MMA_CDNA // otherwise clang 19 moves the products of several tiles behind the last barrier, and spills the factors
    asm volatile("" : "+v"(all));
#endif
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sum[e] = all[e];
}

// Two f16 in each word.
typedef _Float16 two_halves __attribute__((ext_vector_type(2)));
GK_DEVICE unsigned int add_two(unsigned int x, unsigned int y) {
    return __builtin_bit_cast(unsigned int, __builtin_bit_cast(two_halves, x) + __builtin_bit_cast(two_halves, y));
}
GK_DEVICE unsigned int multiply_two(unsigned int x, unsigned int y) {
    return __builtin_bit_cast(unsigned int, __builtin_bit_cast(two_halves, x) * __builtin_bit_cast(two_halves, y));
}
GK_DEVICE unsigned int multiply_add_two(unsigned int x, unsigned int y, unsigned int z) {
    return __builtin_bit_cast(unsigned int, __builtin_bit_cast(two_halves, x) * __builtin_bit_cast(two_halves, y) + __builtin_bit_cast(two_halves, z));
}
#endif

#endif
