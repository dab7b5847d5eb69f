/* The kernels for AVX2, FMA and F16C with AVX-VNNI: processors with VNNI but without AVX-512. All functions are static;
 * only the table is exported. */
#include "avx2.h"

#if defined(GK_CPU_EMULATE)
#include "avx_vnni_emulation.h"
#endif

#define TILE 4
#define Q8_TILE 4
#define Q6_TILE 4
#define Q6_QUADS 4 /* all quads with one scale */
#define ISA_NAME "avx_vnni"
#define ISA_TABLE gk_cpu_avx_vnni
#define ISA_UNSIGNED true

typedef u64 w64;
typedef n16 s16; /* 32-bit sums: the instruction accumulates */
typedef n16 scale16;

/* Weights are stored with 128 added because the instruction multiplies unsigned by signed. */
static inline w64 w64_load(const unsigned char *w) { return u64_load(w); }
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    const __m256i q = _mm256_set1_epi32(four);
    return (n16){_mm256_dpbusd_avx_epi32(a.lo, w.lo, q), _mm256_dpbusd_avx_epi32(a.hi, w.hi, q)};
}

static inline s16 s16_zero(void) { return n16_zero(); }
static inline s16 s16_start(const unsigned char *pair) {
    int32_t both;
    memcpy(&both, pair, sizeof both);
    const __m256i sum = _mm256_madd_epi16(_mm256_set1_epi32(both), _mm256_set1_epi16(1));
    return (s16){sum, sum};
}
static inline s16 s16_dot(s16 a, u64 w, const unsigned char *x) { return n16_dot(a, w, x); }
static inline n16 s16_to_n16(s16 a) { return a; }
static inline __m128i eight_bytes(const unsigned char *x) { return _mm_loadl_epi64((const __m128i *)(const void *)x); }
static inline scale16 scale16_u8(const unsigned char *x) {
    return (scale16){_mm256_cvtepu8_epi32(eight_bytes(x)), _mm256_cvtepu8_epi32(eight_bytes(x + 8))};
}
static inline scale16 scale16_i8(const unsigned char *x) {
    return (scale16){_mm256_cvtepi8_epi32(eight_bytes(x)), _mm256_cvtepi8_epi32(eight_bytes(x + 8))};
}
static inline n16 s16_times(s16 a, scale16 scale) {
    return (n16){_mm256_mullo_epi32(a.lo, scale.lo), _mm256_mullo_epi32(a.hi, scale.hi)};
}

#include "kernels.inc"
