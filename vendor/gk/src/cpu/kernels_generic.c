/* The kernels for any little-endian processor: with the vector extension of GCC and clang if available, else in
 * plain C. */
#include <math.h>

#include "cpu.h"

#define TILE 4
#define Q8_TILE 4
#define Q6_TILE 4
#define Q6_QUADS 4 /* all quads with one scale */
#define PLAIN_TILE 4
#define PLAIN_GROUPS 1
#define QUADS_UNROLLED 1
#define PIN(sums) ((void)(sums))
#define ISA_NAME "generic"
#define ISA_TABLE gk_cpu_generic
#define ISA_UNSIGNED false

/* The body of a function that computes every element of `r.p`, lanes or vectors of lanes. */
#define EACH(type, expression) \
    { \
        type r; \
        for (size_t n = 0; n < sizeof r.p / sizeof *r.p; n++) r.p[n] = (expression); \
        return r; \
    }

#if (defined(__GNUC__) || defined(__clang__)) && !defined(GK_CPU_PLAIN_C)

/* Sixteen lanes as four vectors of four, which GCC and clang compile to SSE2 or NEON. */
typedef float f4 __attribute__((vector_size(16)));
typedef int32_t i4 __attribute__((vector_size(16)));
typedef int16_t s8 __attribute__((vector_size(16)));
typedef uint16_t u4 __attribute__((vector_size(8)));

typedef struct v16 {
    f4 p[4];
} v16;
typedef struct n16 {
    i4 p[4];
} n16;
typedef const unsigned char *w64;

