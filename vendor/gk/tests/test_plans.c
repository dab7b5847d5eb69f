/* Plans as a program uses them: a small Llama model, prefilled, decoded, replayed, repeated. */
#include <math.h>

#include "gk_test.h"

enum { LAYERS = 2, EMBD = 128, HEADS = 4, KV_HEADS = 2, D_HEAD = 32, FF = 192, VOCAB = 97, CONTEXT = 64, MOST_ROWS = 16, MOST_OPS = 64 };

typedef struct layer {
    mirror norm, q, k, v, o, ffn_norm, gate, up, down, keys, values;
} layer;

typedef struct model {
    uint32_t weight, cache; /* types */
    layer layers[LAYERS];
    mirror embedding, norm, head, table;
    mirror ids, next, history;
    mirror x, h, q, k, v, gate, up, logits; /* MOST_ROWS rows */
} model;

typedef struct program {
    mirror_op ops[MOST_OPS];
    uint32_t count;
    bool fused;
} program;

static mirror weights(suite *s, uint32_t type, uint32_t k, uint32_t n) {
    void *rows = weight_rows(s, type, k, n, WEIGHT_GAUSS);
    /* Keeps activations near 1: weights of variance 1 / k. */
    if (!gk_is_block_type(type)) {
        for (uint64_t m = 0; m < (uint64_t)k * n; m++) {
            float value = (float)(random_gauss(s) / sqrt(k));
            uint16_t half = type == GK_F16 ? gk_f16_of_f32(value) : (uint16_t)(gk_bits_of_float(value) >> 16);
            memcpy((char *)rows + m * gk_type_block_bytes(type), type == GK_F32 ? (void *)&value : (void *)&half, gk_type_block_bytes(type));
        }
    } else {
        for (uint64_t m = 0; m < (uint64_t)k * n / 32; m++) {
            const double deviation = type == GK_Q8_0 ? 74 : 4.6; /* of random quants */
            uint16_t scale = gk_f16_of_f32((float)((0.5 + random_uniform(s)) / deviation / sqrt(k)));
            memcpy((char *)rows + m * gk_type_block_bytes(type), &scale, sizeof scale);
        }
    }
    mirror w = weight_new(s, type, k, n, rows);
    free(rows);
    return w;
}

static mirror vector(suite *s, uint32_t n) {
    mirror m = tensor_new(s, GK_F32, n, 1, 0);
    float *values = gauss_values(s, n, 0.2);
    for (uint32_t k = 0; k < n; k++) values[k] += 1;
    tensor_set(s, &m, values);
    free(values);
    return m;
}

static mirror rows_of(suite *s, uint32_t features) { return tensor_new(s, GK_F32, features, MOST_ROWS, 0); }

static void model_new(suite *s, model *m, uint32_t weight, uint32_t cache) {
    memset(m, 0, sizeof *m);
    m->weight = weight;
    m->cache = cache;
    m->embedding = weights(s, weight, EMBD, VOCAB);
    m->head = weights(s, weight, EMBD, VOCAB);
    m->norm = vector(s, EMBD);
    for (int n = 0; n < LAYERS && case_going(s); n++) {
        layer *l = &m->layers[n];
        l->norm = vector(s, EMBD);
        l->ffn_norm = vector(s, EMBD);
        l->q = weights(s, weight, EMBD, HEADS * D_HEAD);
        l->k = weights(s, weight, EMBD, KV_HEADS * D_HEAD);
        l->v = weights(s, weight, EMBD, KV_HEADS * D_HEAD);
        l->o = weights(s, weight, HEADS * D_HEAD, EMBD);
        l->gate = weights(s, weight, EMBD, FF);
        l->up = weights(s, weight, EMBD, FF);
        l->down = weights(s, weight, FF, EMBD);
        l->keys = cache_new(s, cache, KV_HEADS * D_HEAD, CONTEXT);
        l->values = cache_new(s, cache, KV_HEADS * D_HEAD, CONTEXT);
    }
    m->table = rope_table(s, D_HEAD, CONTEXT);
    m->ids = tensor_ids(s, MOST_ROWS);
    m->next = tensor_ids(s, 1);
    m->history = tensor_ids(s, CONTEXT);
    m->x = rows_of(s, EMBD), m->h = rows_of(s, EMBD);
    m->q = rows_of(s, HEADS * D_HEAD), m->k = rows_of(s, KV_HEADS * D_HEAD), m->v = rows_of(s, KV_HEADS * D_HEAD);
    m->gate = rows_of(s, FF), m->up = rows_of(s, FF);
    m->logits = tensor_new(s, GK_F32, VOCAB, 1, 0);
}

