/* The types and functions of kernels.inc in AVX2, FMA and F16C, except the dot products of integers. All are static: see
 * kernels.inc. */
#ifndef GK_AVX2_H
#define GK_AVX2_H

#include <immintrin.h>
#include <math.h>

#include "cpu.h"

#define PLAIN_TILE 6
#define PLAIN_GROUPS 1
#define QUADS_UNROLLED 8
/* Compilers that see the fully unrolled loop multiply first and add later, and run out of registers. PIN forces the
 * sums of one step before the next. */
#if defined(__GNUC__) || defined(__clang__)
#define PIN(sums) __asm__ volatile("" : "+x"((sums).lo), "+x"((sums).hi))
#else
#define PIN(sums) ((void)(sums))
#endif

typedef struct v16 {
    __m256 lo, hi;
} v16;
typedef struct n16 {
    __m256i lo, hi;
} n16;
typedef struct u64 {
    __m256i lo, hi;
} u64;
static inline v16 v16_set1(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v16_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline v16 v16_load(const float *x) { return (v16){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
static inline void v16_store(float *x, v16 a) {
    _mm256_storeu_ps(x, a.lo);
    _mm256_storeu_ps(x + 8, a.hi);
}
static inline v16 v16_load_half(const uint16_t *x) {
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + 8)))};
}
static inline __m256 of_bf16(const uint16_t *x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)x)), 16));
}
static inline v16 v16_load_bf16(const uint16_t *x) { return (v16){of_bf16(x), of_bf16(x + 8)}; }
/* 16 bytes, duplicated into both halves of a register for a shuffle. */
static inline __m256i twice(const unsigned char *x) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)x)); }
static inline v16 v16_load_u8(const unsigned char *x) {
    const __m256i bytes = twice(x), first = _mm256_setr_epi64x((long long)0x8080800180808000, (long long)0x8080800380808002,
                                                               (long long)0x8080800580808004, (long long)0x8080800780808006);
    return (v16){_mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, first)),
                 _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, _mm256_add_epi8(first, _mm256_set1_epi32(8))))};
}
static inline v16 v16_add(v16 a, v16 b) { return (v16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
static inline v16 v16_mul(v16 a, v16 b) { return (v16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
static inline v16 v16_div(v16 a, v16 b) { return (v16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
static inline v16 v16_fma(v16 a, v16 b, v16 c) { return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)}; }
static inline v16 v16_max(v16 a, v16 b) { return (v16){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
static inline v16 v16_abs(v16 a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
static inline float v16_sum(v16 a) {
    __m256 s = _mm256_add_ps(a.lo, a.hi);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
}
static inline float v16_max_of(v16 a) {
    __m256 s = _mm256_max_ps(a.lo, a.hi);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
}

/* e^x = 2^n * e^r with |r| <= ln(2) / 2; relative error about 1e-7. Clamped below 2^-126 and above 2^127. NaN stays
 * NaN because max and min then return their second operand. */
static inline __m256 exp_of(__m256 x) {
    x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(_mm256_set1_ps(-87.0f), x));
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.0f / 720);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}
static inline v16 v16_exp(v16 a) { return (v16){exp_of(a.lo), exp_of(a.hi)}; }

static inline v16 v16_round(v16 a) {
    return (v16){_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
static inline void v16_store_i8(unsigned char *out, v16 a) {
    __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
    words = _mm256_permute4x64_epi64(words, 0xd8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)out, bytes);
}

static inline n16 n16_zero(void) {
    return (n16){_mm256_setzero_si256(), _mm256_setzero_si256()};
}
static inline v16 n16_to_v16(n16 a) { return (v16){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

static inline u64 u64_load(const unsigned char *w) {
    return (u64){_mm256_loadu_si256((const __m256i *)(const void *)w), _mm256_loadu_si256((const __m256i *)(const void *)(w + 32))};
}
static inline void u64_store(unsigned char *out, u64 a) {
    _mm256_storeu_si256((__m256i *)(void *)out, a.lo);
    _mm256_storeu_si256((__m256i *)(void *)(out + 32), a.hi);
}
static inline __m256i nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
static inline u64 u64_low(const unsigned char *w) {
    const u64 bytes = u64_load(w);
    return (u64){nibbles(bytes.lo), nibbles(bytes.hi)};
}
static inline u64 u64_high(const unsigned char *w) {
    const u64 bytes = u64_load(w);
    return (u64){nibbles(_mm256_srli_epi16(bytes.lo, 4)), nibbles(_mm256_srli_epi16(bytes.hi, 4))};
}
static inline u64 u64_six(const unsigned char *w) {
    const u64 bytes = u64_load(w);
    return (u64){_mm256_and_si256(bytes.lo, _mm256_set1_epi8(63)), _mm256_and_si256(bytes.hi, _mm256_set1_epi8(63))};
}
/* The two high bits of a byte, below those of `above`. */
static inline __m256i top_bits(__m256i above, __m256i bytes) {
    return _mm256_srli_epi16(_mm256_or_si256(above, _mm256_and_si256(bytes, _mm256_set1_epi8((char)0xc0))), 2);
}
static inline u64 u64_fourth(const unsigned char *w, size_t step) {
    const u64 a = u64_load(w), b = u64_load(w + step), c = u64_load(w + 2 * step);
    const __m256i zero = _mm256_setzero_si256();
    return (u64){top_bits(top_bits(top_bits(zero, c.lo), b.lo), a.lo), top_bits(top_bits(top_bits(zero, c.hi), b.hi), a.hi)};
}
static inline n16 n16_add(n16 a, n16 b) { return (n16){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }

#endif
