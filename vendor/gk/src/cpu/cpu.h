/* The CPU backend from inside: layouts of weights and caches, and the table of kernels of an instruction set.
 *
 * Weights lie in groups of 16 rows, so that a kernel computes 16 outputs at once and never adds up the lanes of a
 * vector. Rows past the last are zero or stale; their results are not stored.
 *   f32, f16:  [group][k][16]
 *   q8_0:      quants [group][block][8][16][4], then scales f16 [group][block][16]: 4 bytes of a row side by side
 *              is what the dot-product instructions eat. Where isa.unsigned_quants, 128 is added to every quant.
 * Key cache: per head tiles of 16 positions, [head][tile][d_head][16], the last tile as narrow as it is.
 * Value cache: [head][position][d_head].
 * Activations of a q8_0 matmul are rounded to int8 in blocks of 32 (struct cpu_q8_row). */
#ifndef GK_CPU_H
#define GK_CPU_H

#include "gk_internal.h"

enum { CPU_GROUP = 16, CPU_BLOCK = 32, CPU_MOST_QUERIES = 8 };

/* One row of rounded activations: k quants, then k / 32 scales, then k / 32 sums of quants. */
static inline size_t cpu_q8_row_bytes(uint32_t k) {
    size_t blocks = k / CPU_BLOCK;
    return ((size_t)k + 8 * blocks + 63) / 64 * 64;
}

typedef struct cpu_matmul {
    const unsigned char *weight;
    uint32_t k, n, rows;
    const float *x;         /* f32 and f16 weights */
    const unsigned char *q; /* q8_0 weights: rows of cpu_q8_row_bytes(k) */
    size_t x_stride, dst_stride; /* elements */
    float *dst;
    const float *bias; /* or NULL */
    bool accumulate;
} cpu_matmul;

/* Up to CPU_MOST_QUERIES query vectors that read one key head. */
typedef struct cpu_attention {
    const void *keys, *values; /* of this head */
    bool half;                 /* f16 caches, else f32 */
    uint32_t n_ctx, d_head, queries;
    const float *query[CPU_MOST_QUERIES];
    float *out[CPU_MOST_QUERIES];
    uint32_t length[CPU_MOST_QUERIES]; /* positions that a query sees */
    float scale;
    float *scores; /* queries * scores_stride floats */
    size_t scores_stride;
} cpu_attention;

typedef struct cpu_isa {
    const char *name;
    bool unsigned_quants;
    uint32_t queries; /* that attention likes to have at once */
    /* Groups first .. last - 1 of the rows of the weight. */
    void (*matmul_f32)(const cpu_matmul *, uint32_t first, uint32_t last);
    void (*matmul_f16)(const cpu_matmul *, uint32_t first, uint32_t last);
    void (*matmul_q8)(const cpu_matmul *, uint32_t first, uint32_t last);
    void (*quantize)(const float *x, uint32_t k, unsigned char *row);
    void (*attention)(const cpu_attention *);
    void (*rmsnorm)(const float *x, const float *weight, uint32_t n, float eps, float *out);
    void (*silu)(const float *x, uint32_t n, float *out);
    void (*swiglu)(const float *x, const float *y, uint32_t n, float *out);
    void (*softmax)(const float *x, uint32_t n, float scale, float *out);
} cpu_isa;

extern const cpu_isa gk_cpu_generic;
#if (defined(__x86_64__) || defined(_M_X64)) && !defined(GK_CPU_GENERIC_ONLY)
#define GK_CPU_X86 1
extern const cpu_isa gk_cpu_avx2;
extern const cpu_isa gk_cpu_avx512;
#endif

/* Best first; the generic one is always there. Returns how many. */
enum { CPU_MOST_ISAS = 3 };
int gk_cpu_isas(const cpu_isa *out[CPU_MOST_ISAS]);
void gk_cpu_name(char *out, size_t capacity);

/* ---- ops.c ---- */

/* What one thread knows while it runs one op. */
typedef struct cpu_task {
    const cpu_isa *isa;
    const gk_op *op;
    gk_step *step;
    uint32_t rows; /* to compute */
    uint32_t thread, threads;
    float *scores; /* of this thread */
    size_t scores_stride;
    const unsigned char *quants; /* the rounded activations of a q8_0 matmul */
} cpu_task;

void gk_cpu_run_op(const cpu_task *);
uint64_t gk_cpu_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1);
void gk_cpu_weight_put(const cpu_isa *, unsigned char *weight, const gk_tensor *dst, const void *rows, uint64_t first,
                       uint64_t count);

/* The part of `total` things that is this thread's. */
static inline void cpu_share(uint32_t total, uint32_t thread, uint32_t threads, uint32_t *first, uint32_t *last) {
    *first = (uint32_t)((uint64_t)total * thread / threads);
    *last = (uint32_t)((uint64_t)total * (thread + 1) / threads);
}

#endif
