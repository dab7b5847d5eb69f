/* Maps an op to the kernels, variants, parameters and grids that compute it. Pure: the same op gives the same
 * dispatches. */
#include "vulkan.h"

enum {
    MAX_GROUPS = 65535,    /* limit of one dimension on every device */
    MAX_SPLITS = 64,       /* of the positions in attention */
    SPLIT_POSITIONS = 256, /* smallest number of positions for a split */
    MAX_D_HEAD = 256,
    FEW_TOKENS = 8,        /* up to here matvec.comp reads each weight once for all of them */
    SOFTWARE_ROWS = 8,
    MATVEC_SUBGROUPS = 4,  /* of one workgroup */
    MATMUL_THREADS = 256   /* matmul.comp requires it */
};

static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0); }
static uint32_t groups_of(uint64_t items, uint32_t each) {
    uint64_t groups = (items + each - 1) / each;
    return groups < MAX_GROUPS ? (uint32_t)groups : MAX_GROUPS;
}

static bool workgroup_fits(const gk_device *device, uint32_t threads) {
    return threads <= device->max_threads && threads / device->subgroup <= device->max_subgroups;
}

/* The largest power of two allowed for a workgroup, at most `wanted` (itself a power of two). */
static uint32_t threads_up_to(const gk_device *device, uint32_t wanted) {
    uint32_t threads = wanted;
    while (!workgroup_fits(device, threads) || threads / device->subgroup > GKV_MAX_SUBGROUPS) threads /= 2;
    return threads;
}

/* For kernels in which a workgroup reduces `items`. On software devices every waiting invocation costs time. */
static uint32_t reduction_threads(const gk_device *device, uint32_t items) {
    uint32_t threads = threads_up_to(device, device->kind == GK_KIND_SOFTWARE ? device->subgroup * 4 : GKV_MAX_WORKGROUP);
    while (threads > device->subgroup && threads / 2 >= items) threads /= 2;
    return threads;
}

static gkv_dispatch *add(const gk_device *device, gkv_lowered *out, gkv_kernel kernel, uint32_t threads, const gk_op *op) {
    gkv_dispatch *d = &out->dispatch[out->count++];
    *d = (gkv_dispatch){.variant = {.kernel = kernel, .special = {threads, device->subgroup}}, .groups = {1, 1, 1}};
    d->push.dst_stride = (uint32_t)gk_stride(&op->dst);
    d->push.a_stride = (uint32_t)gk_stride(&op->a);
    d->push.b_stride = (uint32_t)gk_stride(&op->b);
    d->push.c_stride = (uint32_t)gk_stride(&op->c);
    d->push.flags = op->flags;
    return d;
}

static void set_n(gkv_dispatch *d, const uint32_t *n, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) d->push.n[i] = n[i];
}
#define SET_N(d, ...) \
    set_n(d, (const uint32_t[]){__VA_ARGS__}, (uint32_t)(sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))

/* Sets a grid over `items` of each of `rows`. */
static void item_grid(gkv_dispatch *d, uint64_t items, uint32_t rows) {
    d->groups[0] = groups_of(items, d->variant.special[0]);
    d->groups[1] = groups_of(rows, 1);
}

static const char *lower_elementwise(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    static const uint32_t function[] = {[GK_OP_ADD] = 0, [GK_OP_MUL] = 1, [GK_OP_SILU] = 2, [GK_OP_SWIGLU] = 3};
    gkv_dispatch *d = add(device, out, GKV_KERNEL_elementwise, threads_up_to(device, 128), op);
    d->variant.special[2] = function[op->code];
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.buffer != NULL ? op->b.ne[1] : 1);
    item_grid(d, op->a.ne[0], op->a.ne[1]);
    return NULL;
}

static const char *lower_copy(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_copy, threads_up_to(device, 128), op);
    d->variant.special[2] = op->dst.type;
    d->variant.special[3] = op->a.type;
    SET_N(d, op->a.ne[0], op->a.ne[1]);
    item_grid(d, op->a.ne[0], op->a.ne[1]);
    return NULL;
}

/* Sets the parameters of weight.glsl: the type of the weight, whether complete 16-byte pieces of rows of `elements`
 * can be loaded, and the positions of its planes. Offsets of weights are multiples of 64. */
