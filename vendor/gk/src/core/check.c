/* The rules of gk.h for one op, a plan and a step. Pure. */
#include <math.h>

#include "gk_internal.h"

#define REQUIRE(condition, text) \
    do { \
        if (!(condition)) return text; \
    } while (0)

typedef struct op_rule {
    const char *name;
    uint16_t flags; /* allowed */
    uint8_t role[5]; /* gk_role of dst, a, b, c, d */
    bool optional[5];
} op_rule;

enum { NONE = GK_ROLE_NONE, PLAIN = GK_ROLE_PLAIN, WEIGHT = GK_ROLE_WEIGHT, CACHE = GK_ROLE_CACHE };

static const op_rule RULES[] = {
    [GK_OP_EMBED] = {"embed", 0, {PLAIN, WEIGHT, PLAIN, NONE}, {false}},
    [GK_OP_RMSNORM] = {"rmsnorm", 0, {PLAIN, PLAIN, PLAIN, NONE}, {false}},
    [GK_OP_MATMUL] = {"matmul", GK_ACCUMULATE | GK_BIAS | GK_LAST_ROW, {PLAIN, WEIGHT, PLAIN, PLAIN},
                      {false, false, false, true}},
    [GK_OP_ROPE] = {"rope", GK_NEOX, {PLAIN, PLAIN, PLAIN, NONE}, {false}},
    [GK_OP_KV_WRITE] = {"kv_write", 0, {CACHE, PLAIN, PLAIN, CACHE}, {false}},
    [GK_OP_ATTENTION] = {"attention", 0, {PLAIN, PLAIN, CACHE, CACHE}, {false}},
    [GK_OP_SWIGLU] = {"swiglu", 0, {PLAIN, PLAIN, PLAIN, NONE}, {false}},
    [GK_OP_SILU] = {"silu", 0, {PLAIN, PLAIN, NONE, NONE}, {false}},
    [GK_OP_ADD] = {"add", 0, {PLAIN, PLAIN, PLAIN, NONE}, {false}},
    [GK_OP_MUL] = {"mul", 0, {PLAIN, PLAIN, PLAIN, NONE}, {false}},
    [GK_OP_SOFTMAX] = {"softmax", 0, {PLAIN, PLAIN, NONE, NONE}, {false}},
    [GK_OP_ARGMAX] = {"argmax", 0, {PLAIN, PLAIN, NONE, NONE}, {false}},
    [GK_OP_TOPK] = {"topk", 0, {PLAIN, PLAIN, NONE, PLAIN}, {false}},
    [GK_OP_COPY] = {"copy", 0, {PLAIN, PLAIN, NONE, NONE}, {false}},
    [GK_OP_STEP] = {"step", 0, {PLAIN, PLAIN, PLAIN, NONE}, {true, false, false, false}},
    [GK_OP_ROPE_KV] = {"rope_kv", GK_NEOX, {CACHE, PLAIN, PLAIN, CACHE, PLAIN}, {false}},
    [GK_OP_GATE_UP] = {"gate_up", 0, {PLAIN, WEIGHT, PLAIN, PLAIN, WEIGHT}, {false, false, false, true, false}},
    [GK_OP_NORM_MATMUL] = {"norm_matmul", GK_ACCUMULATE | GK_BIAS | GK_LAST_ROW, {PLAIN, WEIGHT, PLAIN, PLAIN, PLAIN},
                           {false, false, false, true, false}},
};

static const op_rule *rule_of(uint16_t code) {
    if (code == 0 || code >= sizeof RULES / sizeof RULES[0]) return NULL;
    return &RULES[code];
}

const char *gk_op_name(uint16_t code) {
    const op_rule *rule = rule_of(code);
    return rule ? rule->name : NULL;
}

gk_role gk_operand_role(const gk_op *op, gk_operand operand) {
    const op_rule *rule = rule_of(op->code);
    return rule ? (gk_role)rule->role[operand] : GK_ROLE_NONE;
}

uint32_t gk_op_rows(const gk_op *op) {
    switch (op->code) {
    case GK_OP_EMBED: return op->b.ne[0];
    case GK_OP_MATMUL:
    case GK_OP_GATE_UP:
    case GK_OP_NORM_MATMUL: return op->b.ne[1];
    case GK_OP_STEP: return 1;
    default: return op->a.ne[1];
    }
}

/* ---- one operand ---- */

