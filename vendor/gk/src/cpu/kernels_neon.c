/* The kernels for AArch64 with the dot-product instructions (Armv8.2). All functions are static; only the table is
 * exported. */
#include <arm_neon.h>
#include <math.h>

#include "cpu.h"

#define TILE 4
#define Q8_TILE 4
#define Q6_TILE 4
#define Q6_QUADS 4 /* all quads with one scale */
#define PLAIN_TILE 6
#define PLAIN_GROUPS 1
#define QUADS_UNROLLED 8
#define PIN(sums) ((void)(sums))
#define ISA_NAME "neon"
#define ISA_TABLE gk_cpu_neon
#define ISA_UNSIGNED false

typedef struct v16 {
    float32x4_t p[4];
} v16;
typedef struct n16 {
    int32x4_t p[4];
} n16;
typedef struct w64 {
    int8x16_t p[4];
} w64;
typedef w64 u64; /* at most 6 bits, which fit a signed byte */
typedef n16 s16; /* 32-bit sums: the instruction accumulates */
typedef n16 scale16;

#define FOUR(type, expression) \
    { \
        type r; \
        for (int n = 0; n < 4; n++) r.p[n] = (expression); \
        return r; \
    }

static inline v16 v16_set1(float x) FOUR(v16, vdupq_n_f32(x))
static inline v16 v16_zero(void) FOUR(v16, vdupq_n_f32(0))
static inline v16 v16_load(const float *x) FOUR(v16, vld1q_f32(x + 4 * n))
static inline v16 v16_load_half(const uint16_t *x) FOUR(v16, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + 4 * n))))
static inline v16 v16_load_bf16(const uint16_t *x) FOUR(v16, vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + 4 * n), 16)))
static inline v16 v16_add(v16 a, v16 b) FOUR(v16, vaddq_f32(a.p[n], b.p[n]))
static inline v16 v16_mul(v16 a, v16 b) FOUR(v16, vmulq_f32(a.p[n], b.p[n]))
static inline v16 v16_div(v16 a, v16 b) FOUR(v16, vdivq_f32(a.p[n], b.p[n]))
static inline v16 v16_fma(v16 a, v16 b, v16 c) FOUR(v16, vfmaq_f32(c.p[n], a.p[n], b.p[n]))
static inline v16 v16_max(v16 a, v16 b) FOUR(v16, vbslq_f32(vcgtq_f32(a.p[n], b.p[n]), a.p[n], b.p[n]))
static inline v16 v16_abs(v16 a) FOUR(v16, vabsq_f32(a.p[n]))
static inline v16 v16_round(v16 a) FOUR(v16, vrndnq_f32(a.p[n]))
static inline void v16_store(float *x, v16 a) {
    for (int n = 0; n < 4; n++) vst1q_f32(x + 4 * n, a.p[n]);
}
static inline float v16_sum(v16 a) { return vaddvq_f32(vaddq_f32(vaddq_f32(a.p[0], a.p[1]), vaddq_f32(a.p[2], a.p[3]))); }
static inline float v16_max_of(v16 a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.p[0], a.p[1]), vmaxq_f32(a.p[2], a.p[3])));
}

/* Same as exp_of in kernels_avx2.c. */
static inline float32x4_t exp_of(float32x4_t x) {
    const float32x4_t low = vdupq_n_f32(-87.0f), high = vdupq_n_f32(88.0f);
    const float32x4_t y = vbslq_f32(vcltq_f32(x, low), low, vbslq_f32(vcgtq_f32(x, high), high, x));
    const float32x4_t n = vrndnq_f32(vmulq_n_f32(y, 1.44269504f));
    const float32x4_t r = vfmsq_n_f32(vfmsq_n_f32(y, n, 0.693359375f), n, -2.12194440e-4f);
    float32x4_t p = vdupq_n_f32(1.0f / 720);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 120), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 24), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 6), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const int32x4_t power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
    return vbslq_f32(vceqq_f32(x, x), vmulq_f32(p, vreinterpretq_f32_s32(power)), x);
}
static inline v16 v16_exp(v16 a) FOUR(v16, exp_of(a.p[n]))