static void set_weight(gkv_dispatch *d, const gk_tensor *w, uint64_t row_stride) {
    const uint32_t piece = w->type == GK_F32 ? 4 : 8;
    gk_planes planes;
    d->variant.special[2] = w->type;
    d->variant.special[3] = w->ne[0] % piece == 0 && row_stride % 4 == 0;
    if (!gk_planes_of(w->type, w->ne[0], w->ne[1], &planes)) return; /* cannot fail: the size was computed before */
    for (uint32_t p = 1; p < GK_PLANES; p++) d->push.n[4 + p] = gk_plane_units(&planes, p);
}

static const char *lower_embed(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_embed, threads_up_to(device, 128), op);
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.ne[0]);
    set_weight(d, &op->a, 0);
    item_grid(d, ceil_div(op->a.ne[0], 4), op->b.ne[0]);
    return NULL;
}

static const char *lower_rmsnorm(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t group = op->b.ne[0];
    gkv_dispatch *d = add(device, out, GKV_KERNEL_rmsnorm, reduction_threads(device, group), op);
    SET_N(d, group, op->a.ne[0] / group, op->a.ne[1]);
    d->push.f[0] = op->f[0];
    d->groups[0] = groups_of(op->a.ne[0] / group, 1);
    d->groups[1] = groups_of(op->a.ne[1], 1);
    return NULL;
}

static const char *lower_rope(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], n_rot = (uint32_t)op->i[2];
    gkv_dispatch *d = add(device, out, GKV_KERNEL_rope, threads_up_to(device, 128), op);
    SET_N(d, n_head, d_head, n_rot, op->a.ne[1]);
    item_grid(d, (uint64_t)n_head * (n_rot / 2 + d_head - n_rot), op->a.ne[1]);
    return NULL;
}

/* ---- matmul ---- */

static void lower_matvec(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    bool last_row = (op->flags & GK_LAST_ROW) != 0;
    uint32_t tokens = last_row ? 1 : op->b.ne[1];
    uint32_t columns = tokens >= 5 ? 8 : tokens >= 3 ? 4 : tokens;
    /* More rows reuse each activation more often; fewer leave registers free and give small matrices enough
     * subgroups. On a CPU registers do not matter, and loads dominate. */
    uint32_t rows = columns == 8 ? 2 : op->a.ne[1] >= 8192 ? 4 : 2;
    if (device->kind == GK_KIND_SOFTWARE) rows = SOFTWARE_ROWS;
    const uint32_t weights = op->code == GK_OP_GATE_UP ? 2 : 1;
    rows /= weights;
    gkv_dispatch *d = add(device, out, GKV_KERNEL_matvec, threads_up_to(device, device->subgroup * MATVEC_SUBGROUPS), op);
    d->variant.special[4] = rows;
    d->variant.special[5] = columns;
    d->variant.special[6] = weights;
    SET_N(d, op->a.ne[0], op->a.ne[1], op->b.ne[1]);
    set_weight(d, &op->a, gk_stride(&op->b));
    d->groups[0] = groups_of(ceil_div(op->a.ne[1], rows), d->variant.special[0] / device->subgroup);
    d->groups[1] = ceil_div(tokens, columns);
}

/* More tokens use the tiles, which support only one weight. */
static const char *lower_gate_up(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    if (op->b.ne[1] > FEW_TOKENS) return "gate_up: more than 8 tokens";
    if (gk_norm_of(op)) return "gate_up: a norm";
    lower_matvec(device, op, out);
    return NULL;
}

/* Rounds b into the scratch memory (layout: rounded.glsl). Returns the kernel to use afterwards. */
static gkv_kernel lower_round(const gk_device *device, const gk_op *op, gkv_lowered *out) {
#if GKV_HAVE_DOT
    const uint32_t k = op->a.ne[0], tokens = op->b.ne[1];
    gkv_dispatch *d = add(device, out, GKV_KERNEL_round, threads_up_to(device, 128), op);
    d->variant.special[3] = gk_stride(&op->b) % 4 == 0;
    SET_N(d, k, op->a.ne[1], tokens);
    item_grid(d, k / 32, tokens);
    out->scratch = (uint64_t)tokens * (k + k / 32 * 2 * sizeof(float));
    out->extra = GKV_DOT;
    return GKV_KERNEL_matmul_dot;
#else
    (void)device, (void)op, (void)out; /* in this build no device has them */
    return GKV_KERNEL_matmul;
#endif
}

static void lower_tiles(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    const uint32_t tokens = op->b.ne[1], columns = tokens <= 32 ? 2 : 4;
    const bool dot = device->has[GKV_DOT] && gk_is_block_type(op->a.type);
    gkv_dispatch *d = add(device, out, dot ? lower_round(device, op, out) : GKV_KERNEL_matmul, MATMUL_THREADS, op);
    d->variant.special[4] = columns;
    SET_N(d, op->a.ne[0], op->a.ne[1], tokens);
    set_weight(d, &op->a, gk_stride(&op->b));
    d->groups[0] = groups_of(op->a.ne[1], 64);
    d->groups[1] = ceil_div(tokens, 16 * columns);
}