static bool is_float_type(uint32_t type) { return type == GK_F32 || type == GK_F16; }

/* Bytes that an operand covers at least; private layouts take no fewer than GGUF does. */
static uint64_t least_span(const gk_tensor *t, gk_role role) {
    uint64_t bytes;
    if (role == GK_ROLE_PLAIN) return gk_tensor_span(t);
    return gk_mul_u64(gk_row_bytes(t->type, t->ne[0]), t->ne[1], &bytes) ? bytes : 0;
}

static const char *check_operand(const gk_tensor *t, gk_role role) {
    for (int d = 0; d < 4; d++) {
        REQUIRE(t->ne[d] != 0, "a dimension is 0");
        REQUIRE(t->ne[d] <= INT32_MAX, "a dimension is above 2^31 - 1");
    }
    REQUIRE(t->ne[2] == 1 && t->ne[3] == 1, "an operand has more than two dimensions");
    REQUIRE(t->offset % 64 == 0, "an offset is not a multiple of 64");
    REQUIRE(gk_type_name(t->type) != NULL, "unknown type");
    if (role == GK_ROLE_PLAIN) {
        REQUIRE(!gk_is_block_type(t->type), "a block type, but the op needs plain elements");
        REQUIRE(t->row_stride == 0 || t->row_stride >= t->ne[0], "the row stride is shorter than a row");
    } else {
        REQUIRE(t->row_stride == 0 || t->row_stride == t->ne[0], "weights and caches must have no row stride");
        REQUIRE(role == GK_ROLE_CACHE ? is_float_type(t->type) : gk_is_weight_type(t->type),
                role == GK_ROLE_CACHE ? "a cache must be f16 or f32" : "not a weight type");
        REQUIRE(gk_row_bytes(t->type, t->ne[0]) != 0, "rows end inside a block");
    }
    uint64_t end;
    uint64_t span = least_span(t, role);
    REQUIRE(span != 0 && gk_add_u64(t->offset, span, &end), "the size of an operand overflows");
    return NULL;
}

/* Columns of one matrix with a common row stride do not overlap, though their byte ranges do. */
static bool overlap(const gk_tensor *x, gk_role x_role, const gk_tensor *y, gk_role y_role) {
    if (x->buffer != y->buffer) return false;
    if (x->offset > y->offset) {
        const gk_tensor *t = x;
        gk_role role = x_role;
        x = y, x_role = y_role;
        y = t, y_role = role;
    }
    uint64_t distance = y->offset - x->offset;
    if (distance >= least_span(x, x_role)) return false;
    if (x_role != GK_ROLE_PLAIN || y_role != GK_ROLE_PLAIN) return true;
    uint64_t stride = gk_stride(x) * gk_type_block_bytes(x->type);
    if (stride != gk_stride(y) * gk_type_block_bytes(y->type)) return true;
    uint64_t column = distance % stride;
    uint64_t x_bytes = (uint64_t)x->ne[0] * gk_type_block_bytes(x->type);
    uint64_t y_bytes = (uint64_t)y->ne[0] * gk_type_block_bytes(y->type);
    return column < x_bytes || column + y_bytes > stride;
}

/* The inputs that dst may exactly equal. */
static bool may_alias(uint16_t code, gk_operand input) {
    switch (code) {
    case GK_OP_RMSNORM:
    case GK_OP_ROPE:
    case GK_OP_SILU:
    case GK_OP_SOFTMAX: return input == GK_A;
    case GK_OP_SWIGLU:
    case GK_OP_ADD:
    case GK_OP_MUL: return input == GK_A || input == GK_B;
    default: return false;
    }
}

static const char *check_overlap(const gk_op *op, const op_rule *rule) {
    for (int w = GK_DST; w <= GK_D; w++) {
        const gk_tensor *out = gk_operand_of(op, (gk_operand)w);
        if (!gk_operand_written(op, (gk_operand)w) || rule->role[w] == GK_ROLE_NONE || out->buffer == NULL) continue;
        for (int r = GK_DST; r <= GK_D; r++) {
            const gk_tensor *in = gk_operand_of(op, (gk_operand)r);
            if (r == w || rule->role[r] == GK_ROLE_NONE || in->buffer == NULL) continue;
            if (w == GK_DST && may_alias(op->code, (gk_operand)r) && gk_same_slice(out, in)) continue;
            if (op->code == GK_OP_STEP && w == GK_B && r == GK_A && gk_same_slice(out, in)) continue;
            REQUIRE(!overlap(out, (gk_role)rule->role[w], in, (gk_role)rule->role[r]), "an output overlaps another operand");
        }
    }
    return NULL;
}

