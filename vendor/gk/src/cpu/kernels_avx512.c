/* The kernels for AVX-512 (F, BW, VL, DQ) with VNNI. All functions are static; only the tables are exported. */
#include "avx512.h"

#define TILE 8
#define Q8_TILE 8
#define Q6_TILE 8
#define Q6_QUADS 4 /* all quads with one scale */
#define PLAIN_TILE 8
#define PLAIN_GROUPS 2
#define QUADS_UNROLLED 8
#if (defined(__GNUC__) || defined(__clang__)) && !defined(GK_CPU_EMULATE)
#define PIN(sums) __asm__ volatile("" : "+v"(sums)) /* as in kernels_avx2.c */
#else
#define PIN(sums) ((void)(sums))
#endif
#define ISA_NAME "avx512"
#define ISA_TABLE gk_cpu_avx512
#define ISA_UNSIGNED true

#include "kernels.inc"

#if defined(GK_CPU_AVX512_BF16)
static void matmul_or_pairs(const cpu_matmul *m, uint32_t first, uint32_t last) {
    if (m->type == GK_BF16) gk_cpu_matmul_pairs(m, first, last);
    else matmul(m, first, last);
}

const cpu_isa gk_cpu_avx512_bf16 = {
    .name = "avx512_bf16",
    .exact = &gk_cpu_avx512,
    .bf16_pairs = true,
    .matmul = matmul_or_pairs,
    ISA_ENTRIES,
};
#endif
