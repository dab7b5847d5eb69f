/* gk_fuse: the patterns that it finds, those that it must not fuse, and that the results of a plan do not change.
 * Runs on the reference, which has kernels for everything, and on a backend without kernels for fused ops. */
#include <math.h>

#include "gk_test.h"

enum { K = 32, ROWS = 2, CONTEXT = 8, SLOT = 8192, SLOTS = 24, MOST_OPS = 48 };

/* Slots of one buffer. */
enum { X = 0, N, Q, KEY, V, G, U, Y, XS, TABLE = XS, NORM, NORM2, KEYS, VALUES, WG, WU, WQ, WK, WV, OUT };

typedef struct fixture {
    suite *s;
    const gk_backend *backend;
    gk_device *device;
    gk_buffer *buffer;
} fixture;

static gk_status no_fused(gk_device *device, const gk_op *op) {
    return op->code > GK_OP_STEP ? GK_UNSUPPORTED : gk_backend_ref()->supports(device, op);
}

static gk_tensor slot(const fixture *f, uint32_t which, uint32_t ne0, uint32_t ne1) {
    return (gk_tensor){.buffer = f->buffer, .offset = (uint64_t)which * SLOT, .type = GK_F32, .ne = {ne0, ne1, 1, 1}};
}
static gk_tensor x_of(const fixture *f, uint32_t which) { return slot(f, which, K, ROWS); }
static gk_tensor weight(const fixture *f, uint32_t which) { return slot(f, which, K, K); }
static gk_tensor cache(const fixture *f, uint32_t which) { return slot(f, which, K, CONTEXT); }

static gk_op norm(const fixture *f, uint32_t dst, uint32_t a, uint32_t w) {
    return (gk_op){.code = GK_OP_RMSNORM, .dst = x_of(f, dst), .a = x_of(f, a), .b = slot(f, w, K, 1), .f = {1e-3f}};
}
static gk_op matmul_of(const fixture *f, uint32_t dst, uint32_t w, uint32_t b, uint16_t flags) {
    return (gk_op){.code = GK_OP_MATMUL, .flags = flags, .dst = x_of(f, dst), .a = weight(f, w), .b = x_of(f, b)};
}
static gk_op rope(const fixture *f, uint32_t dst, uint32_t a) {
    return (gk_op){.code = GK_OP_ROPE, .dst = x_of(f, dst), .a = x_of(f, a), .b = slot(f, TABLE, 8, CONTEXT), .i = {2, 16, 8}};
}
static gk_op kv_write(const fixture *f, uint32_t a, uint32_t b) {
    return (gk_op){.code = GK_OP_KV_WRITE, .dst = cache(f, KEYS), .a = x_of(f, a), .b = x_of(f, b), .c = cache(f, VALUES), .i = {2, 16}};
}
static gk_op attention(const fixture *f, uint32_t dst, uint32_t a) {
    return (gk_op){.code = GK_OP_ATTENTION, .dst = x_of(f, dst), .a = x_of(f, a), .b = cache(f, KEYS), .c = cache(f, VALUES), .i = {2, 2, 16}, .f = {0.25f}};
}
static gk_op binary(const fixture *f, uint16_t code, uint32_t dst, uint32_t a, uint32_t b) {
    gk_op op = {.code = code, .dst = x_of(f, dst), .a = x_of(f, a)};
    if (code != GK_OP_COPY) op.b = x_of(f, b);
    return op;
}

static uint32_t layer(const fixture *f, gk_op *ops) {
    const gk_op all[] = {
        norm(f, N, X, NORM), matmul_of(f, Q, WQ, N, 0), matmul_of(f, KEY, WK, N, 0), matmul_of(f, V, WV, N, 0), rope(f, Q, Q), rope(f, KEY, KEY),
        kv_write(f, KEY, V), attention(f, N, Q), matmul_of(f, X, WQ, N, GK_ACCUMULATE), norm(f, N, X, NORM2), matmul_of(f, G, WG, N, 0),
        matmul_of(f, U, WU, N, 0), binary(f, GK_OP_SWIGLU, G, G, U), matmul_of(f, X, WV, G, GK_ACCUMULATE),
    };
    memcpy(ops, all, sizeof all);
    return sizeof all / sizeof *all;
}

/* ---- the resulting ops ---- */