static mirror first_rows(mirror m, uint32_t rows, bool ids) {
    for (int which = 0; which < 2; which++) m.on[which].ne[ids ? 0 : 1] = rows;
    return m;
}

static mirror_op *push(program *p, uint16_t code, uint16_t flags, mirror dst, mirror a, mirror b, mirror c) {
    mirror_op *op = &p->ops[p->count++];
    *op = (mirror_op){.op = {.code = code, .flags = flags}, .dst = dst, .a = a, .b = b, .c = c};
    return op;
}

static void heads(mirror_op *op, int32_t i0, int32_t i1, int32_t i2) {
    op->op.i[0] = i0, op->op.i[1] = i1, op->op.i[2] = i2;
}

/* The forward pass of `rows` tokens; greedy: ends with ARGMAX and STEP. */
static void forward(const model *m, program *p, uint32_t rows, bool greedy) {
    const mirror none = tensor_none();
    mirror ids = first_rows(m->ids, rows, true);
    mirror x = first_rows(m->x, rows, false), h = first_rows(m->h, rows, false), q = first_rows(m->q, rows, false);
    mirror k = first_rows(m->k, rows, false), v = first_rows(m->v, rows, false);
    mirror gate = first_rows(m->gate, rows, false), up = first_rows(m->up, rows, false);
    p->count = 0;
    p->fused = false;
    push(p, GK_OP_EMBED, 0, x, m->embedding, ids, none);
    for (int n = 0; n < LAYERS; n++) {
        const layer *l = &m->layers[n];
        push(p, GK_OP_RMSNORM, 0, h, x, l->norm, none)->op.f[0] = 1e-5f;
        push(p, GK_OP_MATMUL, 0, q, l->q, h, none);
        push(p, GK_OP_MATMUL, 0, k, l->k, h, none);
        push(p, GK_OP_MATMUL, 0, v, l->v, h, none);
        heads(push(p, GK_OP_ROPE, 0, q, q, m->table, none), HEADS, D_HEAD, D_HEAD);
        heads(push(p, GK_OP_ROPE, 0, k, k, m->table, none), KV_HEADS, D_HEAD, D_HEAD);
        heads(push(p, GK_OP_KV_WRITE, 0, l->keys, k, v, l->values), KV_HEADS, D_HEAD, 0);
        mirror_op *attention = push(p, GK_OP_ATTENTION, 0, h, q, l->keys, l->values);
        heads(attention, HEADS, KV_HEADS, D_HEAD);
        attention->op.f[0] = (float)(1 / sqrt(D_HEAD));
        push(p, GK_OP_MATMUL, GK_ACCUMULATE, x, l->o, h, none);
        push(p, GK_OP_RMSNORM, 0, h, x, l->ffn_norm, none)->op.f[0] = 1e-5f;
        push(p, GK_OP_MATMUL, 0, gate, l->gate, h, none);
        push(p, GK_OP_MATMUL, 0, up, l->up, h, none);
        push(p, GK_OP_SWIGLU, 0, gate, gate, up, none);
        push(p, GK_OP_MATMUL, GK_ACCUMULATE, x, l->down, gate, none);
    }
    push(p, GK_OP_RMSNORM, 0, h, x, m->norm, none)->op.f[0] = 1e-5f;
    push(p, GK_OP_MATMUL, GK_LAST_ROW, m->logits, m->head, h, none);
    if (!greedy) return;
    push(p, GK_OP_ARGMAX, 0, m->next, m->logits, none, none);
    push(p, GK_OP_STEP, 0, m->history, m->next, ids, none);
}