static inline void v16_store_i8(unsigned char *out, v16 a) {
    const int16x8_t low = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(a.p[0])), vqmovn_s32(vcvtnq_s32_f32(a.p[1])));
    const int16x8_t high = vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(a.p[2])), vqmovn_s32(vcvtnq_s32_f32(a.p[3])));
    vst1q_u8(out, vreinterpretq_u8_s8(vcombine_s8(vqmovn_s16(low), vqmovn_s16(high))));
}

static inline n16 n16_zero(void) FOUR(n16, vdupq_n_s32(0))
static inline w64 w64_load(const unsigned char *w) FOUR(w64, vreinterpretq_s8_u8(vld1q_u8(w + 16 * n)))
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    const int8x16_t q = vreinterpretq_s8_s32(vdupq_n_s32(four));
    FOUR(n16, vdotq_s32(a.p[n], w.p[n], q))
}
static inline v16 n16_to_v16(n16 a) FOUR(v16, vcvtq_f32_s32(a.p[n]))

static inline u64 u64_load(const unsigned char *w) { return w64_load(w); }
static inline void u64_store(unsigned char *out, u64 a) {
    for (int n = 0; n < 4; n++) vst1q_u8(out + 16 * n, vreinterpretq_u8_s8(a.p[n]));
}
static inline u64 u64_low(const unsigned char *w) FOUR(u64, vreinterpretq_s8_u8(vandq_u8(vld1q_u8(w + 16 * n), vdupq_n_u8(15))))
static inline u64 u64_high(const unsigned char *w) FOUR(u64, vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(w + 16 * n), 4)))
static inline u64 u64_six(const unsigned char *w) FOUR(u64, vreinterpretq_s8_u8(vandq_u8(vld1q_u8(w + 16 * n), vdupq_n_u8(63))))
/* Inserts the two high bits of each byte below those of the bytes before. */
static inline int8x16_t top_bits(const unsigned char *w, size_t step) {
    const uint8x16_t a = vld1q_u8(w), b = vld1q_u8(w + step), c = vld1q_u8(w + 2 * step);
    return vreinterpretq_s8_u8(vshrq_n_u8(vsriq_n_u8(a, vsriq_n_u8(b, c, 2), 2), 2));
}
static inline u64 u64_fourth(const unsigned char *w, size_t step) FOUR(u64, top_bits(w + 16 * n, step))
static inline s16 s16_zero(void) { return n16_zero(); }
static inline s16 s16_start(const unsigned char *pair) {
    int16_t two[2];
    memcpy(two, pair, sizeof two);
    const int32x4_t sum = vdupq_n_s32(two[0] + two[1]);
    return (s16){{sum, sum, sum, sum}};
}
static inline s16 s16_dot(s16 a, u64 w, const unsigned char *x) { return n16_dot(a, w, x); }
static inline n16 s16_to_n16(s16 a) { return a; }
static inline n16 n16_add(n16 a, n16 b) FOUR(n16, vaddq_s32(a.p[n], b.p[n]))
static inline n16 widened(int16x8_t low, int16x8_t high) {
    return (n16){{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)}};
}
static inline scale16 scale16_u8(const unsigned char *x) {
    const uint8x16_t bytes = vld1q_u8(x);
    return widened(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))), vreinterpretq_s16_u16(vmovl_high_u8(bytes)));
}
static inline scale16 scale16_i8(const unsigned char *x) {
    const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(x));
    return widened(vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes));
}
static inline n16 s16_times(s16 a, scale16 scale) FOUR(n16, vmulq_s32(a.p[n], scale.p[n]))
static inline v16 v16_load_u8(const unsigned char *x) { return n16_to_v16(scale16_u8(x)); }

#include "kernels.inc"