/* Fuses, and compares the codes with `wanted`, which ends in 0. */
static void expect(const fixture *f, const char *what, const gk_op *ops, uint32_t count, const uint16_t *wanted) {
    gk_op out[MOST_OPS];
    char codes[200] = "";
    const uint32_t got = gk_fuse(f->backend, f->device, ops, count, out);
    uint32_t length = 0;
    while (wanted[length]) length++;
    bool same = got == length;
    for (uint32_t n = 0; n < got; n++) {
        const size_t used = strlen(codes);
        gk_text(codes + used, sizeof codes - used, " %u", (unsigned)out[n].code);
        same = same && out[n].code == wanted[n];
    }
    if (!same) case_fail(f->s, "%s: it became%s", what, codes);
}
#define EXPECT(what, list, ...) expect(f, what, list, sizeof(list) / sizeof *(list), (const uint16_t[]){__VA_ARGS__, 0})

enum {
    NORM_ = GK_OP_RMSNORM, MATMUL = GK_OP_MATMUL, ROPE = GK_OP_ROPE, WRITE = GK_OP_KV_WRITE, ATTENTION = GK_OP_ATTENTION,
    SWIGLU = GK_OP_SWIGLU, ADD = GK_OP_ADD, COPY = GK_OP_COPY, ROPE_KV = GK_OP_ROPE_KV, GATE_UP = GK_OP_GATE_UP, NORM_MATMUL = GK_OP_NORM_MATMUL
};

static void whole_layers(const fixture *f) {
    gk_op ops[MOST_OPS], out[MOST_OPS];
    const uint32_t count = layer(f, ops);
    layer(f, ops + count);
    expect(f, "two layers", ops, 2 * count, (const uint16_t[]){NORM_MATMUL, NORM_MATMUL, NORM_MATMUL, ROPE, ROPE_KV, ATTENTION, MATMUL, GATE_UP, MATMUL,
           NORM_MATMUL, NORM_MATMUL, NORM_MATMUL, ROPE, ROPE_KV, ATTENTION, MATMUL, GATE_UP, MATMUL, 0});
    /* Every operand is in its place. */
    gk_fuse(f->backend, f->device, ops, count, out);
    const gk_op *product = &out[2], *write = &out[4], *gate_up = &out[7];
    if (!gk_same_slice(&product->dst, &ops[3].dst) || !gk_same_slice(&product->a, &ops[3].a) || !gk_same_slice(&product->b, &ops[0].a) ||
        !gk_same_slice(&product->d, &ops[0].b) || product->f[0] != 1e-3f) case_fail(f->s, "operands of norm_matmul");
    if (!gk_same_slice(&write->dst, &ops[6].dst) || !gk_same_slice(&write->a, &ops[5].a) || !gk_same_slice(&write->b, &ops[6].b) ||
        !gk_same_slice(&write->c, &ops[6].c) || !gk_same_slice(&write->d, &ops[5].b) || write->i[2] != 8) case_fail(f->s, "operands of rope_kv");
    if (!gk_same_slice(&gate_up->a, &ops[10].a) || !gk_same_slice(&gate_up->d, &ops[11].a) || !gk_same_slice(&gate_up->b, &ops[9].a) ||
        !gk_same_slice(&gate_up->c, &ops[9].b) || !gk_same_slice(&gate_up->dst, &ops[12].dst) || gate_up->f[0] != ops[9].f[0]) case_fail(f->s, "operands of gate_up");
    /* A backend without these kernels gets its input unchanged, bit by bit. */
    gk_backend plain = *f->backend;
    plain.supports = no_fused;
    if (gk_fuse(&plain, f->device, ops, count, out) != count || memcmp(out, ops, count * sizeof *ops) != 0) case_fail(f->s, "fused without kernels");
    if (gk_fuse(f->backend, f->device, ops, 0, out) != 0 || gk_fuse(f->backend, f->device, NULL, 4, out) != 0) case_fail(f->s, "fused nothing");
    if (gk_fuse(NULL, f->device, ops, count, out) != count || gk_fuse(f->backend, NULL, ops, count, out) != count) case_fail(f->s, "fused without a device");
    ops[3].b.ne[0] = 31;
    if (gk_fuse(f->backend, f->device, ops, count, out) != count || memcmp(out, ops, count * sizeof *ops) != 0) case_fail(f->s, "an invalid op was not passed on to plan_build");
}