/* ---- one side ---- */

static gk_plan *build(suite *s, int which, const program *p) {
    side *d = &s->sides[which];
    gk_op ops[MOST_OPS];
    gk_plan *plan = NULL;
    for (uint32_t n = 0; n < p->count; n++) {
        ops[n] = op_on(&p->ops[n], which);
        ops[n].tag = n;
    }
    gk_op fused[MOST_OPS];
    const uint32_t count = p->fused ? gk_fuse(d->backend, d->device, ops, p->count, fused) : p->count;
    expect_status(s, which, d->backend->plan_build(d->device, p->fused ? fused : ops, count, &plan), GK_OK, "plan_build");
    memset(ops, 0xff, sizeof ops); /* the plan has its own copy */
    memset(fused, 0xff, sizeof fused);
    return plan;
}

static void run(suite *s, int which, gk_plan *plan, gk_step step, uint32_t repeat) {
    side *d = &s->sides[which];
    if (plan) expect_status(s, which, d->backend->plan_run(d->device, plan, &step, repeat), GK_OK, "plan_run");
}

static void drop(suite *s, int which, gk_plan *plan) { s->sides[which].backend->plan_free(s->sides[which].device, plan); }

static void put_ids(suite *s, int which, const model *m, const int32_t *ids, uint32_t count) {
    side *d = &s->sides[which];
    const gk_tensor *t = &m->ids.on[which];
    expect_status(s, which, d->backend->write(d->device, t->buffer, t->offset, ids, 4ull * count), GK_OK, "write");
}

/* Prefills a prompt with one plan of `rows` rows, `chunk` tokens at a time; returns the logits of the last token. */
static float *prefill_with(suite *s, int which, const model *m, const int32_t *prompt, uint32_t count, uint32_t rows, uint32_t chunk, bool fused) {
    program p;
    forward(m, &p, rows, false);
    p.fused = fused;
    gk_plan *plan = build(s, which, &p);
    for (uint32_t pos = 0; pos < count && case_going(s); pos += chunk) {
        uint32_t n_tok = count - pos < chunk ? count - pos : chunk;
        put_ids(s, which, m, prompt + pos, n_tok);
        run(s, which, plan, (gk_step){.n_tok = n_tok, .pos = pos}, 1);
    }
    drop(s, which, plan);
    return tensor_get(s, which, &m->logits);
}

static float *prefill(suite *s, int which, const model *m, const int32_t *prompt, uint32_t count, uint32_t rows, uint32_t chunk) {
    return prefill_with(s, which, m, prompt, count, rows, chunk, false);
}

static void same_bits(suite *s, const float *x, const float *y, const char *what) { compare_bits(s, x, y, VOCAB, what); }

/* Prompt and the types of the model, for every plan test. */
static void begin(suite *s, model *m, int32_t *prompt, const char *name, uint32_t weight, uint32_t cache) {
    case_begin(s, "plan", gk_type_name(weight), "%s,kv=%s", name, gk_type_name(cache));
    for (int n = 0; n < MOST_ROWS; n++) prompt[n] = (int32_t)random_below(s, VOCAB);
    model_new(s, m, weight, cache);
}

/* ---- the tests ---- */

/* Rounding activations to int8, or to bf16, causes larger errors than the arithmetic. */
static double bound_of(const suite *s, const model *m, double arithmetic) {
    const bool gpu = may_round_on_gpu(s), rounds = gpu || strcmp(s->sides[SIDE_TESTED].backend->id, "cpu") == 0;
    if (gk_is_block_type(m->weight)) return gpu ? 2e-3 : 1e-3; /* f16 from nine rows on, int8 before */
    return rounds && !s->exact && m->weight == GK_BF16 ? 3e-4 : arithmetic;
}

