/* The AVX-512 intrinsics that src/cpu/avx512.h uses, in plain C, so that its logic can be tested on a machine
 * without them: configure with -DGK_CPU_EMULATE=ON. This tests neither speed nor the compiler's code
 * generation. Semantics follow Intel's manual, lane by lane. */
#ifndef GK_AVX512_EMULATION_H
#define GK_AVX512_EMULATION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "gk_internal.h"

typedef struct { float f[16]; } __m512;
typedef struct { int32_t i[16]; } __m512i;
typedef struct { uint16_t h[16]; } __m256i;
typedef struct { int8_t b[16]; } __m128i;

#define EMULATE_LANES(name, parameters, expression) \
    static inline __m512i name parameters { \
        __m512i r; \
        for (int n = 0; n < 16; n++) r.i[n] = (int32_t)(expression); \
        return r; \
    }

static inline uint32_t emulated_halves(int32_t lane, int left, int right) {
    const uint32_t bits = (uint32_t)lane, low = bits & 0xffffu, high = bits >> 16;
    return (low << left >> right & 0xffffu) | (high << left >> right & 0xffffu) << 16;
}

EMULATE_LANES(_mm512_setzero_si512, (void), 0)
EMULATE_LANES(_mm512_set1_epi8, (int8_t x), (uint32_t)(uint8_t)x * 0x01010101u)
EMULATE_LANES(_mm512_add_epi32, (__m512i a, __m512i b), (uint32_t)a.i[n] + (uint32_t)b.i[n])
EMULATE_LANES(_mm512_sub_epi32, (__m512i a, __m512i b), (uint32_t)a.i[n] - (uint32_t)b.i[n])
EMULATE_LANES(_mm512_mullo_epi32, (__m512i a, __m512i b), (uint32_t)a.i[n] * (uint32_t)b.i[n])
EMULATE_LANES(_mm512_and_si512, (__m512i a, __m512i b), a.i[n] & b.i[n])
EMULATE_LANES(_mm512_or_si512, (__m512i a, __m512i b), a.i[n] | b.i[n])
EMULATE_LANES(_mm512_slli_epi32, (__m512i a, int distance), (uint32_t)a.i[n] << distance)
EMULATE_LANES(_mm512_slli_epi16, (__m512i a, int distance), emulated_halves(a.i[n], distance, 0))
EMULATE_LANES(_mm512_srli_epi16, (__m512i a, int distance), emulated_halves(a.i[n], 0, distance))
EMULATE_LANES(_mm512_cvtepu16_epi32, (__m256i a), a.h[n])
EMULATE_LANES(_mm512_cvtepu8_epi32, (__m128i a), (uint8_t)a.b[n])
EMULATE_LANES(_mm512_cvtepi8_epi32, (__m128i a), a.b[n])

#define _MM_FROUND_TO_NEAREST_INT 0
#define _MM_FROUND_NO_EXC 8
#define EACH_LANE for (int n = 0; n < 16; n++)
#define EMULATE(name, parameters, expression) \
    static inline __m512 name parameters { \
        __m512 r; \
        EACH_LANE r.f[n] = (expression); \
        return r; \
    }

EMULATE(_mm512_set1_ps, (float x), x)
EMULATE(_mm512_setzero_ps, (void), 0.0f)
EMULATE(_mm512_loadu_ps, (const float *x), x[n])
EMULATE(_mm512_cvtph_ps, (__m256i a), gk_f32_of_f16(a.h[n]))
EMULATE(_mm512_add_ps, (__m512 a, __m512 b), a.f[n] + b.f[n])
EMULATE(_mm512_mul_ps, (__m512 a, __m512 b), a.f[n] * b.f[n])
EMULATE(_mm512_div_ps, (__m512 a, __m512 b), a.f[n] / b.f[n])
EMULATE(_mm512_fmadd_ps, (__m512 a, __m512 b, __m512 c), fmaf(a.f[n], b.f[n], c.f[n]))
EMULATE(_mm512_fnmadd_ps, (__m512 a, __m512 b, __m512 c), fmaf(-a.f[n], b.f[n], c.f[n]))
EMULATE(_mm512_max_ps, (__m512 a, __m512 b), a.f[n] > b.f[n] ? a.f[n] : b.f[n]) /* returns the second operand for NaN */
EMULATE(_mm512_min_ps, (__m512 a, __m512 b), a.f[n] < b.f[n] ? a.f[n] : b.f[n])
EMULATE(_mm512_abs_ps, (__m512 a), fabsf(a.f[n]))
EMULATE(_mm512_scalef_ps, (__m512 a, __m512 b), (float)ldexp((double)a.f[n], (int)floorf(b.f[n])))
EMULATE(_mm512_cvtepi32_ps, (__m512i a), (float)a.i[n])
EMULATE(emulated_roundscale, (__m512 a), nearbyintf(a.f[n]))
#define _mm512_roundscale_ps(a, mode) emulated_roundscale(a)

