/* Shared by the backends in this tree: checked sizes, checks of ops and steps, f16. Not installed.
 *
 * A backend checks a plan in three steps, in plan_build:
 *   gk_plan_check   every op on its own, STEP at the end, and the limits that plan_run needs
 *   gk_op_bounds    every operand is inside a live buffer of this device
 *   its own rules   shapes or types that it has no kernel for -> GK_UNSUPPORTED
 * and a run with gk_step_check. After these, kernels only need to check token ids. */
#ifndef GK_INTERNAL_H
#define GK_INTERNAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "gk.h"

#define GK_MAX_TOPK 256

#if defined(__MINGW32__) && !defined(__clang__)
#define GK_PRINTF(position, first) __attribute__((format(gnu_printf, position, first)))
#elif defined(__GNUC__) || defined(__clang__)
#define GK_PRINTF(position, first) __attribute__((format(printf, position, first)))
#else
#define GK_PRINTF(position, first)
#endif

/* ---- text ---- */

/* Formats one line into `out`, always terminated by NUL. `out` may be NULL and the capacity 0. */
void gk_text(char *out, size_t capacity, const char *format, ...) GK_PRINTF(3, 4);

/* For last_error: `op 3 (matmul, tag 7): error`; without an op, only the error. */
void gk_op_error(char *out, size_t capacity, const gk_op *op, uint32_t index, const char *error);

/* The op at `index`, or NULL if the caller's list is empty or shorter. */
static inline const gk_op *gk_op_at(const gk_op *ops, uint32_t count, uint32_t index) { return ops && index < count ? &ops[index] : NULL; }

/* ---- sizes; all return false or 0 on overflow ---- */

static inline bool gk_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a + b;
    return *out >= a;
}

static inline bool gk_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    *out = a * b;
    return a == 0 || *out / a == b;
}

/* Smallest multiple of `alignment` that is >= value; 0 on overflow. alignment is a power of two. */
static inline uint64_t gk_align_u64(uint64_t value, uint64_t alignment) {
    uint64_t sum = value + (alignment - 1);
    return sum < value ? 0 : sum & ~(alignment - 1);
}

/* Elements from one row to the next. */
static inline uint64_t gk_stride(const gk_tensor *t) {
    return t->row_stride ? t->row_stride : t->ne[0];
}

/* Bytes from the first to one past the last byte of an f32, f16 or i32 tensor {ne[0], ne[1]}; 0 on overflow. */
uint64_t gk_tensor_span(const gk_tensor *);

/* ---- weights ---- */

/* Can a weight have this type? */
bool gk_is_weight_type(uint32_t type);

/* Is it a block type? Products with these may round the activations. */
static inline bool gk_is_block_type(uint32_t type) { return gk_type_block_elements(type) > 1; }

/* The exact value of element `column` of a row of a weight type in the GGUF layout. */
double gk_row_value(uint32_t type, const unsigned char *row, uint64_t column);

/* Scale and minimum of sub-block j of a block of q4_k, six bits each, from the 12 bytes that hold all of them. */
void gk_q4_k_scales(const unsigned char *packed, uint32_t j, uint32_t *scale, uint32_t *minimum);

/* ---- ops ---- */

/* How the bytes of an operand are laid out. */
typedef enum gk_role {
    GK_ROLE_NONE = 0,   /* the op has no such operand */
    GK_ROLE_PLAIN = 1,  /* rows of elements, gk_stride apart */
    GK_ROLE_WEIGHT = 2, /* written by weight_put, weight_bytes long */
    GK_ROLE_CACHE = 3   /* written by KV_WRITE, gk_row_bytes(type, ne[0]) * ne[1] long */
} gk_role;

typedef enum gk_operand { GK_DST = 0, GK_A = 1, GK_B = 2, GK_C = 3, GK_D = 4 } gk_operand;

gk_role gk_operand_role(const gk_op *, gk_operand);
const gk_tensor *gk_operand_of(const gk_op *, gk_operand);
/* Does the op write this operand? Caches are written only in part. */
bool gk_operand_written(const gk_op *, gk_operand);
/* Do both describe the same elements? */
bool gk_same_slice(const gk_tensor *, const gk_tensor *);