static void against_reference(suite *s, model *m, const int32_t *prompt) {
    float *got = prefill(s, SIDE_TESTED, m, prompt, 9, 9, 9);
    float *wanted = prefill(s, SIDE_REF, m, prompt, 9, 9, 9);
    /* Errors of single ops accumulate over two layers; f16 values in the cache may round differently. */
    if (case_going(s)) compare_values(s, got, wanted, VOCAB, bound_of(s, m, m->weight != GK_F32 || m->cache == GK_F16 ? 1e-5 : 1e-7));
    if (s->same_as) same_bits(s, got, wanted, "another number of threads");
    free(got);
    free(wanted);
}

static void twice(suite *s, model *m, const int32_t *prompt) {
    float *first = prefill(s, SIDE_TESTED, m, prompt, 9, 9, 9);
    float *second = prefill(s, SIDE_TESTED, m, prompt, 9, 9, 9);
    if (case_going(s)) same_bits(s, first, second, "the second run differs");
    free(first);
    free(second);
}

static void chunks(suite *s, model *m, const int32_t *prompt) {
    static const uint32_t ways[][2] = {{1, 1}, {9, 5}, {16, 9}, {16, 4}, {3, 3}, {2, 1}, {8, 8}};
    float *whole = prefill(s, SIDE_TESTED, m, prompt, 9, 9, 9);
    for (size_t n = 0; n < sizeof ways / sizeof *ways && case_going(s); n++) {
        float *parts = prefill(s, SIDE_TESTED, m, prompt, 9, ways[n][0], ways[n][1]);
        if (case_going(s)) compare_values(s, parts, whole, VOCAB, bound_of(s, m, m->weight != GK_F32 ? 1e-5 : 1e-6));
        free(parts);
    }
    free(whole);
}

/* Fused or not, token by token, a few at once or all at once: only the order of sums may differ. */
static void fused(suite *s, model *m, const int32_t *prompt) {
    static const uint32_t ways[][2] = {{1, 1}, {3, 3}, {8, 8}, {9, 9}, {16, 4}};
    const double rounded = gk_is_block_type(m->weight) ? (may_round_on_gpu(s) ? 1e-3 /* after the norm that is fused */ : 1e-4) : m->cache == GK_F16 ? 1e-6 : 1e-9; /* rounds differently at a tie */
    for (size_t n = 0; n < sizeof ways / sizeof *ways && case_going(s); n++) {
        float *plain = prefill_with(s, SIDE_TESTED, m, prompt, 9, ways[n][0], ways[n][1], false);
        float *got = prefill_with(s, SIDE_TESTED, m, prompt, 9, ways[n][0], ways[n][1], true);
        if (case_going(s)) compare_values(s, got, plain, VOCAB, rounded);
        free(plain);
        free(got);
        if (n > 0) continue;
        plain = prefill_with(s, SIDE_TESTED, m, prompt, 9, ways[n][0], ways[n][1], true);
        got = prefill_with(s, SIDE_TESTED, m, prompt, 9, ways[n][0], ways[n][1], true);
        if (case_going(s)) same_bits(s, plain, got, "the second run of a fused plan differs");
        free(plain);
        free(got);
    }
}

/* Greedy decoding of `count` tokens from pos = 4, token by token. */
static void decode(suite *s, model *m, const int32_t *prompt, uint32_t count, bool rebuild, uint32_t repeat, int32_t *out, float *logits) {
    side *d = &s->sides[SIDE_TESTED];
    free(prefill(s, SIDE_TESTED, m, prompt, 4, 4, 4));
    put_ids(s, SIDE_TESTED, m, prompt + 4, 1);
    program p;
    forward(m, &p, 1, true);
    gk_plan *plan = NULL;
    for (uint32_t n = 0; n < count && case_going(s); n += repeat) {
        if (rebuild || plan == NULL) {
            drop(s, SIDE_TESTED, plan);
            plan = build(s, SIDE_TESTED, &p);
        }
        run(s, SIDE_TESTED, plan, (gk_step){.n_tok = 1, .pos = 4 + n, .run = n}, repeat);
        if (logits && case_going(s)) {
            float *now = tensor_get(s, SIDE_TESTED, &m->logits);
            memcpy(logits + (size_t)n * VOCAB, now, VOCAB * sizeof *now);
            free(now);
        }
    }
    drop(s, SIDE_TESTED, plan);
    const gk_tensor *history = &m->history.on[SIDE_TESTED];
    if (case_going(s)) expect_status(s, SIDE_TESTED, d->backend->read(d->device, history->buffer, history->offset, out, 4ull * count), GK_OK, "read");
}

