/* The fused ops against the reference: GATE_UP and NORM_MATMUL as forms of MATMUL, ROPE_KV through what ATTENTION
 * reads from its caches. */
#include <math.h>

#include "gk_test.h"

/* Backends have kernels for none, for few rows, or for all: after the first unsupported shape the rest is not run,
 * so there is one skipped case instead of hundreds. */
typedef struct shapes {
    suite *s;
    uint32_t most_rows;
} shapes;

static bool was_skipped(const suite *s) { return s->report.cases[s->report.count - 1].state == CASE_SKIPPED; }

static void product(shapes *f, matmul_case c) {
    const bool one_row = (c.flags & GK_LAST_ROW) != 0;
    if (f->most_rows < (one_row ? 1 : c.rows)) return;
    matmul(f->s, c);
    if (was_skipped(f->s)) f->most_rows = one_row ? 0 : c.rows - 1;
}

static void products(suite *s, uint16_t code, uint32_t type, bool normed) {
    static const uint32_t all_rows[] = {1, 2, 3, 7, 8, 9, 33, 129}, all_n[] = {1, 15, 16, 17, 33, 257};
    const matmul_case base = {.code = code, .type = type, .k = 96, .n = 49, .rows = 1, .kind = WEIGHT_GAUSS, .scale = 0.2, .normed = normed};
    shapes f = {s, UINT32_MAX};
    matmul_case c;
    for (size_t n = 0; n < sizeof all_rows / sizeof *all_rows; n++) {
        c = base, c.rows = all_rows[n], product(&f, c);
        c.k = 320, c.n = 64, product(&f, c);
    }
    for (size_t n = 0; n < sizeof all_n / sizeof *all_n; n++) {
        c = base, c.n = all_n[n], c.kind = c.n == 1 ? WEIGHT_POSITIVE : WEIGHT_GAUSS;
        product(&f, c);
        c.rows = 5, product(&f, c);
    }
    if (!gk_is_block_type(type)) {
        for (uint32_t k = 1; k <= 67; k += k < 9 ? 2 : 29) {
            c = base, c.k = k, c.kind = WEIGHT_POSITIVE, product(&f, c);
            c.rows = 3, product(&f, c);
        }
    }
    c = base, c.k = 2048, c.n = 200, product(&f, c);
    c.rows = 7, product(&f, c);
    if (gk_is_block_type(type) && code == GK_OP_NORM_MATMUL) { /* more than a block rounds at once */
        c = base, c.k = 4608, c.n = 20, c.rows = 7, product(&f, c);
        c = base, c.k = 16640, c.n = 80, product(&f, c);
    }
    c = base, c.rows = 8, c.n_tok = 3, c.padded = 1, c.n = 18, product(&f, c);
    c.rows = 40, product(&f, c);
    c = base, c.scale = 0, product(&f, c);
    c.kind = WEIGHT_ZERO, c.scale = 1, product(&f, c);
    const bool flushes = strcmp(s->sides[SIDE_TESTED].backend->id, "vulkan") == 0; /* denormal results may become zero */
    c = base, c.scale = flushes && code == GK_OP_GATE_UP ? 1e-16 : 1e-20, product(&f, c);
    if (code == GK_OP_GATE_UP && !normed) return;
    c = base, c.scale = 1e-3, product(&f, c); /* eps is as large as the values */
    c = base, c.scale = 1e4, product(&f, c);
    if (code == GK_OP_GATE_UP) return;
    for (uint16_t flags = 1; flags < 16; flags++) {
        if (flags & ~(GK_ACCUMULATE | GK_BIAS | GK_LAST_ROW)) continue;
        c = base, c.flags = flags, product(&f, c);
        c.rows = 9, c.n_tok = 4, product(&f, c);
        c.rows = 6, c.padded = 1, c.n = 18, product(&f, c);
    }
}