#if GKV_HAVE_MATRICES
/* narrowed.glsl has the layout of the scratch memory. */
static void lower_matrices(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    const uint32_t k = op->a.ne[0], tokens = op->b.ne[1];
    gkv_dispatch *narrow = add(device, out, GKV_KERNEL_narrow, reduction_threads(device, ceil_div(k, 4)), op);
    SET_N(narrow, k, op->a.ne[1], tokens);
    set_weight(narrow, &op->a, gk_stride(&op->b));
    narrow->groups[0] = groups_of(tokens, 1);
    gkv_dispatch *d = add(device, out, GKV_KERNEL_matmul_matrices, GKV_MATRIX_SUBGROUPS * device->subgroup, op);
    SET_N(d, k, op->a.ne[1], tokens);
    set_weight(d, &op->a, gk_stride(&op->b));
    d->groups[0] = groups_of(op->a.ne[1], 64);
    d->groups[1] = ceil_div(tokens, 64);
    out->scratch = gk_align_u64(4ull * tokens, 64) + 2ull * tokens * gk_align_u64(k, 32);
    out->extra = GKV_MATRICES;
}
#endif

static const char *lower_matmul(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t tokens = op->b.ne[1];
    /* Shared memory of a software device is not faster than other memory, so it always uses the other kernel. */
    bool tiles = device->kind != GK_KIND_SOFTWARE && workgroup_fits(device, MATMUL_THREADS);
    if (tokens <= FEW_TOKENS || (op->flags & GK_LAST_ROW) || !tiles) {
        lower_matvec(device, op, out);
#if GKV_HAVE_MATRICES
    } else if (device->has[GKV_MATRICES] && op->a.type == GK_F16) {
        lower_matrices(device, op, out);
#endif
    } else {
        lower_tiles(device, op, out);
    }
    return out->dispatch[out->count - 1].groups[1] <= MAX_GROUPS ? NULL : "matmul: too many tokens in one plan";
}

/* ---- the cache ---- */

static uint32_t cache_vector(uint32_t d_head) { return d_head % 4 == 0 ? 4 : 1; }

static const char *check_cache(uint32_t d_head, uint32_t n_ctx) {
    return (uint64_t)d_head * n_ctx < (uint64_t)1 << 31 ? NULL : "a cache of 2^31 or more elements for one head";
}

static const char *lower_kv_write(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t d_head = (uint32_t)op->i[1], n_ctx = op->dst.ne[1];
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    gkv_dispatch *d = add(device, out, GKV_KERNEL_kv_write, threads_up_to(device, 128), op);
    d->variant.special[2] = op->dst.type;
    d->variant.special[3] = cache_vector(d_head);
    SET_N(d, (uint32_t)op->i[0], d_head, op->a.ne[1], n_ctx);
    item_grid(d, op->a.ne[0], op->a.ne[1]);
    return NULL;
}

static const char *lower_rope_kv(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], n_rot = (uint32_t)op->i[2], n_ctx = op->dst.ne[1];
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    gkv_dispatch *d = add(device, out, GKV_KERNEL_rope_kv, threads_up_to(device, 128), op);
    d->variant.special[2] = op->dst.type;
    d->variant.special[3] = cache_vector(d_head);
    SET_N(d, n_head, d_head, n_rot, op->a.ne[1], n_ctx, (uint32_t)gk_stride(&op->d));
    item_grid(d, (uint64_t)n_head * (n_rot / 2 + d_head - n_rot), op->a.ne[1]);
    return NULL;
}

/* Bytes of shared memory that attention.comp needs. */
static uint32_t attention_shared(uint32_t queries, uint32_t d_head, uint32_t threads) {
    return 4 * queries * (d_head + threads + 3) + 4 * GKV_MAX_SUBGROUPS;
}

