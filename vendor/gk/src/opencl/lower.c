/* Maps an op to the kernels, variants, parameters and grids that compute it. Pure: the same op gives the same
 * dispatches. */
#include "opencl.h"

enum {
    MAX_SPLITS = 64,       /* of the positions in attention */
    SPLIT_POSITIONS = 256, /* smallest number of positions for a split */
    MAX_D_HEAD = 256,
    FEW_TOKENS = 8,        /* up to here matvec.cl reads each weight once for all of them */
    ITEM_THREADS = 64,     /* for kernels whose work-items are independent */
    CPU_THREADS = 16,      /* of a reduction on a CPU, where every waiting work-item costs time */
    CPU_TILE = 32,         /* positions, TILE of cache.cl */
    MAX_TEAM = 16,         /* maximum number of work-items that reduce one row of scores */
    MATVEC_THREADS = 64,
    CPU_SHARES = 16,       /* parts of the rows of a weight for each core */
    MATMUL_THREADS = 256   /* matmul.cl requires it */
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }

/* The largest power of two allowed for a work-group, at most `wanted` (itself a power of two). */
static uint32_t threads_up_to(const gk_device *device, uint32_t wanted) {
    uint32_t threads = wanted;
    while (threads > device->max_threads) threads /= 2;
    return threads;
}

/* For kernels in which a work-group reduces `items`. */
static uint32_t reduction_threads(const gk_device *device, uint32_t items) {
    uint32_t threads = threads_up_to(device, device->cpu ? CPU_THREADS : GKCL_MAX_WORKGROUP);
    while (threads > CPU_THREADS && threads / 2 >= items) threads /= 2;
    return threads;
}

static gkcl_dispatch *add(const gk_device *device, gkcl_lowered *out, gkcl_kernel kernel, uint32_t threads, const gk_op *op) {
    gkcl_dispatch *d = &out->dispatch[out->count++];
    *d = (gkcl_dispatch){.variant = {.kernel = kernel, .workgroup = threads, .subgroups = device->subgroups}, .groups = {1, 1, 1}};
    d->arguments.stride[0] = (uint32_t)gk_stride(&op->dst);
    d->arguments.stride[1] = (uint32_t)gk_stride(&op->a);
    d->arguments.stride[2] = (uint32_t)gk_stride(&op->b);
    d->arguments.stride[3] = (uint32_t)gk_stride(&op->c);
    d->arguments.flags = op->flags;
    return d;
}

static void set_n(gkcl_dispatch *d, const uint32_t *n, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) d->arguments.n[i] = n[i];
}
#define SET_N(d, ...) \
    set_n(d, (const uint32_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

/* A kernel with one work-item for each of `items` in each of `rows`. */
static gkcl_dispatch *add_items(const gk_device *device, gkcl_lowered *out, gkcl_kernel kernel, const gk_op *op, uint64_t items,
                                uint32_t rows) {
    uint32_t threads = threads_up_to(device, ITEM_THREADS);
    gkcl_dispatch *d = add(device, out, kernel, threads, op);
    d->groups[0] = (items + threads - 1) / threads;
    d->groups[1] = rows;
    return d;
}

static const char *lower_elementwise(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    static const uint32_t function[] = {[GK_OP_ADD] = 0, [GK_OP_MUL] = 1, [GK_OP_SILU] = 2, [GK_OP_SWIGLU] = 3};
    gkcl_dispatch *d = add_items(device, out, GKCL_KERNEL_elementwise, op, op->a.ne[0], op->a.ne[1]);
    d->variant.special[0] = function[op->code];
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.buffer != NULL ? op->b.ne[1] : 1);
    return NULL;
}

static const char *lower_copy(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    gkcl_dispatch *d = add_items(device, out, GKCL_KERNEL_copy, op, op->a.ne[0], op->a.ne[1]);
    d->variant.special[0] = op->dst.type;
    d->variant.special[1] = op->a.type;
    SET_N(d, op->a.ne[0], op->a.ne[1]);
    return NULL;
}

/* Sets the parameters of weight.cl: the type of the weight, whether complete 16-byte pieces of rows can be loaded,
 * and the positions of its planes. Offsets of weights are multiples of 64. */
static void set_weight(gkcl_dispatch *d, const gk_tensor *w, uint64_t row_stride) {
    const uint32_t piece = w->type == GK_F32 ? 4 : 8;
    gk_planes planes;
    d->variant.special[0] = w->type;
    d->variant.special[1] = w->ne[0] % piece == 0 && row_stride % 4 == 0;
    if (!gk_planes_of(w->type, w->ne[0], w->ne[1], &planes)) return; /* cannot fail: the size was computed before */
    for (uint32_t p = 1; p < GK_PLANES; p++) d->arguments.n[4 + p] = gk_plane_units(&planes, p);
}

static const char *lower_embed(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    gkcl_dispatch *d = add_items(device, out, GKCL_KERNEL_embed, op, ceil_div(op->a.ne[0], 4), op->b.ne[0]);
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.ne[0]);
    set_weight(d, &op->a, 0);
    return NULL;
}