static void gate_up(const fixture *f) {
    const gk_op gate = matmul_of(f, G, WG, N, 0), up = matmul_of(f, U, WU, N, 0), swiglu = binary(f, SWIGLU, G, G, U);
    gk_op other = up, biased = up;
    biased.flags = GK_BIAS, biased.c = slot(f, NORM, K, 1);
    other.a = slot(f, WU, K, K), other.a.type = GK_F16;
    EXPECT("gate, up", ((gk_op[]){gate, up, swiglu}), GATE_UP);
    EXPECT("up, gate", ((gk_op[]){up, gate, swiglu}), GATE_UP);
    EXPECT("dst = up", ((gk_op[]){gate, up, binary(f, SWIGLU, U, G, U)}), GATE_UP);
    EXPECT("a separate dst", ((gk_op[]){gate, up, binary(f, SWIGLU, Y, G, U)}), GATE_UP);
    EXPECT("an independent op between", ((gk_op[]){gate, binary(f, ADD, Y, X, V), up, swiglu}), ADD, GATE_UP);
    EXPECT("up is read later", ((gk_op[]){gate, up, swiglu, binary(f, COPY, Y, U, 0)}), MATMUL, MATMUL, SWIGLU, COPY);
    EXPECT("up is read in the next run", ((gk_op[]){binary(f, COPY, Y, U, 0), gate, up, swiglu}), COPY, MATMUL, MATMUL, SWIGLU);
    EXPECT("up is written, then read", ((gk_op[]){gate, up, swiglu, binary(f, COPY, U, X, 0), binary(f, COPY, Y, U, 0)}), GATE_UP, COPY, COPY);
    EXPECT("up is added to", ((gk_op[]){gate, up, swiglu, matmul_of(f, U, WQ, X, GK_ACCUMULATE)}), MATMUL, MATMUL, SWIGLU, MATMUL);
    EXPECT("gate is read later", ((gk_op[]){gate, up, binary(f, SWIGLU, U, G, U), binary(f, COPY, Y, G, 0)}), MATMUL, MATMUL, SWIGLU, COPY);
    EXPECT("gate is read between", ((gk_op[]){gate, binary(f, COPY, Y, G, 0), up, swiglu}), MATMUL, COPY, MATMUL, SWIGLU);
    EXPECT("their source changes", ((gk_op[]){gate, up, binary(f, COPY, N, X, 0), swiglu}), MATMUL, MATMUL, COPY, SWIGLU);
    EXPECT("two sources", ((gk_op[]){gate, matmul_of(f, U, WU, X, 0), swiglu}), MATMUL, MATMUL, SWIGLU);
    EXPECT("flags", ((gk_op[]){gate, matmul_of(f, U, WU, N, GK_ACCUMULATE), swiglu}), MATMUL, MATMUL, SWIGLU);
    EXPECT("a bias", ((gk_op[]){gate, biased, swiglu}), MATMUL, MATMUL, SWIGLU);
    EXPECT("two types", ((gk_op[]){gate, other, swiglu}), MATMUL, MATMUL, SWIGLU);
    EXPECT("one product", ((gk_op[]){gate, binary(f, SWIGLU, Y, G, G)}), MATMUL, SWIGLU);
    EXPECT("over its own source", ((gk_op[]){gate, up, binary(f, SWIGLU, N, G, U)}), MATMUL, MATMUL, SWIGLU);
}

static void rope_kv(const fixture *f) {
    gk_op wide = kv_write(f, KEY, V), half = binary(f, COPY, Y, KEY, 0);
    wide.i[0] = 4, wide.i[1] = 8;
    half.dst.ne[1] = half.a.ne[1] = 1; /* the first row */
    const gk_op key = matmul_of(f, KEY, WK, N, 0);
    EXPECT("in place", ((gk_op[]){key, rope(f, KEY, KEY), kv_write(f, KEY, V)}), MATMUL, ROPE_KV);
    EXPECT("in place, on what the last run left", ((gk_op[]){rope(f, KEY, KEY), kv_write(f, KEY, V)}), ROPE, WRITE);
    EXPECT("not in place", ((gk_op[]){rope(f, KEY, Q), kv_write(f, KEY, V)}), ROPE_KV);
    EXPECT("queries between", ((gk_op[]){key, rope(f, KEY, KEY), rope(f, Q, Q), kv_write(f, KEY, V)}), MATMUL, ROPE, ROPE_KV);
    EXPECT("values between", ((gk_op[]){key, rope(f, KEY, KEY), matmul_of(f, V, WV, N, 0), kv_write(f, KEY, V)}), MATMUL, MATMUL, ROPE_KV);
    EXPECT("keys are read later", ((gk_op[]){key, rope(f, KEY, KEY), kv_write(f, KEY, V), binary(f, COPY, Y, KEY, 0)}), MATMUL, ROPE, WRITE, COPY);
    EXPECT("a part is read later", ((gk_op[]){key, rope(f, KEY, KEY), kv_write(f, KEY, V), half}), MATMUL, ROPE, WRITE, COPY);
    EXPECT("keys are read between", ((gk_op[]){key, rope(f, KEY, KEY), binary(f, COPY, Y, KEY, 0), kv_write(f, KEY, V)}), MATMUL, ROPE, COPY, WRITE);
    EXPECT("keys are values", ((gk_op[]){key, rope(f, KEY, KEY), kv_write(f, KEY, KEY)}), MATMUL, ROPE, WRITE);
    EXPECT("their source changes", ((gk_op[]){rope(f, KEY, Q), binary(f, COPY, Q, X, 0), kv_write(f, KEY, V)}), ROPE, COPY, WRITE);
    EXPECT("other heads", ((gk_op[]){key, rope(f, KEY, KEY), wide}), MATMUL, ROPE, WRITE);
    EXPECT("written by another", ((gk_op[]){key, rope(f, KEY, KEY), binary(f, COPY, KEY, X, 0), kv_write(f, KEY, V)}), MATMUL, ROPE, COPY, WRITE);
}

