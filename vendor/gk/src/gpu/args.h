/* Shared by the host (C) and the kernels (CUDA, HIP, SYCL): the argument block, the names of the kernels and the
 * shapes of their thread blocks. Contains declarations only. */
#ifndef GK_GPU_ARGS_H
#define GK_GPU_ARGS_H

#include "gk.h"

/* Work that further blocks of a launch do: a product of the same activations with another weight, or the rotation of
 * the queries beside that of the keys. Unused if `width` is 0. */
typedef struct gk_gpu_beside {
    uint64_t dst, a, c;
    uint32_t dst_stride, a_stride, width, plane[3]; /* as in gk_gpu_args */
} gk_gpu_beside;

enum { GK_GPU_BESIDE = 2 };

/* Every kernel receives this block by value. Fields that a kernel does not use are 0. */
typedef struct gk_gpu_args {
    uint64_t dst, a, b, c, d; /* device addresses of the operands */
    uint64_t norm;         /* products: weights of a norm of the activations, or 0 */
    uint64_t aux;          /* scratch: parts of split attention, lists of topk, or activations as f16 or bf16 */
    uint64_t step;         /* address of the gk_step on this device */
    uint32_t dst_stride, a_stride, b_stride, c_stride, d_stride; /* elements from row to row; 0 repeats one row */
    uint32_t width;        /* elements in a row of dst; matmul: n_out */
    uint32_t rows;         /* rows of the plan */
    uint32_t depth;        /* matmul: k; embed: vocabulary; rmsnorm: group; topk: k; step: length of the history */
    uint32_t flags;        /* gk_op.flags */
    uint32_t vector;       /* rows of weight and activation are aligned to 16 bytes */
    uint32_t plane[3];     /* start of planes 1 to 3 of a weight, in units of 64 bytes from it */
    uint32_t n_head, n_head_kv, d_head, n_rot, n_ctx;
    uint32_t quads;        /* sixteen_rows: a quarter of the elements in a piece of the weight */
    uint32_t splits;       /* attention: maximum number of splits of the cached positions; topk_merge: lists of a row */
    uint32_t list;         /* topk_*: elements in a list, the power of two from k on */
    uint32_t slice;        /* topk_slices: elements of a block, at most GK_GPU_SELECT_TILE and a multiple of GK_GPU_TOPK_MOST */
    float scale;           /* attention and softmax: factor; norms, also of products: epsilon */
    gk_gpu_beside beside[GK_GPU_BESIDE];
    gk_step start;         /* set_step: the value to store */
} gk_gpu_args;

/* Reported by the `describe` kernel, so that the host does not have to query the driver for attributes whose ids
 * differ between versions. */
typedef struct gk_gpu_description {
    uint32_t magic; /* GK_GPU_MAGIC */
    uint32_t args_bytes;
    uint32_t warp;  /* threads per warp: 32 or 64 */
    uint32_t features; /* GK_GPU_HAS_... */
} gk_gpu_description;

enum {
    GK_GPU_MAGIC = 0x676b3031,
    GK_GPU_HAS_DOT = 1, /* the kernels dot_* */
    GK_GPU_HAS_MMA = 2, /* the kernels mma_* and attention_mma_* */
    GK_GPU_HAS_OVERLAP = 4, /* kernels wait for the one before, so they may be started early */
    GK_GPU_HAS_SPLIT_MMA = 8, /* the kernels split_mma_* */
    GK_GPU_HAS_WIDE_MMA = 16, /* enough registers for mma_*_128_128 */
    GK_GPU_THREADS = 256,        /* row and element kernels */
#ifdef GK_GPU_SYCL
    GK_GPU_SELECT_THREADS = 256, /* many Intel GPUs have no larger work-groups */
#else
    GK_GPU_SELECT_THREADS = 1024,
#endif
    GK_GPU_SELECT_TILE = 4096,   /* elements that a block of topk_* has in shared memory */
    GK_GPU_SELECT_LEAST = 1024,  /* minimum number of elements for a separate block */
    GK_GPU_MATVEC_THREADS = 128,
    GK_GPU_DOT_THREADS = 256,
    GK_GPU_DOT_TRIP = 4096,      /* elements of k whose weights a warp of dot_* loads at once */
    GK_GPU_DOT_SPAN = 16384,     /* elements of k that a block of dot_*_1 rounds at once */
    GK_GPU_TILE = 64,            /* matmul_tile: n_out x tokens of one block */
    GK_GPU_ATTENTION_THREADS = 128,
    GK_GPU_MMA_WARPS = 4,        /* of a block of mma_* and attention_mma_*, for warps of 32 and of 64 */
    GK_GPU_MMA_ALIGN = 128,      /* rows of 16-bit activations end at a multiple of so many elements */
    GK_GPU_MMA_TOKENS = 128,     /* there is memory for a multiple of so many tokens */
    GK_GPU_MMA_QUERIES = 16 * GK_GPU_MMA_WARPS, /* attention_mma: tokens of one block */
    GK_GPU_MAX_HEAD = 256,       /* largest d_head */
    GK_GPU_SPLIT_LEAST = 64,     /* minimum number of positions for a separate block */
    GK_GPU_SPLITS_MOST = 64,
    GK_GPU_TOPK_MOST = 256
};