/* ---- one op ---- */

static bool is_f32(const gk_tensor *t) { return t->type == GK_F32; }
static bool is_vector(const gk_tensor *t, uint32_t type, uint32_t n) {
    return t->type == type && t->ne[0] == n && t->ne[1] == 1;
}
static bool same_shape(const gk_tensor *x, const gk_tensor *y) { return x->ne[0] == y->ne[0] && x->ne[1] == y->ne[1]; }
static bool heads_fill(int32_t heads, int32_t d_head, uint32_t features) {
    return heads > 0 && d_head > 0 && (uint64_t)heads * (uint64_t)d_head == features;
}

static const char *check_embed(const gk_op *op) {
    REQUIRE(op->b.type == GK_I32 && op->b.ne[1] == 1, "embed: ids must be i32 {T}");
    REQUIRE(is_f32(&op->dst), "embed: dst must be f32");
    REQUIRE(op->dst.ne[0] == op->a.ne[0] && op->dst.ne[1] == op->b.ne[0], "embed: dst must be {n_embd, T}");
    return NULL;
}

static const char *check_rmsnorm(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->a), "rmsnorm: dst and a must be f32");
    REQUIRE(same_shape(&op->dst, &op->a), "rmsnorm: dst and a must have equal shapes");
    REQUIRE(is_vector(&op->b, GK_F32, op->b.ne[0]), "rmsnorm: b must be f32 {group}");
    REQUIRE(op->a.ne[0] % op->b.ne[0] == 0, "rmsnorm: rows are not whole groups");
    REQUIRE(isfinite(op->f[0]) && op->f[0] >= 0, "rmsnorm: eps is negative or not finite");
    return NULL;
}

/* The shapes of all products. */
static const char *check_product(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->b), "matmul: dst and b must be f32");
    REQUIRE(op->a.ne[0] == op->b.ne[0], "matmul: a and b differ in k");
    REQUIRE(op->dst.ne[0] == op->a.ne[1], "matmul: dst must be {n_out, T}");
    REQUIRE(op->dst.ne[1] == op->b.ne[1] || ((op->flags & GK_LAST_ROW) && op->dst.ne[1] == 1),
            "matmul: dst and b differ in rows");
    return NULL;
}

static const char *check_matmul(const gk_op *op) {
    const char *error = check_product(op);
    if (error) return error;
    if (op->flags & GK_BIAS) {
        REQUIRE(op->c.buffer != NULL && is_vector(&op->c, GK_F32, op->a.ne[1]), "matmul: the bias must be f32 {n_out}");
    } else {
        REQUIRE(op->c.buffer == NULL, "matmul: c is given without GK_BIAS");
    }
    return NULL;
}

static const char *check_rope(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->a) && is_f32(&op->b), "rope: dst, a and b must be f32");
    REQUIRE(same_shape(&op->dst, &op->a), "rope: dst and a must have equal shapes");
    REQUIRE(heads_fill(op->i[0], op->i[1], op->a.ne[0]), "rope: n_head * d_head is not the row length");
    REQUIRE(op->i[2] >= 2 && op->i[2] % 2 == 0 && op->i[2] <= op->i[1], "rope: n_rot is not even and in 2 .. d_head");
    REQUIRE(op->b.ne[0] == (uint32_t)op->i[2], "rope: the table must be {n_rot, n_ctx}");
    return NULL;
}

static const char *check_caches(const gk_tensor *keys, const gk_tensor *values, int32_t heads, int32_t d_head) {
    REQUIRE(heads_fill(heads, d_head, keys->ne[0]), "n_head_kv * d_head is not the row length of the cache");
    REQUIRE(same_shape(keys, values) && keys->type == values->type, "the key and value caches differ");
    return NULL;
}

static const char *check_kv_write(const gk_op *op) {
    REQUIRE(is_f32(&op->a) && is_f32(&op->b), "kv_write: a and b must be f32");
    REQUIRE(same_shape(&op->a, &op->b) && op->a.ne[0] == op->dst.ne[0], "kv_write: keys, values and caches differ in shape");
    return check_caches(&op->dst, &op->c, op->i[0], op->i[1]);
}