static void norm_matmul(const fixture *f) {
    const gk_op q = matmul_of(f, Q, WQ, N, 0), n = norm(f, N, X, NORM);
    gk_op groups = n, last = matmul_of(f, Y, WQ, X, GK_LAST_ROW);
    groups.b.ne[0] = 16;
    EXPECT("one product", ((gk_op[]){n, q}), NORM_MATMUL);
    EXPECT("three, one of them adding", ((gk_op[]){n, q, matmul_of(f, V, WV, N, GK_ACCUMULATE), matmul_of(f, KEY, WK, N, GK_LAST_ROW)}), NORM_MATMUL, NORM_MATMUL, NORM_MATMUL);
    EXPECT("in place, on what the last run left", ((gk_op[]){norm(f, X, X, NORM), matmul_of(f, Q, WQ, X, 0)}), NORM_, MATMUL);
    EXPECT("in place", ((gk_op[]){norm(f, X, X, NORM), matmul_of(f, Q, WQ, X, 0), binary(f, COPY, X, Y, 0)}), NORM_MATMUL, COPY);
    EXPECT("groups", ((gk_op[]){groups, q}), NORM_, MATMUL);
    EXPECT("read by another op", ((gk_op[]){n, q, binary(f, ADD, Y, N, X)}), NORM_, MATMUL, ADD);
    EXPECT("read in the next run", ((gk_op[]){binary(f, COPY, Y, N, 0), n, q}), COPY, NORM_, MATMUL);
    EXPECT("the next run's is written first", ((gk_op[]){binary(f, COPY, N, Y, 0), binary(f, COPY, V, N, 0), n, q}), COPY, COPY, NORM_MATMUL);
    EXPECT("the source changes", ((gk_op[]){n, q, binary(f, COPY, X, Y, 0), matmul_of(f, V, WV, N, 0)}), NORM_, MATMUL, COPY, MATMUL);
    EXPECT("added to the source", ((gk_op[]){n, matmul_of(f, X, WQ, N, GK_ACCUMULATE)}), NORM_, MATMUL);
    EXPECT("read after a last row over it", ((gk_op[]){norm(f, Y, X, NORM), matmul_of(f, Q, WQ, Y, 0), last, binary(f, COPY, V, Y, 0)}), NORM_, MATMUL, MATMUL, COPY);
}

/* ---- random lists, run with and without ---- */

enum { RUNS = 2, BYTES = SLOT * SLOTS };

static gk_op random_op(const fixture *f) {
    suite *s = f->s;
    const uint32_t dst = random_below(s, XS), a = random_below(s, XS), b = random_below(s, XS), w = WG + random_below(s, 5);
    switch (random_below(s, 8)) {
    case 0: return norm(f, dst, a, NORM + random_below(s, 2));
    case 1: return rope(f, dst, random_below(s, 2) ? dst : a);
    case 2: return kv_write(f, a, b);
    case 3: return binary(f, SWIGLU, dst, a, b);
    case 4: return binary(f, random_below(s, 2) ? ADD : COPY, dst, a, b);
    default: return matmul_of(f, dst, w, b, (uint16_t)(random_below(s, 4) == 0 ? GK_ACCUMULATE : random_below(s, 6) == 0 ? GK_LAST_ROW : 0));
    }
}

