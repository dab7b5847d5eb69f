/* The instruction of AVX-VNNI that src/cpu/kernels_avx_vnni.c uses, in AVX2, so that its logic can be tested without
 * it: configure with -DGK_CPU_EMULATE=ON. */
#ifndef GK_AVX_VNNI_EMULATION_H
#define GK_AVX_VNNI_EMULATION_H

#include <immintrin.h>

/* Unsigned bytes of the second operand times signed bytes of the third; sums of 32 bits without saturation. */
static inline __m256i emulated_dpbusd(__m256i sum, __m256i a, __m256i b) {
    const __m256i a_even = _mm256_and_si256(a, _mm256_set1_epi16(255)), a_odd = _mm256_srli_epi16(a, 8);
    const __m256i b_even = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8), b_odd = _mm256_srai_epi16(b, 8);
    return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(a_even, b_even), _mm256_madd_epi16(a_odd, b_odd)));
}
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd

#endif