enum { DECODED = 16 };

static void replay(suite *s, model *m, const int32_t *prompt) {
    int32_t kept_ids[DECODED], built_ids[DECODED];
    float *kept = must_alloc(sizeof(float) * DECODED * VOCAB), *built = must_alloc(sizeof(float) * DECODED * VOCAB);
    decode(s, m, prompt, DECODED, false, 1, kept_ids, kept);
    decode(s, m, prompt, DECODED, true, 1, built_ids, built);
    for (int n = 0; n < DECODED && case_going(s); n++) same_bits(s, kept + n * VOCAB, built + n * VOCAB, "a replayed plan differs from a new one");
    for (int n = 0; n < DECODED && case_going(s); n++) {
        const float *row = kept + n * VOCAB;
        int best = 0;
        for (int k = 1; k < VOCAB; k++) best = row[k] > row[best] ? k : best;
        if (kept_ids[n] != best) case_fail(s, "token %d is %d, the largest logit is %d", n, (int)kept_ids[n], best);
    }
    free(kept);
    free(built);
}

static void repeat(suite *s, model *m, const int32_t *prompt) {
    int32_t single[DECODED], many[DECODED], all[DECODED];
    decode(s, m, prompt, DECODED, false, 1, single, NULL);
    decode(s, m, prompt, DECODED, false, 8, many, NULL);
    decode(s, m, prompt, DECODED, false, DECODED, all, NULL);
    for (int n = 0; n < DECODED && case_going(s); n++) {
        if (single[n] != many[n] || single[n] != all[n]) {
            case_fail(s, "token %d is %d alone, %d with repeat = 8, %d with repeat = %d", n, (int)single[n], (int)many[n], (int)all[n], (int)DECODED);
        }
    }
    /* The history holds CONTEXT ids; a longer run writes nothing past its end. */
    program p;
    forward(m, &p, 1, true);
    gk_plan *plan = build(s, SIDE_TESTED, &p);
    put_ids(s, SIDE_TESTED, m, prompt, 1);
    if (case_going(s)) run(s, SIDE_TESTED, plan, (gk_step){.n_tok = 1, .pos = 0, .run = CONTEXT - 2}, 6);
    if (case_going(s)) run(s, SIDE_TESTED, plan, (gk_step){.n_tok = 1, .pos = 0, .run = UINT32_MAX}, 1);
    drop(s, SIDE_TESTED, plan);
    if (case_going(s)) tensor_check_sentinels(s, &m->history);
}

static void traffic(suite *s, model *m, const int32_t *prompt) {
    side *d = &s->sides[SIDE_TESTED];
    put_ids(s, SIDE_TESTED, m, prompt, 1);
    program p;
    forward(m, &p, 1, true);
    gk_plan *plan = build(s, SIDE_TESTED, &p);
    for (uint32_t n = 0; n < 8 && case_going(s); n++) {
        gk_traffic before, after;
        int32_t id;
        d->backend->traffic(d->device, &before);
        run(s, SIDE_TESTED, plan, (gk_step){.n_tok = 1, .pos = n, .run = n}, 1);
        const gk_tensor *next = &m->next.on[SIDE_TESTED];
        if (case_going(s)) expect_status(s, SIDE_TESTED, d->backend->read(d->device, next->buffer, next->offset, &id, sizeof id), GK_OK, "read");
        d->backend->traffic(d->device, &after);
        uint64_t moved = after.up - before.up + after.down - before.down;
        if (moved > 64 + sizeof id) case_fail(s, "%llu bytes moved for one token", (unsigned long long)moved);
        if (moved < 16 + sizeof id) case_fail(s, "%llu bytes counted for one token, its step and its id are 20", (unsigned long long)moved);
    }
    drop(s, SIDE_TESTED, plan);
}