/* Products of one source in one plan: with different norms, with types that round activations and types that do not. */
static void one_source(suite *s) {
    enum { COUNT = 6, FEATURES = 256, OUTPUTS = 48 };
    static const struct {
        uint32_t type, norm;
        uint16_t code;
    } all[COUNT] = {{GK_F16, 0, GK_OP_NORM_MATMUL}, {GK_Q8_0, 0, GK_OP_NORM_MATMUL}, {GK_Q4_0, 0, GK_OP_NORM_MATMUL},
                    {GK_Q8_0, 1, GK_OP_NORM_MATMUL}, {GK_Q8_0, 0, GK_OP_MATMUL}, {GK_F16, 0, GK_OP_NORM_MATMUL}};
    case_begin(s, "norm_matmul", "mixed", "six products of one source");
    mirror x = tensor_new(s, GK_F32, FEATURES, 1, 0), norms[2] = {tensor_new(s, GK_F32, FEATURES, 1, 0), tensor_new(s, GK_F32, FEATURES, 1, 0)};
    mirror_op ops[COUNT];
    memset(ops, 0, sizeof ops);
    for (int n = 0; n < 3; n++) {
        float *values = gauss_values(s, FEATURES, 1);
        tensor_set(s, n == 0 ? &x : &norms[n - 1], values);
        free(values);
    }
    for (int n = 0; n < COUNT && case_going(s); n++) {
        void *rows = weight_rows(s, all[n].type, FEATURES, OUTPUTS, WEIGHT_GAUSS);
        ops[n] = (mirror_op){.op = {.code = all[n].code, .f = {1e-5f}}, .a = weight_new(s, all[n].type, FEATURES, OUTPUTS, rows), .b = x};
        ops[n].dst = tensor_new(s, GK_F32, OUTPUTS, 1, 0);
        if (all[n].code == GK_OP_NORM_MATMUL) ops[n].d = norms[all[n].norm];
        const gk_op tested = op_on(&ops[n], SIDE_TESTED);
        if (s->sides[SIDE_TESTED].backend->supports(s->sides[SIDE_TESTED].device, &tested) == GK_UNSUPPORTED) {
            ops[n].op.code = GK_OP_MATMUL; /* the kernels of some types have no norm */
            ops[n].d = tensor_none();
        }
        free(rows);
    }
    if (run_both(s, ops, COUNT, &(gk_step){.n_tok = 1})) {
        for (int n = 0; n < COUNT; n++) compare_tensor(s, &ops[n].dst, 1, gk_is_block_type(all[n].type) ? 1e-3 : 1e-6);
    }
    case_end(s);
}

/* Launches of a plan on the tested side. */
static uint32_t launches_of(suite *s, const mirror_op *ops, uint32_t count) {
    const side *tested = &s->sides[SIDE_TESTED];
    gk_op on[8];
    gk_plan *plan = NULL;
    gk_plan_info info = {0};
    for (uint32_t n = 0; n < count; n++) on[n] = op_on(&ops[n], SIDE_TESTED);
    expect_status(s, SIDE_TESTED, tested->backend->plan_build(tested->device, on, count, &plan), GK_OK, "plan_build");
    if (case_going(s)) expect_status(s, SIDE_TESTED, tested->backend->plan_info(tested->device, plan, &info), GK_OK, "plan_info");
    tested->backend->plan_free(tested->device, plan);
    return info.launches;
}

static bool joins_launches(const suite *s) {
    const char *id = s->sides[SIDE_TESTED].backend->id;
    return strcmp(id, "cuda") == 0 || strcmp(id, "rocm") == 0 || strcmp(id, "sycl") == 0;
}

/* Products of one source, which a backend may compute in one launch: of different widths, with a bias and old values. */
static void joined_products(suite *s, uint32_t type, uint32_t rows, uint16_t flags) {
    enum { COUNT = 4, FEATURES = 512 };
    static const uint32_t outputs[COUNT] = {130, 17, 48, 5};
    case_begin(s, "matmul", gk_type_name(type), "four products of one source,t=%u%s", rows, flags ? ",bias,accumulate" : "");
    mirror x = tensor_new(s, GK_F32, FEATURES, rows, 0);
    mirror_op ops[COUNT];
    memset(ops, 0, sizeof ops);
    float *values = gauss_values(s, (size_t)FEATURES * rows, 1);
    tensor_set(s, &x, values);
    free(values);
    for (int n = 0; n < COUNT && case_going(s); n++) {
        void *weights = weight_rows(s, type, FEATURES, outputs[n], WEIGHT_GAUSS);
        float *old = gauss_values(s, (size_t)outputs[n] * rows, 1);
        ops[n] = (mirror_op){.op = {.code = GK_OP_MATMUL, .flags = flags}, .a = weight_new(s, type, FEATURES, outputs[n], weights), .b = x};
        ops[n].dst = tensor_new(s, GK_F32, outputs[n], rows, 0);
        tensor_set(s, &ops[n].dst, old);
        if (flags & GK_BIAS) {
            ops[n].c = tensor_new(s, GK_F32, outputs[n], 1, 0);
            tensor_set(s, &ops[n].c, old);
        }
        free(weights);
        free(old);
    }
    if (run_both(s, ops, COUNT, &(gk_step){.n_tok = rows})) {
        for (int n = 0; n < COUNT; n++) compare_tensor(s, &ops[n].dst, rows, gk_is_block_type(type) ? 1e-3 : type == GK_BF16 ? 3e-5 : 1e-6);
        if (joins_launches(s) && rows == 1 && launches_of(s, ops, COUNT) != 2) case_fail(s, "three products and one should take two launches");
    }
    case_end(s);
}