static const char *lower_rmsnorm(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    uint32_t group = op->b.ne[0];
    gkcl_dispatch *d = add(device, out, GKCL_KERNEL_rmsnorm, reduction_threads(device, group), op);
    SET_N(d, group, op->a.ne[0] / group, op->a.ne[1]);
    d->arguments.f[0] = op->f[0];
    d->groups[0] = op->a.ne[0] / group;
    d->groups[1] = op->a.ne[1];
    return NULL;
}

static const char *lower_rope(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], n_rot = (uint32_t)op->i[2];
    uint64_t items = (uint64_t)n_head * (n_rot / 2 + d_head - n_rot);
    gkcl_dispatch *d = add_items(device, out, GKCL_KERNEL_rope, op, items, op->a.ne[1]);
    SET_N(d, n_head, d_head, n_rot, op->a.ne[1]);
    return NULL;
}

/* ---- matmul ---- */

static void lower_matvec(const gk_device *device, const gk_op *op, uint32_t tokens, gkcl_lowered *out) {
    /* Larger products of both need more registers than there are. */
    uint32_t columns = tokens >= 5 && !device->cpu ? 8 : tokens >= 3 ? 4 : tokens;
    uint32_t rows = columns >= 4 ? 2 : 4;
    gkcl_dispatch *d;
    if (device->cpu) {
        d = add(device, out, GKCL_KERNEL_matvec_cpu, 1, op);
        d->variant.subgroups = 0;
        d->groups[0] = least(ceil_div(op->a.ne[1], rows), device->compute_units * CPU_SHARES);
    } else {
        if (op->a.ne[1] < 8192) rows = 2; /* gives small matrices enough work-groups */
        d = add(device, out, GKCL_KERNEL_matvec, threads_up_to(device, MATVEC_THREADS), op);
        d->groups[0] = ceil_div(op->a.ne[1], rows);
    }
    d->variant.special[2] = rows;
    d->variant.special[3] = columns;
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.ne[1]);
    set_weight(d, &op->a, gk_stride(&op->b));
    if (device->cpu) d->variant.special[1] = 0; /* its vectors need no alignment: one variant for all */
    d->groups[1] = ceil_div(tokens, columns);
}

static const char *lower_matmul(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    bool last_row = (op->flags & GK_LAST_ROW) != 0;
    uint32_t tokens = last_row ? 1 : op->b.ne[1];
    /* Local memory of a CPU is not faster than other memory, so a CPU always uses the other kernel. */
    if (tokens <= FEW_TOKENS || device->cpu || device->max_threads < MATMUL_THREADS) {
        lower_matvec(device, op, tokens, out);
        return NULL;
    }
    uint32_t columns = tokens <= 32 ? 2 : 4;
    gkcl_dispatch *d = add(device, out, GKCL_KERNEL_matmul, MATMUL_THREADS, op);
    d->variant.subgroups = 0;
    d->variant.special[2] = columns;
    SET_N(d, op->a.ne[0], op->a.ne[1], tokens);
    set_weight(d, &op->a, gk_stride(&op->b));
    d->groups[0] = ceil_div(op->a.ne[1], 64);
    d->groups[1] = ceil_div(tokens, 16 * columns);
    return NULL;
}