static const char *lower_attention(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    uint32_t n_head = (uint32_t)op->i[0], n_kv = (uint32_t)op->i[1], d_head = (uint32_t)op->i[2];
    uint32_t rows = op->a.ne[1], n_ctx = op->b.ne[1];
    if (d_head > MAX_D_HEAD) return "attention: d_head is above 256";
    const char *error = check_cache(d_head, n_ctx);
    if (error) return error;
    uint32_t vector = cache_vector(d_head);
    uint32_t threads = d_head / vector > 128 ? 256 : 128;
    if (!workgroup_fits(device, threads)) return "attention: the device's workgroups are too small for this d_head";
    uint64_t queries_all = (uint64_t)rows * (n_head / n_kv);
    uint32_t queries = queries_all >= 8 ? 8 : queries_all > 4 ? 8 : queries_all > 2 ? 4 : (uint32_t)queries_all;
    while (queries > 1 && attention_shared(queries, d_head, threads) > device->max_shared) queries /= 2;
    uint64_t tiles = (queries_all + queries - 1) / queries;
    if (tiles > MAX_GROUPS || n_kv > MAX_GROUPS) return "attention: too many heads or tokens in one plan";

    /* A few tokens leave most of a device idle, so the positions are split. The split depends on the plan only. */
    uint32_t splits = rows <= FEW_TOKENS ? least(ceil_div(n_ctx, SPLIT_POSITIONS), MAX_SPLITS) : 1;
    uint32_t positions = ceil_div(ceil_div(n_ctx, splits), threads) * threads;
    splits = ceil_div(n_ctx, positions);

    gkv_dispatch *d = add(device, out, GKV_KERNEL_attention, threads, op);
    d->variant.special[2] = op->b.type;
    d->variant.special[3] = vector;
    d->variant.special[4] = d_head;
    d->variant.special[5] = queries;
    d->variant.special[6] = threads;
    SET_N(d, n_head, n_kv, rows, n_ctx, positions, splits);
    d->push.f[0] = op->f[0];
    d->groups[0] = (uint32_t)tiles;
    d->groups[1] = n_kv;
    d->groups[2] = splits;
    if (splits == 1) return NULL;
    uint32_t merge_threads = reduction_threads(device, d_head);
    gkv_dispatch *merge = add(device, out, GKV_KERNEL_attention_merge, merge_threads, op);
    SET_N(merge, n_head, d_head, rows, positions, splits);
    merge->groups[0] = groups_of((uint64_t)rows * n_head, 1);
    out->scratch = (uint64_t)rows * n_head * splits * (d_head + 2) * sizeof(float);
    return NULL;
}

/* ---- rows ---- */

static const char *lower_softmax(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_softmax, reduction_threads(device, op->a.ne[0]), op);
    SET_N(d, op->a.ne[0], op->a.ne[1]);
    d->push.f[0] = op->f[0];
    d->groups[0] = groups_of(op->a.ne[1], 1);
    return NULL;
}

static const char *lower_argmax(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_argmax, reduction_threads(device, op->a.ne[0]), op);
    SET_N(d, op->a.ne[0], op->a.ne[1]);
    d->groups[0] = groups_of(op->a.ne[1], 1);
    return NULL;
}

static const char *lower_topk(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_topk, reduction_threads(device, GKV_MAX_WORKGROUP), op);
    SET_N(d, op->a.ne[0], op->a.ne[1], (uint32_t)op->i[0]);
    d->groups[0] = groups_of(op->a.ne[1], 1);
    return NULL;
}

static const char *lower_step(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    gkv_dispatch *d = add(device, out, GKV_KERNEL_step, device->subgroup, op);
    SET_N(d, op->dst.buffer != NULL ? op->dst.ne[0] : 0);
    return NULL;
}

const char *gkv_lower(const gk_device *device, const gk_op *op, gkv_lowered *out) {
    *out = (gkv_lowered){.extra = GKV_EXTRAS};
    switch (op->code) {
    case GK_OP_EMBED: return lower_embed(device, op, out);
    case GK_OP_RMSNORM: return lower_rmsnorm(device, op, out);
    case GK_OP_MATMUL: return lower_matmul(device, op, out);
    case GK_OP_ROPE: return lower_rope(device, op, out);
    case GK_OP_KV_WRITE: return lower_kv_write(device, op, out);
    case GK_OP_ROPE_KV: return lower_rope_kv(device, op, out);
    case GK_OP_GATE_UP: return lower_gate_up(device, op, out);
    case GK_OP_ATTENTION: return lower_attention(device, op, out);
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL: return lower_elementwise(device, op, out);
    case GK_OP_SOFTMAX: return lower_softmax(device, op, out);
    case GK_OP_ARGMAX: return lower_argmax(device, op, out);
    case GK_OP_TOPK: return lower_topk(device, op, out);
    case GK_OP_COPY: return lower_copy(device, op, out);
    case GK_OP_STEP: return lower_step(device, op, out);
    default: return "no kernel for this op";
    }
}