/* The second product adds the first one's result as its bias, or has the same destination: these must stay in order. */
static void dependent_products(suite *s, bool same) {
    enum { FEATURES = 256, OUTPUTS = 40 };
    case_begin(s, "matmul", "q8_0", "two products, the second %s", same ? "overwrites the first" : "reads the first");
    mirror_op ops[2];
    memset(ops, 0, sizeof ops);
    mirror x = tensor_new(s, GK_F32, FEATURES, 1, 0), zero = tensor_new(s, GK_F32, OUTPUTS, 1, 0);
    float *values = gauss_values(s, FEATURES, 1), none[OUTPUTS] = {0};
    tensor_set(s, &x, values);
    tensor_set(s, &zero, none);
    free(values);
    for (int n = 0; n < 2 && case_going(s); n++) {
        void *weights = weight_rows(s, GK_Q8_0, FEATURES, OUTPUTS, WEIGHT_GAUSS);
        ops[n] = (mirror_op){.op = {.code = GK_OP_MATMUL, .flags = GK_BIAS}, .a = weight_new(s, GK_Q8_0, FEATURES, OUTPUTS, weights), .b = x, .c = zero};
        ops[n].dst = tensor_new(s, GK_F32, OUTPUTS, 1, 0);
        free(weights);
    }
    if (same) ops[1].dst = ops[0].dst;
    else ops[1].c = ops[0].dst;
    if (run_both(s, ops, 2, &(gk_step){.n_tok = 1})) {
        compare_tensor(s, &ops[1].dst, 1, 1e-3);
        if (joins_launches(s) && launches_of(s, ops, 2) != 2) case_fail(s, "they depend on each other, but became one launch");
    }
    case_end(s);
}

typedef struct rope_kv_case {
    uint32_t type, d_head, n_rot, rows, n_tok, pos, n_ctx;
    uint16_t flags;
    bool padded;
} rope_kv_case;

/* The layout of the cache is private to the backend: positions 0 .. pos are written in chunks, and attention reads
 * all of them. The queries are rotated first: a backend may do that in the same launch. */