static void limits(suite *s, model *m, const int32_t *prompt) {
    side *d = &s->sides[SIDE_TESTED];
    program one, many;
    forward(m, &one, 1, true);
    forward(m, &many, 8, false);
    gk_plan *decode_plan = build(s, SIDE_TESTED, &one), *prefill_plan = build(s, SIDE_TESTED, &many);
    put_ids(s, SIDE_TESTED, m, prompt, 8);
    const struct {
        gk_plan *plan;
        gk_step step;
        uint32_t repeat;
        gk_status wanted;
    } table[] = {
        {decode_plan, {.n_tok = 1, .pos = CONTEXT - 1}, 1, GK_OK},
        {decode_plan, {.n_tok = 1, .pos = CONTEXT}, 1, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 1, .pos = CONTEXT - 4}, 4, GK_OK},
        {decode_plan, {.n_tok = 1, .pos = CONTEXT - 4}, 5, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 1, .pos = UINT32_MAX}, 1, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 1, .pos = 1}, UINT32_MAX, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 0, .pos = 1}, 1, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 2, .pos = 1}, 1, GK_BAD_ARGUMENT},
        {decode_plan, {.n_tok = 1, .pos = 1}, 0, GK_BAD_ARGUMENT},
        {prefill_plan, {.n_tok = 8, .pos = CONTEXT - 8}, 1, GK_OK},
        {prefill_plan, {.n_tok = 8, .pos = CONTEXT - 7}, 1, GK_BAD_ARGUMENT},
        {prefill_plan, {.n_tok = 3, .pos = CONTEXT - 3}, 1, GK_OK},
        {prefill_plan, {.n_tok = 9, .pos = 0}, 1, GK_BAD_ARGUMENT},
        {prefill_plan, {.n_tok = UINT32_MAX, .pos = 2}, 1, GK_BAD_ARGUMENT},
        {prefill_plan, {.n_tok = 8, .pos = 0}, 2, GK_BAD_ARGUMENT},
        {NULL, {.n_tok = 1, .pos = 0}, 1, GK_BAD_ARGUMENT},
    };
    for (size_t n = 0; n < sizeof table / sizeof *table && case_going(s); n++) {
        gk_status got = d->backend->plan_run(d->device, table[n].plan, &table[n].step, table[n].repeat);
        if (got != table[n].wanted) case_fail(s, "run %zu of the table returns %s", n, gk_status_text(got));
    }
    if (case_going(s)) expect_status(s, SIDE_TESTED, d->backend->plan_run(d->device, decode_plan, NULL, 1), GK_BAD_ARGUMENT, "plan_run without a step");
    drop(s, SIDE_TESTED, decode_plan);
    drop(s, SIDE_TESTED, prefill_plan);
}

void test_plans(suite *s) {
    static const struct {
        const char *name;
        void (*test)(suite *, model *, const int32_t *);
    } tests[] = {{"against-reference", against_reference}, {"twice", twice}, {"chunks", chunks}, {"replay", replay},
                 {"repeat", repeat}, {"traffic", traffic}, {"limits", limits}, {"fused", fused}};
    static const uint32_t types[][2] = {{GK_F32, GK_F32}, {GK_F16, GK_F32}, {GK_F16, GK_F16}, {GK_BF16, GK_F16},
                                       {GK_Q8_0, GK_F32}, {GK_Q8_0, GK_F16}, {GK_Q4_0, GK_F16}};
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
        for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
            model m;
            int32_t prompt[MOST_ROWS];
            begin(s, &m, prompt, tests[t].name, types[n][0], types[n][1]);
            if (case_going(s)) tests[t].test(s, &m, prompt);
            case_end(s);
        }
    }
}
