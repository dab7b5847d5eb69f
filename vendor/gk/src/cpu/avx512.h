/* The types and functions of kernels.inc in AVX-512 (F, BW, VL, DQ) with VNNI. All are static: see kernels.inc. */
#ifndef GK_AVX512_H
#define GK_AVX512_H

#include <math.h>

#if defined(GK_CPU_EMULATE)
#include "avx512_emulation.h"
#else
#include <immintrin.h>
#endif

#include "cpu.h"

typedef __m512 v16;
typedef __m512i n16;
typedef __m512i w64;
typedef __m512i u64;
typedef __m512i s16; /* 32-bit sums: the instruction accumulates */
typedef __m512i scale16;

static inline v16 v16_set1(float x) { return _mm512_set1_ps(x); }
static inline v16 v16_zero(void) { return _mm512_setzero_ps(); }
static inline v16 v16_load(const float *x) { return _mm512_loadu_ps(x); }
static inline void v16_store(float *x, v16 a) { _mm512_storeu_ps(x, a); }
static inline v16 v16_load_half(const uint16_t *x) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x)); }
static inline v16 v16_load_bf16(const uint16_t *x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x)), 16));
}
static inline v16 v16_load_u8(const unsigned char *x) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x)));
}
static inline v16 v16_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
static inline v16 v16_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
static inline v16 v16_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
static inline v16 v16_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
static inline v16 v16_abs(v16 a) { return _mm512_abs_ps(a); }
static inline float v16_sum(v16 a) { return _mm512_reduce_add_ps(a); }
static inline float v16_max_of(v16 a) { return _mm512_reduce_max_ps(a); }

/* As in kernels_avx2.c; scalef multiplies by 2^n and underflows to 0. */
static inline v16 v16_exp(v16 x) {
    x = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(_mm512_set1_ps(-200.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

static inline v16 v16_round(v16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline void v16_store_i8(unsigned char *out, v16 a) {
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a)));
}

static inline n16 n16_zero(void) { return _mm512_setzero_si512(); }
/* Weights are stored with 128 added because the instruction multiplies unsigned by signed. */
static inline w64 w64_load(const unsigned char *w) { return _mm512_loadu_si512(w); }
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    return _mm512_dpbusd_epi32(a, w, _mm512_set1_epi32(four));
}
static inline v16 n16_to_v16(n16 a) { return _mm512_cvtepi32_ps(a); }

static inline u64 u64_load(const unsigned char *w) { return _mm512_loadu_si512(w); }
static inline void u64_store(unsigned char *out, u64 a) { _mm512_storeu_si512(out, a); }
static inline u64 u64_low(const unsigned char *w) { return _mm512_and_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(15)); }
static inline u64 u64_high(const unsigned char *w) {
    return _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(w), 4), _mm512_set1_epi8(15));
}
static inline u64 u64_six(const unsigned char *w) { return _mm512_and_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(63)); }
static inline u64 u64_fourth(const unsigned char *w, size_t step) {
    const u64 top = _mm512_set1_epi8(-64);
    u64 bits = _mm512_srli_epi16(_mm512_and_si512(_mm512_loadu_si512(w + 2 * step), top), 2);
    bits = _mm512_srli_epi16(_mm512_or_si512(bits, _mm512_and_si512(_mm512_loadu_si512(w + step), top)), 2);
    return _mm512_srli_epi16(_mm512_or_si512(bits, _mm512_and_si512(_mm512_loadu_si512(w), top)), 2);
}
static inline s16 s16_zero(void) { return _mm512_setzero_si512(); }
static inline s16 s16_start(const unsigned char *pair) {
    int16_t two[2];
    memcpy(two, pair, sizeof two);
    return _mm512_set1_epi32(two[0] + two[1]);
}
static inline s16 s16_dot(s16 a, u64 w, const unsigned char *x) { return n16_dot(a, w, x); }
static inline n16 s16_to_n16(s16 a) { return a; }
static inline n16 n16_add(n16 a, n16 b) { return _mm512_add_epi32(a, b); }
static inline scale16 scale16_u8(const unsigned char *x) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x)); }
static inline scale16 scale16_i8(const unsigned char *x) { return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x)); }
static inline n16 s16_times(s16 a, scale16 scale) { return _mm512_mullo_epi32(a, scale); }

#endif
