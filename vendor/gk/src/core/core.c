/* Names, sizes and bounds: the helpers of gk.h and gk_internal.h that are not checks of ops. */
#include <stdio.h>

#include "gk_internal.h"

const char *gk_status_text(gk_status status) {
    switch (status) {
    case GK_OK: return "ok";
    case GK_NO_DRIVER: return "no driver";
    case GK_NO_DEVICE: return "no device";
    case GK_TOO_OLD: return "driver or device too old";
    case GK_OUT_OF_MEMORY: return "out of memory";
    case GK_UNSUPPORTED: return "not supported";
    case GK_DEVICE_LOST: return "device lost";
    case GK_BAD_ARGUMENT: return "bad argument";
    case GK_FAILED: return "failed";
    }
    return "unknown status";
}

const char *gk_type_name(uint32_t type) {
    switch (type) {
    case GK_F32: return "f32";
    case GK_F16: return "f16";
    case GK_BF16: return "bf16";
    case GK_Q8_0: return "q8_0";
    case GK_Q4_0: return "q4_0";
    case GK_Q4_K: return "q4_k";
    case GK_Q6_K: return "q6_k";
    case GK_I32: return "i32";
    default: return NULL;
    }
}

uint32_t gk_type_block_elements(uint32_t type) {
    switch (type) {
    case GK_F32:
    case GK_F16:
    case GK_BF16:
    case GK_I32: return 1;
    case GK_Q4_0:
    case GK_Q8_0: return 32;
    case GK_Q4_K:
    case GK_Q6_K: return 256;
    default: return 0;
    }
}

uint32_t gk_type_block_bytes(uint32_t type) {
    switch (type) {
    case GK_F32:
    case GK_I32: return 4;
    case GK_F16:
    case GK_BF16: return 2;
    case GK_Q4_0: return 18;
    case GK_Q8_0: return 34;
    case GK_Q4_K: return 144;
    case GK_Q6_K: return 210;
    default: return 0;
    }
}

bool gk_is_weight_type(uint32_t type) { return type != GK_I32 && gk_type_block_elements(type) != 0; }

uint64_t gk_row_bytes(uint32_t type, uint64_t ne0) {
    uint64_t elements = gk_type_block_elements(type);
    uint64_t bytes;
    if (elements == 0 || ne0 % elements != 0) return 0;
    return gk_mul_u64(ne0 / elements, gk_type_block_bytes(type), &bytes) ? bytes : 0;
}

void gk_text(char *out, size_t capacity, const char *format, ...) {
    if (out == NULL || capacity == 0) return;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(out, capacity, format, arguments) < 0) out[0] = '\0';
    va_end(arguments);
}

void gk_op_error(char *out, size_t capacity, const gk_op *op, uint32_t index, const char *error) {
    const char *name = op ? gk_op_name(op->code) : NULL;
    if (op) gk_text(out, capacity, "op %u (%s, tag %u): %s", (unsigned)index, name ? name : "unknown", (unsigned)op->tag, error);
    else gk_text(out, capacity, "%s", error);
}

uint64_t gk_tensor_span(const gk_tensor *t) {
    if (t->ne[0] == 0 || t->ne[1] == 0) return 0;
    /* Both factors are below 2^32, so the product and the sum fit. */
    uint64_t elements = (uint64_t)(t->ne[1] - 1) * gk_stride(t) + t->ne[0];
    uint64_t bytes;
    return gk_mul_u64(elements, gk_type_block_bytes(t->type), &bytes) ? bytes : 0;
}

const gk_tensor *gk_operand_of(const gk_op *op, gk_operand operand) {
    switch (operand) {
    case GK_DST: return &op->dst;
    case GK_A: return &op->a;
    case GK_B: return &op->b;
    case GK_C: return &op->c;
    case GK_D: return &op->d;
    }
    return NULL;
}

bool gk_operand_written(const gk_op *op, gk_operand operand) {
    if (operand == GK_DST) return true;
    if (operand == GK_C) return op->code == GK_OP_KV_WRITE || op->code == GK_OP_ROPE_KV || op->code == GK_OP_TOPK;
    return operand == GK_B && op->code == GK_OP_STEP;
}

bool gk_same_slice(const gk_tensor *x, const gk_tensor *y) {
    return x->buffer == y->buffer && x->offset == y->offset && x->type == y->type && x->ne[0] == y->ne[0] &&
           x->ne[1] == y->ne[1] && gk_stride(x) == gk_stride(y);
}

static const char *operand_bounds(const gk_op *op, gk_operand operand, const gk_bounds *bounds) {
    const gk_tensor *t = gk_operand_of(op, operand);
    gk_role role = gk_operand_role(op, operand);
    if (role == GK_ROLE_NONE || t->buffer == NULL) return NULL;
    uint64_t size = bounds->buffer_bytes(bounds->context, t->buffer);
    if (size == 0) return "an operand's buffer does not belong to this device";
    uint64_t need = 0;
    if (role == GK_ROLE_PLAIN) {
        need = gk_tensor_span(t);
    } else if (role == GK_ROLE_WEIGHT) {
        need = bounds->weight_bytes(bounds->context, t->type, t->ne[0], t->ne[1]);
    } else if (!gk_mul_u64(gk_row_bytes(t->type, t->ne[0]), t->ne[1], &need)) {
        need = 0;
    }
    if (need == 0) return "the size of an operand overflows";
    return gk_range_fits(t->offset, need, size) ? NULL : "an operand is outside its buffer";
}

const char *gk_op_bounds(const gk_op *op, const gk_bounds *bounds) {
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        const char *error = operand_bounds(op, (gk_operand)operand, bounds);
        if (error) return error;
    }
    return NULL;
}

const char *gk_weight_put_check(const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count,
                                uint64_t need, uint64_t buffer_bytes) {
    if (dst == NULL || dst->buffer == NULL) return "the weight has no buffer";
    if (!gk_is_weight_type(dst->type)) return "not a weight type";
    if (dst->ne[0] == 0 || dst->ne[1] == 0 || dst->ne[2] != 1 || dst->ne[3] != 1) return "a weight must have two dimensions";
    if (dst->row_stride != 0 && dst->row_stride != dst->ne[0]) return "a weight must have no row stride";
    if (gk_row_bytes(dst->type, dst->ne[0]) == 0) return "the rows of the weight end inside a block";
    if (dst->offset % 64 != 0) return "an offset is not a multiple of 64";
    if (first > dst->ne[1] || count > dst->ne[1] - first) return "the rows are outside the weight";
    if (rows == NULL && count != 0) return "no rows given";
    if (need == 0) return "the size of the weight overflows";
    if (!gk_range_fits(dst->offset, need, buffer_bytes)) return "the weight is outside its buffer";
    return NULL;
}