/* Blocks of dot_<type>_1 on a multiprocessor, so that enough bytes are on their way, and rows of weights that one of its
 * warps reads at a time: more share the work on activations, fewer give more warps to matrices with few rows. */
enum { GK_GPU_DOT_BLOCKS_q8_0 = 2, GK_GPU_DOT_BLOCKS_q4_0 = 4, GK_GPU_DOT_BLOCKS_q4_k = 3, GK_GPU_DOT_BLOCKS_q6_k = 2 };
enum { GK_GPU_DOT_LINES_q8_0 = 2, GK_GPU_DOT_LINES_q4_0 = 1, GK_GPU_DOT_LINES_q4_k = 2, GK_GPU_DOT_LINES_q6_k = 2 };
#define GK_GPU_DOT_LINES(of_type, columns, gated) ((columns) == 1 && !(gated) ? (of_type) : 2)

/* Rows of weights that one warp of matvec reads, for one or for eight tokens (columns). */
#define GK_GPU_MATVEC_LINES(type_is_block, columns, gated) ((columns) > 1 || (gated) ? 2 : (type_is_block) ? 4 : 1)

/* The place of 8 elements ("piece") of a row of 64 elements of 16 bits in shared memory: eight rows, read at once, are on
 * different banks. It is the "128-byte swizzle" of matrix units. */
#define GK_GPU_EXCHANGED(row, piece) ((row) * 64 + (((piece) ^ (row) % 8) * 8))

/* X(name) for every kernel, in the order of their numbers. Families are laid out so that the host can compute a
 * number: matvec_<type>_<columns>, likewise its fused form gate_up; split_<cache type>_<queries>_<head size class>. */
#define GK_GPU_MATVECS(X, kind) \
    X(kind##_f32_1) X(kind##_f32_8) \
    X(kind##_f16_1) X(kind##_f16_8) \
    X(kind##_bf16_1) X(kind##_bf16_8) \
    X(kind##_q8_0_1) X(kind##_q8_0_8) \
    X(kind##_q4_0_1) X(kind##_q4_0_8) \
    X(kind##_q4_k_1) X(kind##_q4_k_8) \
    X(kind##_q6_k_1) X(kind##_q6_k_8)
#define GK_GPU_DOTS(X, kind) \
    X(kind##_q8_0_1) X(kind##_q8_0_8) \
    X(kind##_q4_0_1) X(kind##_q4_0_8) \
    X(kind##_q4_k_1) X(kind##_q4_k_8) \
    X(kind##_q6_k_1) X(kind##_q6_k_8)
#define GK_GPU_MMAS(X, type) X(mma_##type##_64_64) X(mma_##type##_128_64) X(mma_##type##_128_128)
#define GK_GPU_KERNELS(X) \
    X(describe) X(set_step) X(next_step) \
    X(embed_f32) X(embed_f16) X(embed_bf16) \
    X(embed_q8_0) X(embed_q4_0) X(embed_q4_k) X(embed_q6_k) \
    X(rmsnorm) X(rope) X(swiglu) X(silu) X(add) X(mul) X(softmax) X(topk_slices) X(topk_merge) \
    X(copy_f32_f32) X(copy_f32_f16) X(copy_f16_f32) X(copy_f16_f16) \
    X(kv_write_f32) X(kv_write_f16) X(rope_kv_f32) X(rope_kv_f16) \
    GK_GPU_MATVECS(X, matvec) GK_GPU_MATVECS(X, gate_up) \
    GK_GPU_DOTS(X, dot) GK_GPU_DOTS(X, gate_up_dot) \
    X(sixteen_rows_f16) X(sixteen_rows_bf16) \
    GK_GPU_MMAS(X, f16) GK_GPU_MMAS(X, bf16) GK_GPU_MMAS(X, q8_0) GK_GPU_MMAS(X, q4_0) GK_GPU_MMAS(X, q4_k) GK_GPU_MMAS(X, q6_k) \
    X(matmul_tile_f32) X(matmul_tile_f16) X(matmul_tile_bf16) \
    X(matmul_tile_q8_0) X(matmul_tile_q4_0) X(matmul_tile_q4_k) X(matmul_tile_q6_k) \
    X(split_f32_1_64) X(split_f32_1_128) X(split_f32_1_256) \
    X(split_f32_2_64) X(split_f32_2_128) X(split_f32_2_256) \
    X(split_f32_4_64) X(split_f32_4_128) X(split_f32_4_256) \
    X(split_f32_8_64) X(split_f32_8_128) X(split_f32_8_256) \
    X(split_f16_1_64) X(split_f16_1_128) X(split_f16_1_256) \
    X(split_f16_2_64) X(split_f16_2_128) X(split_f16_2_256) \
    X(split_f16_4_64) X(split_f16_4_128) X(split_f16_4_256) \
    X(split_f16_8_64) X(split_f16_8_128) X(split_f16_8_256) \
    X(split_mma_64) X(split_mma_128) X(split_merge) \
    X(attention_f32_128) X(attention_f32_256) X(attention_f16_128) X(attention_f16_256) \
    X(attention_mma_64) X(attention_mma_128)

#endif