static inline f4 f4_set1(float x) { return (f4){x, x, x, x}; }
static inline i4 i4_set1(int32_t x) { return (i4){x, x, x, x}; }
static inline f4 f4_of_bits(i4 bits) {
    f4 f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline i4 bits_of_f4(f4 f) {
    i4 bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
/* a where the mask is all ones, else b. */
static inline f4 f4_select(i4 mask, f4 a, f4 b) { return f4_of_bits((mask & bits_of_f4(a)) | (~mask & bits_of_f4(b))); }
static inline f4 f4_load(const float *x) {
    f4 f;
    memcpy(&f, x, sizeof f);
    return f;
}
/* Same as gk_f32_of_f16. */
static inline f4 f4_load_half(const uint16_t *x) {
    u4 raw;
    memcpy(&raw, x, sizeof raw);
    i4 half = __builtin_convertvector(raw, i4), magnitude = half & 0x7fff;
    i4 normal = (magnitude << 13) + (112 << 23) + ((magnitude >= 0x7c00) & (112 << 23));
    f4 small = f4_of_bits(magnitude + 0x3f000000) - 0.5f;
    f4 value = f4_select(magnitude < 0x400, small, f4_of_bits(normal));
    return f4_of_bits(bits_of_f4(value) | ((half & 0x8000) << 16));
}
static inline f4 f4_load_bf16(const uint16_t *x) {
    u4 raw;
    memcpy(&raw, x, sizeof raw);
    return f4_of_bits(__builtin_convertvector(raw, i4) << 16);
}
/* Same as exp_of in kernels_avx2.c. */
static inline f4 f4_exp(f4 x) {
    x = f4_select(x < -87.0f, f4_set1(-87.0f), x);
    x = f4_select(x > 88.0f, f4_set1(88.0f), x);
    f4 shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the sum has no fractional bits */
    f4 n = shifted - 12582912.0f;
    f4 r = x - n * 0.693359375f + n * 2.12194440e-4f;
    f4 p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    i4 power = (bits_of_f4(shifted) - 0x4b400000 + 127) << 23;
    return f4_select(x == x, p * f4_of_bits(power), x);
}

static inline v16 v16_set1(float x) EACH(v16, f4_set1(x))
static inline v16 v16_zero(void) EACH(v16, f4_set1(0.0f))
static inline v16 v16_load(const float *x) EACH(v16, f4_load(x + 4 * n))
static inline v16 v16_load_half(const uint16_t *x) EACH(v16, f4_load_half(x + 4 * n))
static inline v16 v16_load_bf16(const uint16_t *x) EACH(v16, f4_load_bf16(x + 4 * n))
static inline v16 v16_max(v16 a, v16 b) EACH(v16, f4_select(a.p[n] > b.p[n], a.p[n], b.p[n]))
static inline v16 v16_abs(v16 a) EACH(v16, f4_of_bits(bits_of_f4(a.p[n]) & 0x7fffffff))
static inline v16 v16_exp(v16 a) EACH(v16, f4_exp(a.p[n]))
static inline v16 v16_round(v16 a) EACH(v16, a.p[n] + 12582912.0f - 12582912.0f) /* for magnitudes far below 2^22 */
static inline float v16_sum(v16 a) {
    f4 s = (a.p[0] + a.p[1]) + (a.p[2] + a.p[3]);
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static inline n16 n16_zero(void) EACH(n16, i4_set1(0))
static inline w64 w64_load(const unsigned char *w) { return w; }
/* Bytes 0 and 2 of a row times the even activations, bytes 1 and 3 times the odd ones: a sum of two products fits
 * into 16 bits, 2 * 128 * 127 < 2^15. Then adds both halves of each 32 bits. */
static inline i4 dot_of(i4 acc, const unsigned char *w, s8 x_even, s8 x_odd) {
    s8 bytes;
    memcpy(&bytes, w, sizeof bytes);
    s8 pairs = ((bytes << 8) >> 8) * x_even + (bytes >> 8) * x_odd;
    i4 both;
    memcpy(&both, &pairs, sizeof both);
    return acc + ((both << 16) >> 16) + (both >> 16);
}
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    const i4 all = i4_set1(four);
    s8 bytes;
    memcpy(&bytes, &all, sizeof bytes);
    const s8 even = (bytes << 8) >> 8, odd = bytes >> 8;
    EACH(n16, dot_of(a.p[n], w + 16 * n, even, odd))
}
static inline v16 n16_to_v16(n16 a) EACH(v16, __builtin_convertvector(a.p[n], f4))

#else

typedef struct v16 {
    float p[16];
} v16;
typedef struct n16 {
    int32_t p[16];
} n16;
typedef const int8_t *w64;

static inline v16 v16_set1(float x) EACH(v16, x)
static inline v16 v16_zero(void) EACH(v16, 0)
static inline v16 v16_load(const float *x) EACH(v16, x[n])
static inline v16 v16_load_half(const uint16_t *x) EACH(v16, gk_f32_of_f16(x[n]))
static inline v16 v16_load_bf16(const uint16_t *x) EACH(v16, gk_f32_of_bf16(x[n]))
static inline v16 v16_max(v16 a, v16 b) EACH(v16, a.p[n] > b.p[n] ? a.p[n] : b.p[n])
static inline v16 v16_abs(v16 a) EACH(v16, fabsf(a.p[n]))
static inline v16 v16_exp(v16 a) EACH(v16, expf(a.p[n]))
static inline v16 v16_round(v16 a) EACH(v16, nearbyintf(a.p[n]))
static inline float v16_sum(v16 a) {
    for (int width = 8; width > 0; width /= 2) {
        for (int n = 0; n < width; n++) a.p[n] += a.p[n + width];
    }
    return a.p[0];
}

static inline n16 n16_zero(void) EACH(n16, 0)
static inline w64 w64_load(const unsigned char *w) { return (const int8_t *)w; }
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    const int8_t *q = (const int8_t *)x;
    EACH(n16, a.p[n] + w[4 * n] * q[0] + w[4 * n + 1] * q[1] + w[4 * n + 2] * q[2] + w[4 * n + 3] * q[3])
}
static inline v16 n16_to_v16(n16 a) EACH(v16, (float)a.p[n])

#endif

/* ---- for both kinds of lanes ---- */

typedef struct u64 {
    unsigned char p[64];
} u64;
typedef n16 s16, scale16;

static inline v16 v16_add(v16 a, v16 b) EACH(v16, a.p[n] + b.p[n])
static inline v16 v16_mul(v16 a, v16 b) EACH(v16, a.p[n] * b.p[n])
static inline v16 v16_div(v16 a, v16 b) EACH(v16, a.p[n] / b.p[n])
static inline v16 v16_fma(v16 a, v16 b, v16 c) EACH(v16, a.p[n] * b.p[n] + c.p[n])
static inline void v16_store(float *x, v16 a) { memcpy(x, a.p, sizeof a.p); }
static inline float v16_max_of(v16 a) {
    float lanes[16], largest;
    v16_store(lanes, a);
    largest = lanes[0];
    for (int n = 1; n < 16; n++) largest = lanes[n] > largest ? lanes[n] : largest;
    return largest;
}
static inline void v16_store_i8(unsigned char *out, v16 a) {
    float lanes[16];
    v16_store(lanes, a);
    for (int n = 0; n < 16; n++) out[n] = (unsigned char)(int8_t)(lanes[n] == lanes[n] ? lanes[n] : 0);
}

static inline u64 u64_load(const unsigned char *w) EACH(u64, w[n])
static inline void u64_store(unsigned char *out, u64 a) { memcpy(out, a.p, sizeof a.p); }
static inline u64 u64_low(const unsigned char *w) EACH(u64, w[n] & 15)
static inline u64 u64_high(const unsigned char *w) EACH(u64, w[n] >> 4)
static inline u64 u64_six(const unsigned char *w) EACH(u64, w[n] & 63)
static inline u64 u64_fourth(const unsigned char *w, size_t step)
    EACH(u64, (unsigned char)(w[n] >> 6 << 4 | w[n + step] >> 6 << 2 | w[n + 2 * step] >> 6))
static inline s16 s16_zero(void) { return n16_zero(); }
static inline s16 s16_dot(s16 a, u64 w, const unsigned char *x) { return n16_dot(a, w64_load(w.p), x); }
static inline n16 s16_to_n16(s16 a) { return a; }
static inline n16 n16_add(n16 a, n16 b) EACH(n16, a.p[n] + b.p[n])
static inline scale16 scale16_of(const int32_t *lanes) {
    scale16 r;
    memcpy(r.p, lanes, sizeof r.p);
    return r;
}
static inline scale16 scale16_u8(const unsigned char *x) {
    int32_t lanes[16];
    for (int n = 0; n < 16; n++) lanes[n] = x[n];
    return scale16_of(lanes);
}
static inline scale16 scale16_i8(const unsigned char *x) {
    int32_t lanes[16];
    for (int n = 0; n < 16; n++) lanes[n] = (int8_t)x[n];
    return scale16_of(lanes);
}
static inline s16 s16_start(const unsigned char *pair) {
    int16_t two[2];
    int32_t lanes[16];
    memcpy(two, pair, sizeof two);
    for (int n = 0; n < 16; n++) lanes[n] = two[0] + two[1];
    return scale16_of(lanes);
}
static inline n16 s16_times(s16 a, scale16 scale) EACH(n16, a.p[n] * scale.p[n])
static inline v16 v16_load_u8(const unsigned char *x) { return n16_to_v16(scale16_u8(x)); }

#include "kernels.inc"