static inline void _mm512_storeu_ps(float *x, __m512 a) { memcpy(x, a.f, sizeof a.f); }

static inline float _mm512_reduce_add_ps(__m512 a) {
    float sum = 0;
    EACH_LANE sum += a.f[n];
    return sum;
}

static inline float _mm512_reduce_max_ps(__m512 a) {
    float largest = a.f[0];
    EACH_LANE largest = a.f[n] > largest ? a.f[n] : largest;
    return largest;
}

static inline __m256i _mm256_loadu_si256(const __m256i *x) {
    __m256i r;
    memcpy(&r, x, sizeof r);
    return r;
}

static inline __m512i _mm512_loadu_si512(const void *x) {
    __m512i r;
    memcpy(&r, x, sizeof r);
    return r;
}

static inline __m128i _mm_loadu_si128(const __m128i *x) {
    __m128i r;
    memcpy(&r, x, sizeof r);
    return r;
}

static inline __m512 _mm512_castsi512_ps(__m512i a) {
    __m512 r;
    memcpy(&r, &a, sizeof r);
    return r;
}

static inline void _mm512_storeu_si512(void *x, __m512i a) { memcpy(x, &a, sizeof a); }

static inline void _mm_storeu_si128(__m128i *x, __m128i a) { memcpy(x, &a, sizeof a); }

static inline __m512i _mm512_set1_epi32(int32_t x) {
    __m512i r;
    EACH_LANE r.i[n] = x;
    return r;
}

static inline __m512i _mm512_cvtps_epi32(__m512 a) {
    __m512i r;
    EACH_LANE r.i[n] = fabsf(a.f[n]) < 2147483648.0f ? (int32_t)nearbyintf(a.f[n]) : INT32_MIN;
    return r;
}

static inline __m128i _mm512_cvtsepi32_epi8(__m512i a) {
    __m128i r;
    EACH_LANE r.b[n] = (int8_t)(a.i[n] > 127 ? 127 : a.i[n] < -128 ? -128 : a.i[n]);
    return r;
}

/* The BF16 instructions: denormal inputs and results count as zero, and NaN stays NaN. */
typedef struct { uint16_t h[32]; } __m512bh;

static inline float emulated_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

static inline uint16_t emulated_bf16(float x) {
    const uint32_t bits = gk_bits_of_float(emulated_flush(x));
    if (x != x) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The second operand is the lower half. */
static inline __m512bh _mm512_cvtne2ps_pbh(__m512 a, __m512 b) {
    __m512bh r;
    EACH_LANE r.h[n] = emulated_bf16(b.f[n]), r.h[n + 16] = emulated_bf16(a.f[n]);
    return r;
}

static inline __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b) {
    EACH_LANE {
        for (int k = 2 * n + 1; k >= 2 * n; k--) {
            const float x = emulated_flush(gk_f32_of_bf16(a.h[k])), y = emulated_flush(gk_f32_of_bf16(b.h[k]));
            sum.f[n] = emulated_flush(fmaf(x, y, emulated_flush(sum.f[n])));
        }
    }
    return sum;
}

/* Unsigned bytes of the second operand times signed bytes of the third; no saturation. */
static inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
    uint8_t x[64];
    int8_t y[64];
    memcpy(x, &a, sizeof x);
    memcpy(y, &b, sizeof y);
    EACH_LANE {
        for (int k = 0; k < 4; k++) sum.i[n] += x[4 * n + k] * y[4 * n + k];
    }
    return sum;
}

#endif