static const char *check_attention(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->a), "attention: dst and a must be f32");
    REQUIRE(same_shape(&op->dst, &op->a), "attention: dst and a must have equal shapes");
    REQUIRE(heads_fill(op->i[0], op->i[2], op->a.ne[0]), "attention: n_head * d_head is not the row length");
    const char *error = check_caches(&op->b, &op->c, op->i[1], op->i[2]);
    if (error) return error;
    REQUIRE(op->i[0] % op->i[1] == 0, "attention: n_head is not a multiple of n_head_kv");
    REQUIRE(isfinite(op->f[0]), "attention: the scale is not finite");
    return NULL;
}

static const char *check_binary(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->a) && is_f32(&op->b), "dst, a and b must be f32");
    REQUIRE(same_shape(&op->dst, &op->a), "dst and a must have equal shapes");
    bool one_row = op->code != GK_OP_SWIGLU && op->b.ne[0] == op->a.ne[0] && op->b.ne[1] == 1;
    REQUIRE(one_row || same_shape(&op->a, &op->b), "a and b must have equal shapes");
    return NULL;
}

static const char *check_unary(const gk_op *op) {
    REQUIRE(is_f32(&op->dst) && is_f32(&op->a), "dst and a must be f32");
    REQUIRE(same_shape(&op->dst, &op->a), "dst and a must have equal shapes");
    REQUIRE(op->code != GK_OP_SOFTMAX || isfinite(op->f[0]), "softmax: the scale is not finite");
    return NULL;
}

static const char *check_argmax(const gk_op *op) {
    REQUIRE(is_f32(&op->a) && is_vector(&op->dst, GK_I32, op->a.ne[1]), "argmax: a must be f32 {n, rows}, dst i32 {rows}");
    return NULL;
}

static const char *check_topk(const gk_op *op) {
    REQUIRE(op->i[0] >= 1 && op->i[0] <= GK_MAX_TOPK && (uint32_t)op->i[0] <= op->a.ne[0], "topk: k is not in 1 .. min(256, n)");
    REQUIRE(is_f32(&op->a) && op->dst.type == GK_I32 && is_f32(&op->c), "topk: a and c must be f32, dst i32");
    REQUIRE(op->dst.ne[0] == (uint32_t)op->i[0] && op->dst.ne[1] == op->a.ne[1] && same_shape(&op->dst, &op->c),
            "topk: dst and c must be {k, rows}");
    return NULL;
}

static const char *check_copy(const gk_op *op) {
    REQUIRE(is_float_type(op->a.type) && is_float_type(op->dst.type), "copy: the types must be f32 or f16");
    REQUIRE(same_shape(&op->dst, &op->a), "copy: dst and a must have equal shapes");
    return NULL;
}

static const char *check_step(const gk_op *op) {
    REQUIRE(is_vector(&op->a, GK_I32, 1) && is_vector(&op->b, GK_I32, 1), "step: a and b must be i32 {1}");
    REQUIRE(op->dst.buffer == NULL || is_vector(&op->dst, GK_I32, op->dst.ne[0]), "step: the history must be i32 {n}");
    return NULL;
}

/* Combines the checks of ROPE (the table) and KV_WRITE (everything else). */
static const char *check_rope_kv(const gk_op *op) {
    REQUIRE(is_f32(&op->d), "rope_kv: the table must be f32");
    REQUIRE(op->i[2] >= 2 && op->i[2] % 2 == 0 && op->i[2] <= op->i[1], "rope_kv: n_rot is not even and in 2 .. d_head");
    REQUIRE(op->d.ne[0] == (uint32_t)op->i[2], "rope_kv: the table must be {n_rot, n_ctx}");
    return check_kv_write(op);
}

static const char *check_norm_of(const gk_op *op) {
    REQUIRE(is_vector(gk_norm_of(op), GK_F32, op->b.ne[0]), "the norm of a product must be f32 {k}");
    REQUIRE(isfinite(op->f[0]) && op->f[0] >= 0, "the norm of a product has an eps that is negative or not finite");
    return NULL;
}

static const char *check_gate_up(const gk_op *op) {
    REQUIRE(op->a.type == op->d.type && same_shape(&op->a, &op->d), "gate_up: the weights differ in type or shape");
    const char *error = gk_norm_of(op) ? check_norm_of(op) : NULL;
    return error ? error : check_product(op);
}