static void rope_kv(suite *s, const rope_kv_case *c) {
    enum { KV_HEADS = 2, HEADS = 6, CHUNK = 16 };
    const uint32_t kv = KV_HEADS * c->d_head, q = HEADS * c->d_head, pad = c->padded ? 32 : 0;
    case_begin(s, "rope_kv", gk_type_name(c->type), "%s,d=%u,n_rot=%u,t=%u%s,pos=%u,n_ctx=%u%s", c->flags ? "neox" : "norm", c->d_head,
               c->n_rot, c->n_tok, c->n_tok < c->rows ? ",partial" : "", c->pos, c->n_ctx, c->padded ? ",stride" : "");
    mirror_op ops[3] = {{.op = {.code = GK_OP_ROPE, .flags = c->flags, .i = {HEADS, (int32_t)c->d_head, (int32_t)c->n_rot}}},
                        {.op = {.code = GK_OP_ROPE_KV, .flags = c->flags, .i = {KV_HEADS, (int32_t)c->d_head, (int32_t)c->n_rot}}},
                        {.op = {.code = GK_OP_ATTENTION, .i = {HEADS, KV_HEADS, (int32_t)c->d_head}}}};
    ops[1].dst = ops[2].b = cache_new(s, c->type, kv, c->n_ctx);
    ops[1].c = ops[2].c = cache_new(s, c->type, kv, c->n_ctx);
    ops[1].d = rope_table(s, c->n_rot, c->n_ctx);
    ops[0].b = ops[1].d;
    ops[2].op.f[0] = (float)(1 / sqrt(c->d_head));
    for (uint32_t pos = 0, n_tok; pos < c->pos + c->n_tok && case_going(s); pos += n_tok) {
        const bool last = pos >= c->pos;
        const uint32_t rows = last ? c->rows : CHUNK;
        n_tok = last ? c->n_tok : c->pos - pos < CHUNK ? c->pos - pos : CHUNK;
        ops[1].a = tensor_new(s, GK_F32, kv, rows, pad ? kv + pad : 0);
        ops[1].b = tensor_new(s, GK_F32, kv, rows, pad ? kv + 2 * pad : 0);
        ops[0].a = tensor_new(s, GK_F32, q, rows, pad ? q + 3 * pad : 0);
        ops[0].dst = ops[2].a = tensor_new(s, GK_F32, q, rows, pad ? q + pad : 0);
        ops[2].dst = tensor_new(s, GK_F32, q, rows, 0);
        float *keys = gauss_values(s, (size_t)kv * rows, 1), *values = gauss_values(s, (size_t)kv * rows, 1);
        float *queries = gauss_values(s, (size_t)q * rows, 1);
        tensor_set(s, &ops[1].a, keys);
        tensor_set(s, &ops[1].b, values);
        tensor_set(s, &ops[0].a, queries);
        if (run_both(s, ops, 3, &(gk_step){.n_tok = n_tok, .pos = pos})) {
            compare_tensor(s, &ops[2].dst, n_tok, c->type == GK_F32 ? 1e-7 : 1e-6);
            tensor_check_sentinels(s, &ops[1].a);
            float *kept = tensor_get(s, SIDE_TESTED, &ops[1].a);
            if (memcmp(kept, keys, sizeof *keys * kv * rows) != 0) case_fail(s, "the keys were changed");
            free(kept);
        }
        free(keys);
        free(values);
        free(queries);
    }
    case_end(s);
}

void test_fused(suite *s) {
    static const uint32_t types[] = {GK_F32, GK_F16, GK_BF16, GK_Q8_0, GK_Q4_0, GK_Q4_K, GK_Q6_K};
    for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
        products(s, GK_OP_GATE_UP, types[n], false);
        products(s, GK_OP_GATE_UP, types[n], true);
        products(s, GK_OP_NORM_MATMUL, types[n], false);
    }
    one_source(s);
    for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
        for (uint32_t rows = 1; rows < 100; rows = rows * 5 + 4) {
            joined_products(s, types[n], rows, 0);
            joined_products(s, types[n], rows, GK_BIAS | GK_ACCUMULATE);
        }
    }
    dependent_products(s, false);
    dependent_products(s, true);
    static const uint32_t heads_of[] = {32, 64, 80, 128}, rows_of[] = {1, 2, 8, 9, 33};
    for (uint32_t type = GK_F32; type <= GK_F16; type++) {
        for (uint16_t flags = 0; flags <= GK_NEOX; flags += GK_NEOX) {
            rope_kv_case base = {.type = type, .d_head = 64, .n_rot = 64, .rows = 1, .n_tok = 1, .pos = 20, .n_ctx = 60, .flags = flags}, c;
            for (int d = 0; d < 4; d++) {
                if (d > 0 && was_skipped(s)) return; /* no kernel */
                c = base, c.d_head = heads_of[d], c.n_rot = heads_of[d], rope_kv(s, &c);
                c.n_rot = heads_of[d] / 4 * 2, c.padded = true, rope_kv(s, &c);
            }
            for (int n = 0; n < 5; n++) {
                c = base, c.rows = c.n_tok = rows_of[n], c.pos = 3 + (uint32_t)n * 5, c.n_ctx = c.pos + c.rows, rope_kv(s, &c);
            }
            c = base, c.rows = 12, c.n_tok = 5, c.pos = 17, c.padded = true, rope_kv(s, &c);
            c = base, c.d_head = 50, c.n_rot = 2, c.pos = 0, rope_kv(s, &c);
            c.n_rot = 50, c.rows = c.n_tok = 3, c.n_ctx = 3, rope_kv(s, &c);
        }
    }
}