/* A list with patterns, and random ops between them. */
static uint32_t random_list(const fixture *f, gk_op *ops) {
    suite *s = f->s;
    uint32_t count = 0;
    while (count < 20) {
        const uint32_t x = random_below(s, XS), y = random_below(s, XS), z = random_below(s, XS), v = random_below(s, XS);
        const gk_op patterns[3][4] = {
            {matmul_of(f, x, WG, z, 0), matmul_of(f, y, WU, z, 0), binary(f, SWIGLU, random_below(s, 2) ? x : v, x, y), random_op(f)},
            {rope(f, x, random_below(s, 2) ? x : y), random_op(f), kv_write(f, x, z), random_op(f)},
            {norm(f, x, y, NORM), matmul_of(f, z, WQ, x, 0), matmul_of(f, v, WK, x, 0), random_op(f)},
        };
        const gk_op *pattern = patterns[random_below(s, 3)];
        for (int n = 0; n < 4; n++) {
            const gk_op between = random_op(f);
            if (random_below(s, 4) == 0 && gk_op_check(&between) == NULL) ops[count++] = between;
            if (gk_op_check(&pattern[n]) == NULL) ops[count++] = pattern[n];
        }
    }
    for (uint32_t n = 0; n < 3; n++) { /* the slots that are compared: the others may be intermediate */
        ops[count] = binary(f, COPY, X, random_below(s, XS), 0);
        ops[count++].dst = x_of(f, OUT + n);
    }
    return count;
}

static float *run_list(const fixture *f, const float *start, const gk_op *ops, uint32_t count) {
    gk_plan *plan = NULL;
    float *end = must_alloc(BYTES);
    const gk_backend *b = f->backend;
    expect_status(f->s, SIDE_REF, b->write(f->device, f->buffer, 0, start, BYTES), GK_OK, "write");
    expect_status(f->s, SIDE_REF, b->plan_build(f->device, ops, count, &plan), GK_OK, "plan_build");
    for (uint32_t n = 0; plan && n < RUNS; n++)
        expect_status(f->s, SIDE_REF, b->plan_run(f->device, plan, &(gk_step){.n_tok = ROWS, .pos = n * ROWS}, 1), GK_OK, "plan_run");
    b->plan_free(f->device, plan);
    expect_status(f->s, SIDE_REF, b->read(f->device, f->buffer, 0, end, BYTES), GK_OK, "read");
    return end;
}

static void random_lists(const fixture *f) {
    static const uint32_t seen[] = {KEYS, VALUES, OUT, OUT + 1, OUT + 2};
    uint32_t fused_lists = 0;
    for (int n = 0; n < 400 && case_going(f->s); n++) {
        gk_op ops[MOST_OPS], out[MOST_OPS];
        float *start = gauss_values(f->s, BYTES / sizeof(float), 1);
        for (uint32_t w = WG * SLOT / 4; w < BYTES / 4; w++) start[w] *= 0.2f;
        memset(start + KEYS * SLOT / 4, 0, 2 * SLOT);
        const uint32_t count = random_list(f, ops), less = gk_fuse(f->backend, f->device, ops, count, out);
        bool some = false;
        for (uint32_t k = 0; k < less; k++) some = some || out[k].code > GK_OP_STEP;
        fused_lists += some;
        float *plain = run_list(f, start, ops, count), *fused = run_list(f, start, out, less);
        for (size_t k = 0; k < sizeof seen / sizeof *seen; k++) {
            const float *x = plain + (size_t)seen[k] * SLOT / 4, *y = fused + (size_t)seen[k] * SLOT / 4;
            const double error = nmse_of(y, x, SLOT / 4);
            /* Sums of huge values are meaningless, and infinite ones have no error to compute. */
            if (isfinite(error) && error > 1e-6) case_fail(f->s, "list %d: slot %u is off by %g", n, (unsigned)seen[k], error);
        }
        free(start);
        free(plain);
        free(fused);
    }
    if (fused_lists < 100) case_fail(f->s, "only %u lists had ops to fuse", (unsigned)fused_lists);
}

void test_fuse(suite *s) {
    static const struct {
        const char *name;
        void (*test)(const fixture *);
    } tests[] = {{"layers", whole_layers}, {"gate_up", gate_up}, {"rope_kv", rope_kv}, {"norm_matmul", norm_matmul}, {"random", random_lists}};
    side *ref = &s->sides[SIDE_REF];
    for (size_t n = 0; n < sizeof tests / sizeof *tests; n++) {
        case_begin(s, "core", "fuse", "%s", tests[n].name);
        fixture f = {s, ref->backend, ref->device, NULL};
        expect_status(s, SIDE_REF, ref->backend->alloc(ref->device, BYTES, GK_USAGE_STATE, &f.buffer), GK_OK, "alloc");
        if (case_going(s)) tests[n].test(&f);
        ref->backend->release(ref->device, f.buffer);
        case_end(s);
    }
}