static const char *check_norm_matmul(const gk_op *op) {
    const char *error = check_norm_of(op);
    return error ? error : check_matmul(op);
}

static const char *check_code(const gk_op *op) {
    switch (gk_code(op)) {
    case GK_OP_EMBED: return check_embed(op);
    case GK_OP_RMSNORM: return check_rmsnorm(op);
    case GK_OP_MATMUL: return check_matmul(op);
    case GK_OP_ROPE: return check_rope(op);
    case GK_OP_KV_WRITE: return check_kv_write(op);
    case GK_OP_ATTENTION: return check_attention(op);
    case GK_OP_SWIGLU:
    case GK_OP_ADD:
    case GK_OP_MUL: return check_binary(op);
    case GK_OP_SILU:
    case GK_OP_SOFTMAX: return check_unary(op);
    case GK_OP_ARGMAX: return check_argmax(op);
    case GK_OP_TOPK: return check_topk(op);
    case GK_OP_COPY: return check_copy(op);
    case GK_OP_STEP: return check_step(op);
    case GK_OP_ROPE_KV: return check_rope_kv(op);
    case GK_OP_GATE_UP: return check_gate_up(op);
    case GK_OP_NORM_MATMUL: return check_norm_matmul(op);
    }
    return "unknown op";
}

const char *gk_op_check(const gk_op *op) {
    REQUIRE(op != NULL, "no op given");
    const op_rule *rule = rule_of(op->code);
    REQUIRE(rule != NULL, "unknown op");
    REQUIRE((op->flags & ~rule->flags) == 0, "the op does not have this flag");
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        const gk_tensor *t = gk_operand_of(op, (gk_operand)operand);
        if (rule->role[operand] == GK_ROLE_NONE) {
            REQUIRE(t->buffer == NULL, "the op does not have this operand");
        } else if (t->buffer == NULL) {
            REQUIRE(rule->optional[operand], "an operand is missing");
        } else {
            const char *error = check_operand(t, (gk_role)rule->role[operand]);
            if (error) return error;
        }
    }
    const char *error = check_code(op);
    return error ? error : check_overlap(op, rule);
}

/* ---- plans and steps ---- */

static uint32_t op_n_ctx(const gk_op *op) {
    switch (op->code) {
    case GK_OP_ROPE:
    case GK_OP_ATTENTION: return op->b.ne[1];
    case GK_OP_KV_WRITE: return op->dst.ne[1];
    case GK_OP_ROPE_KV: return op->dst.ne[1] < op->d.ne[1] ? op->dst.ne[1] : op->d.ne[1];
    default: return UINT32_MAX;
    }
}

const char *gk_plan_check(const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint32_t *bad) {
    *limits = (gk_plan_limits){.rows = 1, .n_ctx = UINT32_MAX, .ends_in_step = false};
    *bad = 0;
    REQUIRE(ops != NULL && count != 0, "the plan has no ops");
    for (uint32_t n = 0; n < count; n++) {
        *bad = n;
        const char *error = gk_op_check(&ops[n]);
        if (error) return error;
        REQUIRE(ops[n].code != GK_OP_STEP || n + 1 == count, "step: must be the last op of a plan");
        uint32_t rows = gk_op_rows(&ops[n]);
        uint32_t n_ctx = op_n_ctx(&ops[n]);
        if (rows > limits->rows) limits->rows = rows;
        if (n_ctx < limits->n_ctx) limits->n_ctx = n_ctx;
    }
    limits->ends_in_step = ops[count - 1].code == GK_OP_STEP;
    REQUIRE(!limits->ends_in_step || limits->rows == 1, "step: the plan must have one row");
    return NULL;
}

const char *gk_step_check(const gk_plan_limits *limits, const gk_step *step, uint32_t repeat) {
    REQUIRE(step != NULL, "no step given");
    REQUIRE(repeat != 0, "repeat is 0");
    REQUIRE(repeat == 1 || limits->ends_in_step, "repeat is above 1, but the plan does not end in STEP");
    REQUIRE(step->n_tok != 0, "n_tok is 0");
    REQUIRE(step->n_tok <= limits->rows, "n_tok is above the rows of the plan");
    REQUIRE(limits->n_ctx == UINT32_MAX || (uint64_t)step->pos + (uint64_t)step->n_tok * repeat <= limits->n_ctx,
            "pos + n_tok is above n_ctx");
    return NULL;
}
