/* The kernels in plain C, for any processor. The loops over 16 lanes are left to the compiler's vectoriser. */
#include <math.h>

#include "cpu.h"

#define TILE 4
#define ISA_NAME "generic"
#define ISA_TABLE gk_cpu_generic
#define ISA_UNSIGNED false

#define LANES for (int n = 0; n < 16; n++)

typedef struct v16 {
    float f[16];
} v16;
typedef struct n16 {
    int32_t i[16];
} n16;
typedef const int8_t *w64;

static inline v16 v16_set1(float x) {
    v16 r;
    LANES r.f[n] = x;
    return r;
}
static inline v16 v16_zero(void) { return v16_set1(0); }
static inline v16 v16_load(const float *x) {
    v16 r;
    memcpy(r.f, x, sizeof r.f);
    return r;
}
static inline void v16_store(float *x, v16 a) { memcpy(x, a.f, sizeof a.f); }
static inline v16 v16_load_half(const uint16_t *x) {
    v16 r;
    LANES r.f[n] = gk_f32_of_f16(x[n]);
    return r;
}
static inline v16 v16_add(v16 a, v16 b) {
    LANES a.f[n] += b.f[n];
    return a;
}
static inline v16 v16_mul(v16 a, v16 b) {
    LANES a.f[n] *= b.f[n];
    return a;
}
static inline v16 v16_div(v16 a, v16 b) {
    LANES a.f[n] /= b.f[n];
    return a;
}
static inline v16 v16_fma(v16 a, v16 b, v16 c) {
    LANES c.f[n] += a.f[n] * b.f[n];
    return c;
}
static inline v16 v16_max(v16 a, v16 b) {
    LANES a.f[n] = a.f[n] > b.f[n] ? a.f[n] : b.f[n];
    return a;
}
static inline v16 v16_abs(v16 a) {
    LANES a.f[n] = fabsf(a.f[n]);
    return a;
}
static inline v16 v16_exp(v16 a) {
    LANES a.f[n] = expf(a.f[n]);
    return a;
}
static inline float v16_sum(v16 a) {
    for (int width = 8; width > 0; width /= 2) {
        for (int n = 0; n < width; n++) a.f[n] += a.f[n + width];
    }
    return a.f[0];
}
static inline float v16_max_of(v16 a) {
    float largest = a.f[0];
    LANES largest = a.f[n] > largest ? a.f[n] : largest;
    return largest;
}
static inline void v16_store_i8(unsigned char *out, v16 a) {
    LANES out[n] = (unsigned char)(int8_t)nearbyintf(a.f[n]);
}

static inline n16 n16_start(int32_t sum) {
    n16 r;
    (void)sum;
    LANES r.i[n] = 0;
    return r;
}
static inline w64 w64_load(const unsigned char *w) { return (const int8_t *)w; }
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    const int8_t *q = (const int8_t *)x;
    LANES a.i[n] += w[4 * n] * q[0] + w[4 * n + 1] * q[1] + w[4 * n + 2] * q[2] + w[4 * n + 3] * q[3];
    return a;
}
static inline v16 n16_to_v16(n16 a) {
    v16 r;
    LANES r.f[n] = (float)a.i[n];
    return r;
}

#include "kernels.inc"
