/* Maps an op to the kernels, variants, parameters and grids that compute it. Pure: the same op gives the same
 * launches. */
#include "metal.h"

enum {
    MAX_SPLITS = 64,       /* of the positions in attention */
    SPLIT_POSITIONS = 256, /* smallest number of positions for a split */
    MAX_D_HEAD = 256,
    FEW_TOKENS = 8,        /* up to here matvec.metal reads each weight once for all of them */
    ITEM_THREADS = 64,     /* for kernels whose threads are independent */
    MAX_TEAM = 16,         /* maximum number of threads that reduce one row of scores */
    MATVEC_THREADS = 64,
    MATMUL_THREADS = 256   /* matmul.metal requires it */
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* For kernels in which a threadgroup reduces `items`: a multiple of the simdgroup size. */
static uint32_t reduction_threads(uint32_t items) {
    uint32_t threads = GKMTL_MAX_THREADS;
    while (threads > GKMTL_WIDTH && threads / 2 >= items) threads /= 2;
    return threads;
}

static gkmtl_launch *add(gkmtl_lowered *out, gkmtl_kernel kernel, uint32_t threads, const gk_op *op) {
    gkmtl_launch *l = &out->launch[out->count++];
    *l = (gkmtl_launch){.variant = {.kernel = kernel, .threads = threads}, .groups = {1, 1, 1}};
    l->arguments.stride[0] = (uint32_t)gk_stride(&op->dst);
    l->arguments.stride[1] = (uint32_t)gk_stride(&op->a);
    l->arguments.stride[2] = (uint32_t)gk_stride(&op->b);
    l->arguments.stride[3] = (uint32_t)gk_stride(&op->c);
    l->arguments.flags = op->flags;
    return l;
}

static void set_n(gkmtl_launch *l, const uint32_t *n, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) l->arguments.n[i] = n[i];
}
#define SET_N(l, ...) \
    set_n(l, (const uint32_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

/* A kernel with one thread for each of `items` in each of `rows`. */
static gkmtl_launch *add_items(gkmtl_lowered *out, gkmtl_kernel kernel, const gk_op *op, uint64_t items, uint32_t rows) {
    gkmtl_launch *l = add(out, kernel, ITEM_THREADS, op);
    l->groups[0] = (items + ITEM_THREADS - 1) / ITEM_THREADS;
    l->groups[1] = rows;
    return l;
}

static const char *lower_elementwise(const gk_op *op, gkmtl_lowered *out) {
    static const uint32_t function[] = {[GK_OP_ADD] = 0, [GK_OP_MUL] = 1, [GK_OP_SILU] = 2, [GK_OP_SWIGLU] = 3};
    gkmtl_launch *l = add_items(out, GKMTL_KERNEL_elementwise, op, op->a.ne[0], op->a.ne[1]);
    l->variant.special[0] = function[op->code];
    SET_N(l, op->a.ne[0], op->a.ne[1], op->b.buffer != NULL ? op->b.ne[1] : 1);
    return NULL;
}

static const char *lower_copy(const gk_op *op, gkmtl_lowered *out) {
    gkmtl_launch *l = add_items(out, GKMTL_KERNEL_copy, op, op->a.ne[0], op->a.ne[1]);
    l->variant.special[0] = op->dst.type;
    l->variant.special[1] = op->a.type;
    SET_N(l, op->a.ne[0], op->a.ne[1]);
    return NULL;
}

/* Sets the parameters of weight.metal: the type of the weight, whether complete 16-byte pieces of rows can be
 * loaded, and the positions of its planes. Offsets of weights are multiples of 64. */
static void set_weight(gkmtl_launch *l, const gk_tensor *w, uint64_t row_stride) {
    const uint32_t piece = w->type == GK_F32 ? 4 : 8;
    gk_planes planes;
    l->variant.special[0] = w->type;
    l->variant.special[1] = w->ne[0] % piece == 0 && row_stride % 4 == 0;
    if (!gk_planes_of(w->type, w->ne[0], w->ne[1], &planes)) return; /* cannot fail: the size was computed before */
    for (uint32_t p = 1; p < GK_PLANES; p++) l->arguments.n[4 + p] = gk_plane_units(&planes, p);
}

static const char *lower_embed(const gk_op *op, gkmtl_lowered *out) {
    gkmtl_launch *l = add_items(out, GKMTL_KERNEL_embed, op, ceil_div(op->a.ne[0], 4), op->b.ne[0]);
    SET_N(l, op->a.ne[0], op->a.ne[1], op->b.ne[0]);
    set_weight(l, &op->a, 0);
    return NULL;
}

static const char *lower_rmsnorm(const gk_op *op, gkmtl_lowered *out) {
    const uint32_t group = op->b.ne[0];
    gkmtl_launch *l = add(out, GKMTL_KERNEL_rmsnorm, reduction_threads(group), op);
    SET_N(l, group, op->a.ne[0] / group, op->a.ne[1]);
    l->arguments.f[0] = op->f[0];
    l->groups[0] = op->a.ne[0] / group;
    l->groups[1] = op->a.ne[1];
    return NULL;
}

static const char *lower_rope(const gk_op *op, gkmtl_lowered *out) {
    const uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], n_rot = (uint32_t)op->i[2];
    const uint64_t items = (uint64_t)n_head * (n_rot / 2 + d_head - n_rot);
    gkmtl_launch *l = add_items(out, GKMTL_KERNEL_rope, op, items, op->a.ne[1]);
    SET_N(l, n_head, d_head, n_rot, op->a.ne[1]);
    return NULL;
}

/* ---- matmul ---- */

static void lower_matvec(const gk_op *op, uint32_t tokens, gkmtl_lowered *out) {
    /* Larger products of both need more registers than there are. */
    const uint32_t columns = tokens >= 5 ? 8 : tokens >= 3 ? 4 : tokens;
    const uint32_t rows = columns >= 4 ? 2 : 4;
    gkmtl_launch *l = add(out, GKMTL_KERNEL_matvec, MATVEC_THREADS, op);
    l->variant.special[2] = rows;
    l->variant.special[3] = columns;
    SET_N(l, op->a.ne[0], op->a.ne[1], op->b.ne[1]);
    set_weight(l, &op->a, gk_stride(&op->b));
    l->groups[0] = ceil_div(op->a.ne[1], rows * (MATVEC_THREADS / GKMTL_WIDTH));
    l->groups[1] = ceil_div(tokens, columns);
}

static const char *lower_matmul(const gk_op *op, gkmtl_lowered *out) {
    const bool last_row = (op->flags & GK_LAST_ROW) != 0;
    const uint32_t tokens = last_row ? 1 : op->b.ne[1];
    if (tokens <= FEW_TOKENS) {
        lower_matvec(op, tokens, out);
        return NULL;
    }
    const uint32_t columns = tokens <= 32 ? 2 : 4;
    gkmtl_launch *l = add(out, GKMTL_KERNEL_matmul, MATMUL_THREADS, op);
    l->variant.special[2] = columns;
    SET_N(l, op->a.ne[0], op->a.ne[1], tokens);
    set_weight(l, &op->a, gk_stride(&op->b));
    l->groups[0] = ceil_div(op->a.ne[1], 64);
    l->groups[1] = ceil_div(tokens, 16 * columns);
    return NULL;
}

/* ---- the cache ---- */

/* Neighbouring elements of a key in the cache. */
static uint32_t cache_vector(uint32_t d_head) { return d_head % 4 == 0 ? 4 : 1; }

static const char *check_cache(uint32_t d_head, uint32_t n_ctx) {
    return (uint64_t)d_head * n_ctx < (uint64_t)1 << 31 ? NULL : "a cache of 2^31 or more elements for one head";
}

static const char *lower_kv_write(const gk_op *op, gkmtl_lowered *out) {
    const uint32_t d_head = (uint32_t)op->i[1], n_ctx = op->dst.ne[1];
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    gkmtl_launch *l = add_items(out, GKMTL_KERNEL_kv_write, op, op->a.ne[0], op->a.ne[1]);
    l->variant.special[0] = op->dst.type;
    l->variant.special[1] = cache_vector(d_head);
    SET_N(l, (uint32_t)op->i[0], d_head, op->a.ne[1], n_ctx);
    return NULL;
}

/* Bytes of threadgroup memory that attention.metal needs. */
static uint32_t attention_memory(uint32_t queries, uint32_t d_head, uint32_t threads, uint32_t team) {
    return 4 * queries * (d_head + threads + team + 3);
}

typedef struct splitting {
    uint32_t positions; /* positions of one split, a multiple of the threads */
    uint32_t count;
} splitting;

/* A few threadgroups leave most of a device idle, so the positions are split. */
static splitting split_positions(uint32_t n_ctx, uint32_t wanted, uint32_t threads) {
    const uint32_t count = least(least(ceil_div(n_ctx, SPLIT_POSITIONS), MAX_SPLITS), wanted);
    const uint32_t positions = ceil_div(ceil_div(n_ctx, count), threads) * threads;
    return (splitting){.positions = positions, .count = ceil_div(n_ctx, positions)};
}

/* Combines the splits of the previous launch. */
static void add_merge(const gk_op *op, splitting split, gkmtl_lowered *out) {
    const uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[2], rows = op->a.ne[1];
    gkmtl_launch *merge = add(out, GKMTL_KERNEL_attention_merge, reduction_threads(d_head), op);
    SET_N(merge, n_head, d_head, rows, split.positions, split.count);
    merge->groups[0] = (uint64_t)rows * n_head;
    out->scratch = (uint64_t)rows * n_head * split.count * (d_head + 2) * sizeof(float);
}

static const char *lower_attention(const gk_device *device, const gk_op *op, gkmtl_lowered *out) {
    const uint32_t n_head = (uint32_t)op->i[0], n_kv = (uint32_t)op->i[1], d_head = (uint32_t)op->i[2];
    const uint32_t rows = op->a.ne[1], n_ctx = op->b.ne[1];
    if (d_head > MAX_D_HEAD) return "attention: d_head is above 256";
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    const uint32_t vector = cache_vector(d_head);
    const uint32_t threads = d_head / vector > 128 ? 256 : 128;
    const uint64_t queries_all = (uint64_t)rows * (n_head / n_kv);
    uint32_t queries = queries_all > 4 ? 8 : queries_all > 2 ? 4 : (uint32_t)queries_all;
    const uint32_t team = least(MAX_TEAM, threads / queries);
    while (queries > 1 && attention_memory(queries, d_head, threads, team) > device->threadgroup_memory) queries /= 2;
    const splitting split = split_positions(n_ctx, rows <= FEW_TOKENS ? MAX_SPLITS : 1, threads);
    gkmtl_launch *l = add(out, GKMTL_KERNEL_attention, threads, op);
    l->variant.special[0] = op->b.type;
    l->variant.special[1] = vector;
    l->variant.special[2] = d_head;
    l->variant.special[3] = queries;
    l->variant.special[4] = team;
    SET_N(l, n_head, n_kv, rows, n_ctx, split.positions, split.count);
    l->arguments.f[0] = op->f[0];
    l->groups[0] = (queries_all + queries - 1) / queries;
    l->groups[1] = n_kv;
    l->groups[2] = split.count;
    if (split.count > 1) add_merge(op, split, out);
    return NULL;
}

/* ---- rows ---- */

static const char *lower_row(const gk_op *op, gkmtl_kernel kernel, uint32_t threads, gkmtl_lowered *out) {
    gkmtl_launch *l = add(out, kernel, threads, op);
    SET_N(l, op->a.ne[0], op->a.ne[1], op->code == GK_OP_TOPK ? (uint32_t)op->i[0] : 0);
    l->arguments.f[0] = op->f[0];
    l->groups[0] = op->a.ne[1];
    return NULL;
}

static const char *lower_step(const gk_op *op, gkmtl_lowered *out) {
    gkmtl_launch *l = add(out, GKMTL_KERNEL_step, GKMTL_WIDTH, op);
    SET_N(l, op->dst.buffer != NULL ? op->dst.ne[0] : 0);
    return NULL;
}

const char *gkmtl_lower(const gk_device *device, const gk_op *op, gkmtl_lowered *out) {
    *out = (gkmtl_lowered){.count = 0};
    switch (op->code) {
    case GK_OP_EMBED: return lower_embed(op, out);
    case GK_OP_RMSNORM: return lower_rmsnorm(op, out);
    case GK_OP_MATMUL: return lower_matmul(op, out);
    case GK_OP_ROPE: return lower_rope(op, out);
    case GK_OP_KV_WRITE: return lower_kv_write(op, out);
    case GK_OP_ATTENTION: return lower_attention(device, op, out);
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL: return lower_elementwise(op, out);
    case GK_OP_SOFTMAX: return lower_row(op, GKMTL_KERNEL_softmax, reduction_threads(op->a.ne[0]), out);
    case GK_OP_ARGMAX: return lower_row(op, GKMTL_KERNEL_argmax, reduction_threads(op->a.ne[0]), out);
    case GK_OP_TOPK: return lower_row(op, GKMTL_KERNEL_topk, GKMTL_MAX_THREADS, out);
    case GK_OP_COPY: return lower_copy(op, out);
    case GK_OP_STEP: return lower_step(op, out);
    default: return "no kernel for this op";
    }
}