/* ---- the cache ---- */

/* Neighbouring elements in the cache: 4 elements of a key if each work-item has one position, or the same element of
 * 32 positions for the vectors of a CPU. */
static uint32_t cache_vector(const gk_device *device, uint32_t d_head) { return !device->cpu && d_head % 4 == 0 ? 4 : 1; }

static const char *check_cache(uint32_t d_head, uint32_t n_ctx) {
    return (uint64_t)d_head * n_ctx < (uint64_t)1 << 31 ? NULL : "a cache of 2^31 or more elements for one head";
}

static const char *lower_kv_write(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    uint32_t d_head = (uint32_t)op->i[1], n_ctx = op->dst.ne[1];
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    gkcl_dispatch *d = add_items(device, out, GKCL_KERNEL_kv_write, op, op->a.ne[0], op->a.ne[1]);
    d->variant.special[0] = op->dst.type;
    d->variant.special[1] = cache_vector(device, d_head);
    SET_N(d, (uint32_t)op->i[0], d_head, op->a.ne[1], n_ctx);
    return NULL;
}

/* Bytes of local memory that attention.cl needs. */
static uint32_t attention_local(uint32_t queries, uint32_t d_head, uint32_t threads, uint32_t team) {
    return 4 * queries * (d_head + threads + team + 3);
}

typedef struct splitting {
    uint32_t positions; /* positions of one split, a multiple of `unit` */
    uint32_t count;
} splitting;

/* A few work-groups leave most of a device idle, so the positions are split. */
static splitting split_positions(uint32_t n_ctx, uint32_t wanted, uint32_t unit) {
    uint32_t count = least(least(ceil_div(n_ctx, SPLIT_POSITIONS), MAX_SPLITS), wanted);
    uint32_t positions = ceil_div(ceil_div(n_ctx, count), unit) * unit;
    return (splitting){.positions = positions, .count = ceil_div(n_ctx, positions)};
}

/* Combines the splits of the previous dispatch. */
static void add_merge(const gk_device *device, const gk_op *op, splitting split, gkcl_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[2], rows = op->a.ne[1];
    gkcl_dispatch *merge = add(device, out, GKCL_KERNEL_attention_merge, reduction_threads(device, d_head), op);
    merge->variant.subgroups = 0;
    SET_N(merge, n_head, d_head, rows, split.positions, split.count);
    merge->groups[0] = (uint64_t)rows * n_head;
    out->scratch = (uint64_t)rows * n_head * split.count * (d_head + 2) * sizeof(float);
}

static void lower_attention_cpu(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], rows = op->a.ne[1], n_ctx = op->b.ne[1];
    splitting split = split_positions(n_ctx, (uint32_t)(((uint64_t)device->compute_units - 1) / ((uint64_t)rows * n_head)) + 1, CPU_TILE);
    gkcl_dispatch *d = add(device, out, GKCL_KERNEL_attention_cpu, 1, op);
    d->variant.subgroups = 0;
    d->variant.special[0] = op->b.type;
    d->variant.special[1] = cache_vector(device, (uint32_t)op->i[2]);
    d->variant.special[2] = (uint32_t)op->i[2];
    SET_N(d, n_head, (uint32_t)op->i[1], rows, n_ctx, split.positions, split.count);
    d->arguments.f[0] = op->f[0];
    d->groups[0] = n_head;
    d->groups[1] = rows;
    d->groups[2] = split.count;
    if (split.count > 1) add_merge(device, op, split, out);
}

