/* The kernels for AVX2, FMA and F16C. All functions are static; only the table is exported. */
#include "avx2.h"

#define TILE 4
#define Q8_TILE 3
#define Q6_TILE 2
#define Q6_QUADS 2 /* quads of q6_k that a sum of 16 bits can hold */
#define ISA_NAME "avx2"
#define ISA_TABLE gk_cpu_avx2
#define ISA_UNSIGNED false

typedef struct w64 {
    __m256i lo, hi, abs_lo, abs_hi;
} w64;
typedef struct s16 {
    __m256i lo, hi; /* 16-bit sums */
} s16;
typedef struct scale16 {
    __m256i lo, hi;
} scale16;

static inline w64 w64_load(const unsigned char *w) {
    __m256i lo = _mm256_loadu_si256((const __m256i *)(const void *)w), hi = _mm256_loadu_si256((const __m256i *)(const void *)(w + 32));
    return (w64){lo, hi, _mm256_abs_epi8(lo), _mm256_abs_epi8(hi)};
}
/* The instruction multiplies unsigned by signed: the sign of the weight moves to the activation. No sum of two
 * saturates: 2 * 128 * 127 < 2^15. */
static inline __m256i dot_of(__m256i acc, __m256i w, __m256i abs_w, __m256i x) {
    __m256i pairs = _mm256_maddubs_epi16(abs_w, _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
static inline n16 n16_dot(n16 a, w64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    __m256i q = _mm256_set1_epi32(four);
    return (n16){dot_of(a.lo, w.lo, w.abs_lo, q), dot_of(a.hi, w.hi, w.abs_hi, q)};
}

static inline s16 s16_zero(void) { return (s16){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
static inline s16 s16_dot(s16 a, u64 w, const unsigned char *x) {
    int32_t four;
    memcpy(&four, x, sizeof four);
    const __m256i q = _mm256_set1_epi32(four);
    return (s16){_mm256_add_epi16(a.lo, _mm256_maddubs_epi16(w.lo, q)), _mm256_add_epi16(a.hi, _mm256_maddubs_epi16(w.hi, q))};
}
static inline n16 s16_to_n16(s16 a) {
    const __m256i ones = _mm256_set1_epi16(1);
    return (n16){_mm256_madd_epi16(a.lo, ones), _mm256_madd_epi16(a.hi, ones)};
}
/* Each in two words, for the two words of an s16. */
static inline scale16 scale16_u8(const unsigned char *x) {
    const __m256i bytes = twice(x), first = _mm256_setr_epi64x((long long)0x8001800180008000, (long long)0x8003800380028002,
                                                               (long long)0x8005800580048004, (long long)0x8007800780068006);
    return (scale16){_mm256_shuffle_epi8(bytes, first), _mm256_shuffle_epi8(bytes, _mm256_add_epi8(first, _mm256_set1_epi16(8)))};
}
static inline scale16 scale16_i8(const unsigned char *x) {
    const __m256i bytes = twice(x), first = _mm256_setr_epi64x(0x0180018000800080, 0x0380038002800280, 0x0580058004800480, 0x0780078006800680);
    return (scale16){_mm256_srai_epi16(_mm256_shuffle_epi8(bytes, first), 8),
                     _mm256_srai_epi16(_mm256_shuffle_epi8(bytes, _mm256_add_epi8(first, _mm256_set1_epi16(0x0800))), 8)};
}
static inline n16 s16_times(s16 a, scale16 scale) { return (n16){_mm256_madd_epi16(a.lo, scale.lo), _mm256_madd_epi16(a.hi, scale.hi)}; }
static inline n16 scale16_times(scale16 scale, const unsigned char *pair) {
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return s16_times((s16){_mm256_set1_epi32(both), _mm256_set1_epi32(both)}, scale);
}

#include "kernels.inc"