/* Rows of activations in a valid op (T). A run computes min(rows, step.n_tok) of them: after a matmul with
 * GK_LAST_ROW, the rest of a prefill plan has one row. */
uint32_t gk_op_rows(const gk_op *);

/* What a backend knows about its buffers and layouts. */
typedef struct gk_bounds {
    void *context;
    /* Size of a live buffer of this device; 0 if it is not one. */
    uint64_t (*buffer_bytes)(void *context, const gk_buffer *);
    /* As gk_backend.weight_bytes. */
    uint64_t (*weight_bytes)(void *context, uint32_t type, uint64_t ne0, uint64_t ne1);
} gk_bounds;

/* NULL if every operand of a valid op is inside its buffer, else a constant text. */
const char *gk_op_bounds(const gk_op *, const gk_bounds *);

/* Are `bytes` bytes at `offset` inside a buffer of `size` bytes? */
static inline bool gk_range_fits(uint64_t offset, uint64_t bytes, uint64_t size) {
    return offset <= size && bytes <= size - offset;
}

/* NULL if these are valid arguments of weight_put for a buffer of buffer_bytes, else a constant text. need =
 * weight_bytes(type, ne[0], ne[1]). */
const char *gk_weight_put_check(const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count,
                                uint64_t need, uint64_t buffer_bytes);

/* For `switch` without `default`: then the compiler reports the places where a new op is missing. */
static inline gk_op_code gk_code(const gk_op *op) { return (gk_op_code)op->code; }

/* The weights of the norm of b that a product includes, or NULL. */
static inline const gk_tensor *gk_norm_of(const gk_op *op) {
    if (op->code == GK_OP_NORM_MATMUL) return &op->d;
    return op->code == GK_OP_GATE_UP && op->c.buffer ? &op->c : NULL;
}

/* Does neither of two valid ops access what the other writes? */
bool gk_independent(const gk_backend *, gk_device *, const gk_op *, const gk_op *);

/* ---- plans and steps ---- */

typedef struct gk_plan_limits {
    uint32_t rows;  /* T: the largest number of rows of an op in the plan */
    uint32_t n_ctx; /* the smallest n_ctx of its caches and rope tables; UINT32_MAX without any */
    bool ends_in_step;
} gk_plan_limits;

/* NULL if every op and their order are valid, else a constant text, with *bad = the index of the op. */
const char *gk_plan_check(const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint32_t *bad);

/* NULL if the plan can run with this step, else a constant text. */
const char *gk_step_check(const gk_plan_limits *, const gk_step *, uint32_t repeat);

/* ---- f16 ---- */

static inline float gk_float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t gk_bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Exact for every bit pattern. Uses selections instead of branches so that compilers can vectorise loops over it. */
static inline float gk_f32_of_f16(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu;
    uint32_t rebias = magnitude >= 0x7c00u ? 224u << 23 : 112u << 23; /* infinity and NaN keep the largest exponent */
    uint32_t normal = (magnitude << 13) + rebias;
    /* A denormal is a multiple of 2^-24, which is the last place of a float in [0.5, 1). */
    uint32_t small = gk_bits_of_float(gk_float_of_bits(0x3f000000u + magnitude) - 0.5f);
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    return gk_float_of_bits(sign | (magnitude < 0x400u ? small : normal));
}

static inline float gk_f32_of_bf16(uint16_t bits) { return gk_float_of_bits((uint32_t)bits << 16); }

/* Rounds to nearest, ties to even, like the conversion instructions; NaN stays NaN. */
static inline uint16_t gk_f16_of_f32(float value) {
    uint32_t bits = gk_bits_of_float(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* >= 65520 rounds to infinity */
    if (magnitude < 0x38800000u) { /* below 2^-14: adding 0.5 leaves the rounded mantissa in the low bits */
        uint32_t rounded = gk_bits_of_float(gk_float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
        return (uint16_t)(sign | rounded);
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

#endif