static const char *lower_attention(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], n_kv = (uint32_t)op->i[1], d_head = (uint32_t)op->i[2];
    uint32_t rows = op->a.ne[1], n_ctx = op->b.ne[1];
    if (d_head > MAX_D_HEAD) return "attention: d_head is above 256";
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    if (device->cpu) {
        lower_attention_cpu(device, op, out);
        return NULL;
    }
    uint32_t vector = cache_vector(device, d_head);
    uint32_t threads = threads_up_to(device, d_head / vector > 128 ? 256 : 128);
    if (d_head / vector > threads) return "attention: the device's work-groups are too small for this d_head";
    uint64_t queries_all = (uint64_t)rows * (n_head / n_kv);
    uint32_t queries = queries_all > 4 ? 8 : queries_all > 2 ? 4 : (uint32_t)queries_all;
    uint32_t team = least(MAX_TEAM, threads / queries);
    while (queries > 1 && attention_local(queries, d_head, threads, team) > device->local_bytes) queries /= 2;
    splitting split = split_positions(n_ctx, rows <= FEW_TOKENS ? MAX_SPLITS : 1, threads);
    gkcl_dispatch *d = add(device, out, GKCL_KERNEL_attention, threads, op);
    d->variant.subgroups = 0;
    d->variant.special[0] = op->b.type;
    d->variant.special[1] = vector;
    d->variant.special[2] = d_head;
    d->variant.special[3] = queries;
    d->variant.special[4] = team;
    SET_N(d, n_head, n_kv, rows, n_ctx, split.positions, split.count);
    d->arguments.f[0] = op->f[0];
    d->groups[0] = (queries_all + queries - 1) / queries;
    d->groups[1] = n_kv;
    d->groups[2] = split.count;
    if (split.count > 1) add_merge(device, op, split, out);
    return NULL;
}

/* ---- rows ---- */

static const char *lower_row(const gk_device *device, const gk_op *op, gkcl_kernel kernel, uint32_t threads, gkcl_lowered *out) {
    gkcl_dispatch *d = add(device, out, kernel, threads, op);
    SET_N(d, op->a.ne[0], op->a.ne[1], op->code == GK_OP_TOPK ? (uint32_t)op->i[0] : 0);
    d->arguments.f[0] = op->f[0];
    d->groups[0] = op->a.ne[1];
    return NULL;
}

static const char *lower_step(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    gkcl_dispatch *d = add(device, out, GKCL_KERNEL_step, 1, op);
    d->variant.subgroups = 0;
    SET_N(d, op->dst.buffer != NULL ? op->dst.ne[0] : 0);
    return NULL;
}

const char *gkcl_lower(const gk_device *device, const gk_op *op, gkcl_lowered *out) {
    *out = (gkcl_lowered){.count = 0};
    switch (op->code) {
    case GK_OP_EMBED: return lower_embed(device, op, out);
    case GK_OP_RMSNORM: return lower_rmsnorm(device, op, out);
    case GK_OP_MATMUL: return lower_matmul(device, op, out);
    case GK_OP_ROPE: return lower_rope(device, op, out);
    case GK_OP_KV_WRITE: return lower_kv_write(device, op, out);
    case GK_OP_ATTENTION: return lower_attention(device, op, out);
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL: return lower_elementwise(device, op, out);
    case GK_OP_SOFTMAX: return lower_row(device, op, GKCL_KERNEL_softmax, reduction_threads(device, op->a.ne[0]), out);
    case GK_OP_ARGMAX: return lower_row(device, op, GKCL_KERNEL_argmax, reduction_threads(device, op->a.ne[0]), out);
    case GK_OP_TOPK: return lower_row(device, op, GKCL_KERNEL_topk, reduction_threads(device, GKCL_MAX_WORKGROUP), out);
    case GK_OP_COPY: return lower_copy(device, op, out);
    case GK_OP_STEP: return lower_step(device, op, out);
    default: return "no kernel for this op";
    }
}
