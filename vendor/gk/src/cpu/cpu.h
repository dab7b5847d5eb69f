/* Internals of the CPU backend: layouts of weights and caches, and the table of kernels of an instruction set.
 *
 * Weights are in groups of 16 rows, so that a kernel computes 16 outputs at once and never sums across the lanes of
 * a vector. Rows past the last are zero or stale; their results are not stored.
 *   f32, f16, bf16: [group][k][16]
 *   bf16, with isa.bf16_pairs: [group], in it [k / 2][16][2], two neighbours of a row side by side, then [16] if k is odd
 * Block types: first the quants of all groups, then their scales. 4 neighbouring bytes of a row, a "quad", are the
 * operand of the dot-product instructions; 16 quads, one per row, are a chunk of 64 bytes. The total size is the
 * same as in GGUF.
 *   q8_0: [group][block][8] chunks, with isa.unsigned_quants with 128 added to every quant; [group][block]: f16[16]
 *   q4_0: [group][block][4] chunks, quad j in the low nibbles and quad j + 4 in the high; [group][block]: f16[16]
 *   q4_k: [group][block][4][8] chunks, two neighbouring sub-blocks of 32 in the low and high nibbles;
 *         [group][block]: scale f16[16], minimum f16[16], the 6-bit scales u8[12][16]
 *   q6_k: [group][block][2][3][8] chunks of three neighbouring sub-blocks of 32 in six bits; their two high bits are those of a
 *         fourth one, highest first; [group][block]: scale f16[16], i8[16][16]
 * Key cache: tiles of 16 positions per head, [head][tile][d_head][16]; the last tile is only as wide as needed.
 * Value cache: [head][position][d_head]. Activations of a matmul with block types are rounded to int8 in blocks of
 * 32 (struct cpu_q8_row); with pairs of bf16 the kernels round four or more rows to bf16. */
#ifndef GK_CPU_H
#define GK_CPU_H

#include <stdatomic.h>

#include "gk_internal.h"
#include "share.h"

enum { CPU_GROUP = 16, CPU_BLOCK = 32, CPU_MOST_QUERIES = 8, CPU_POSITIONS = 512 };

/* One row of rounded activations: k quants, then 16 bytes for each 32 of them: their scale and the scale times the
 * sum of the quants (floats); the sum of the first 16 quants times -16, twice, and that of the others (int16). */
/* An odd multiple of 256 bytes from row to row: otherwise the same part of many rows would map to a few sets of the
 * L1 cache. */
static inline size_t cpu_q8_row_bytes(uint32_t k) {
    return ((size_t)k + 16 * (k / CPU_BLOCK) + 255) / 256 * 256 | 256;
}

typedef struct cpu_matmul {
    const unsigned char *weight;
    uint32_t type, k, n, rows;
    const float *x;         /* f32, f16 and bf16 weights */
    const unsigned char *q; /* block types: rows of cpu_q8_row_bytes(k) */
    size_t x_stride, dst_stride; /* elements */
    float *dst;
    const float *bias; /* may be NULL */
    bool accumulate;
    bool gated; /* dst becomes silu(dst) times the product */
} cpu_matmul;

/* Up to CPU_MOST_QUERIES query vectors that read one key head, and up to CPU_POSITIONS positions. */
typedef struct cpu_attention {
    const void *keys, *values; /* of this head, at the first position */
    bool half;                 /* f16 caches, else f32 */
    uint32_t n_ctx, d_head, queries; /* n_ctx: of the cache, from the first position on */
    const float *query[CPU_MOST_QUERIES];
    uint32_t length[CPU_MOST_QUERIES]; /* positions that each query sees; may be 0 */
    float scale;
    float *scores; /* queries * CPU_POSITIONS floats */
    /* Results: values weighted with exp(score - largest), and the sum of these weights, 0 without positions. */
    float *out[CPU_MOST_QUERIES];
    float largest[CPU_MOST_QUERIES], sum[CPU_MOST_QUERIES];
} cpu_attention;

typedef struct cpu_isa {
    const char *name;
    const struct cpu_isa *exact; /* replaces this one under GK_OPEN_EXACT; NULL: no replacement */
    bool unsigned_quants, bf16_pairs;
    uint32_t queries; /* best number of queries at once for attention */
    /* Groups first .. last - 1 of the rows of the weight. */
    void (*matmul)(const cpu_matmul *, uint32_t first, uint32_t last);
    void (*quantize)(const float *x, uint32_t k, unsigned char *row);
    void (*attention)(cpu_attention *);
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
#if defined(GK_CPU_AVX_VNNI)
extern const cpu_isa gk_cpu_avx_vnni;
#endif
#if defined(GK_CPU_AVX512_BF16)
extern const cpu_isa gk_cpu_avx512_bf16;
/* The products of this instruction set with bf16 weights in pairs. */
void gk_cpu_matmul_pairs(const cpu_matmul *, uint32_t first, uint32_t last);
#endif
#elif defined(GK_CPU_NEON)
extern const cpu_isa gk_cpu_neon;
#endif

/* Writes the instruction sets, best first, and returns their number. The last is the generic one. */
enum { CPU_MOST_ISAS = 5 };
int gk_cpu_isas(const cpu_isa *out[CPU_MOST_ISAS]);
void gk_cpu_name(char *out, size_t capacity);

/* ---- ops.c ---- */

/* The context of one thread while it runs one op. */
typedef struct cpu_task {
    const cpu_isa *isa;
    const gk_op *op;
    gk_step *step;
    uint32_t rows; /* to compute */
    gk_team team;
    gk_counter *counters; /* of this op's items */
    float *scores, *part;      /* of this thread, for attention */
    float *parts;              /* of all threads: results of parts of the positions; NULL: each thread computes all parts */
    atomic_uint *parts_done;   /* of each batch of queries */
    const unsigned char *quants; /* the rounded activations of a matmul with block types */
    const float *normed;         /* the normed row of a norm_matmul */
} cpu_task;

/* Floats of the result of a part of the positions for one query: the weighted values, then `largest` and `sum`. */
static inline size_t cpu_part_floats(uint32_t d_head) { return ((size_t)d_head + 2 + 15) / 16 * 16; }

void gk_cpu_run_op(const cpu_task *);

/* ---- weights.c ---- */

static inline uint64_t cpu_groups(uint64_t rows) { return rows / CPU_GROUP + (rows % CPU_GROUP != 0); }

/* Bytes of the quants of one block of 16 rows. */
static inline size_t cpu_quant_bytes(uint32_t type) {
    switch (type) {
    case GK_Q4_0: return 256;
    case GK_Q8_0: return 512;
    case GK_Q4_K: return 2048;
    case GK_Q6_K: return 3072;
    default: return 0;
    }
}

/* Bytes of the scales of one block of 16 rows. */
static inline size_t cpu_scale_bytes(uint32_t type) {
    switch (type) {
    case GK_Q4_0:
    case GK_Q8_0: return 32;
    case GK_Q4_K: return 256;
    case GK_Q6_K: return 288;
    default: return 0;
    }
}

uint64_t gk_cpu_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1);
void gk_cpu_weight_put(const cpu_isa *, unsigned char *weight, const gk_tensor *dst, const void *rows, uint64_t first,
                       uint64_t count);
/* The inverse of weight_put for one row, as floats. */
void gk_cpu_weight_row(const cpu_isa *, const gk_tensor *, uint64_t row, float *out);

#endif
