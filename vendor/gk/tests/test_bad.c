/* Invalid arguments: they must return a status, and never crash or write. */
#include <math.h>

#include "gk_test.h"

typedef struct fixture {
    gk_op embed, norm, matmul, quant, rope, write, attention, swiglu, silu, add, softmax, argmax, topk, copy, step, rope_kv, gate_up, norm_matmul;
    gk_buffer *small; /* 4096 bytes */
} fixture;

static gk_tensor at(gk_buffer *buffer, uint64_t slot, uint32_t type, uint32_t ne0, uint32_t ne1) {
    return (gk_tensor){.buffer = buffer, .offset = slot << 16, .type = type, .ne = {ne0, ne1, 1, 1}};
}

/* Valid ops; every line of the table below changes one of them in one place. */
static void fixture_new(suite *s, fixture *f) {
    gk_buffer *w = s->sides[SIDE_TESTED].arena[ARENA_WEIGHT], *x = s->sides[SIDE_TESTED].arena[ARENA_STATE];
    memset(f, 0, sizeof *f);
    f->embed = (gk_op){.code = GK_OP_EMBED, .dst = at(x, 0, GK_F32, 64, 4), .a = at(w, 0, GK_F32, 64, 10), .b = at(x, 1, GK_I32, 4, 1)};
    f->norm = (gk_op){.code = GK_OP_RMSNORM, .dst = at(x, 0, GK_F32, 64, 4), .a = at(x, 1, GK_F32, 64, 4), .b = at(x, 2, GK_F32, 32, 1), .f = {1e-5f}};
    f->matmul = (gk_op){.code = GK_OP_MATMUL, .dst = at(x, 0, GK_F32, 10, 4), .a = at(w, 0, GK_F16, 64, 10), .b = at(x, 1, GK_F32, 64, 4)};
    f->quant = f->matmul, f->quant.a.type = GK_Q8_0;
    f->rope = (gk_op){.code = GK_OP_ROPE, .dst = at(x, 0, GK_F32, 64, 4), .a = at(x, 1, GK_F32, 64, 4), .b = at(x, 2, GK_F32, 16, 30), .i = {2, 32, 16}};
    f->write = (gk_op){.code = GK_OP_KV_WRITE, .dst = at(x, 0, GK_F16, 64, 30), .a = at(x, 1, GK_F32, 64, 4), .b = at(x, 2, GK_F32, 64, 4), .c = at(x, 3, GK_F16, 64, 30), .i = {2, 32}};
    f->attention = (gk_op){.code = GK_OP_ATTENTION, .dst = at(x, 4, GK_F32, 128, 4), .a = at(x, 5, GK_F32, 128, 4), .b = at(x, 0, GK_F16, 64, 30), .c = at(x, 3, GK_F16, 64, 30), .i = {4, 2, 32}, .f = {0.1f}};
    f->swiglu = (gk_op){.code = GK_OP_SWIGLU, .dst = at(x, 0, GK_F32, 64, 4), .a = at(x, 1, GK_F32, 64, 4), .b = at(x, 2, GK_F32, 64, 4)};
    f->silu = (gk_op){.code = GK_OP_SILU, .dst = at(x, 0, GK_F32, 64, 4), .a = at(x, 1, GK_F32, 64, 4)};
    f->add = f->swiglu, f->add.code = GK_OP_ADD;
    f->softmax = f->silu, f->softmax.code = GK_OP_SOFTMAX, f->softmax.f[0] = 1;
    f->argmax = (gk_op){.code = GK_OP_ARGMAX, .dst = at(x, 0, GK_I32, 4, 1), .a = at(x, 1, GK_F32, 64, 4)};
    f->topk = (gk_op){.code = GK_OP_TOPK, .dst = at(x, 0, GK_I32, 5, 4), .a = at(x, 1, GK_F32, 64, 4), .c = at(x, 2, GK_F32, 5, 4), .i = {5}};
    f->copy = f->silu, f->copy.code = GK_OP_COPY;
    f->rope_kv = f->write, f->rope_kv.code = GK_OP_ROPE_KV, f->rope_kv.d = at(x, 4, GK_F32, 16, 30), f->rope_kv.i[2] = 16;
    f->gate_up = f->matmul, f->gate_up.code = GK_OP_GATE_UP, f->gate_up.d = at(w, 1, GK_F16, 64, 10);
    f->norm_matmul = f->matmul, f->norm_matmul.code = GK_OP_NORM_MATMUL, f->norm_matmul.d = at(x, 2, GK_F32, 64, 1), f->norm_matmul.f[0] = 1e-5f;
    f->norm_matmul.b.ne[1] = f->norm_matmul.dst.ne[1] = 1;
    f->step = (gk_op){.code = GK_OP_STEP, .dst = at(x, 0, GK_I32, 9, 1), .a = at(x, 1, GK_I32, 1, 1), .b = at(x, 2, GK_I32, 1, 1)};
}

static gk_status build(suite *s, const gk_op *ops, uint32_t count) {
    side *d = &s->sides[SIDE_TESTED];
    gk_plan *plan = NULL;
    gk_status status = d->backend->plan_build(d->device, ops, count, &plan);
    if ((plan == NULL) != (status != GK_OK)) case_fail(s, "plan_build returned %s and %s plan", gk_status_text(status), plan ? "a" : "no");
    if (status == GK_BAD_ARGUMENT && d->backend->last_error(d->device)[0] == '\0') case_fail(s, "refused without a reason in last_error");
    d->backend->plan_free(d->device, plan);
    return status;
}

static void good(suite *s, const char *name, const gk_op *op) {
    case_begin(s, "bad", "op", "%s: valid", name);
    gk_status status = build(s, op, 1);
    if (status == GK_UNSUPPORTED) case_skip(s, "%s", s->sides[SIDE_TESTED].backend->last_error(s->sides[SIDE_TESTED].device));
    else expect_status(s, SIDE_TESTED, status, GK_OK, "plan_build");
    case_end(s);
}

static void bad(suite *s, const char *name, gk_op op) {
    side *d = &s->sides[SIDE_TESTED];
    case_begin(s, "bad", "op", "%s", name);
    gk_status status = build(s, &op, 1);
    if (status != GK_BAD_ARGUMENT) case_fail(s, "plan_build returns %s", gk_status_text(status));
    status = d->backend->supports(d->device, &op);
    if (status != GK_BAD_ARGUMENT) case_fail(s, "supports returns %s", gk_status_text(status));
    case_end(s);
}

/* bad(s, "text", op with one field changed) */
#define BAD(base, change) \
    do { \
        gk_op op = f.base; \
        change; \
        bad(s, #base ": " #change, op); \
    } while (0)

static void bad_ops(suite *s) {
    fixture f;
    fixture_new(s, &f);
    gk_buffer *x = s->sides[SIDE_TESTED].arena[ARENA_STATE], *foreign = s->sides[SIDE_REF].arena[ARENA_STATE];
    const uint64_t end = s->sides[SIDE_TESTED].arena_bytes[ARENA_STATE];
    good(s, "embed", &f.embed), good(s, "rmsnorm", &f.norm), good(s, "matmul", &f.matmul), good(s, "matmul q8_0", &f.quant);
    good(s, "rope", &f.rope), good(s, "kv_write", &f.write), good(s, "attention", &f.attention), good(s, "swiglu", &f.swiglu);
    good(s, "silu", &f.silu), good(s, "add", &f.add), good(s, "softmax", &f.softmax), good(s, "argmax", &f.argmax);
    good(s, "topk", &f.topk), good(s, "copy", &f.copy), good(s, "step", &f.step);
    good(s, "rope_kv", &f.rope_kv), good(s, "gate_up", &f.gate_up), good(s, "norm_matmul", &f.norm_matmul);
    BAD(silu, op.code = 0);
    BAD(silu, op.code = 19);
    BAD(silu, op.code = 65535);
    BAD(silu, op.flags = GK_BIAS);
    BAD(matmul, op.flags = 16);
    BAD(matmul, op.flags = GK_NEOX);
    BAD(silu, op.dst.buffer = NULL);
    BAD(silu, op.a.buffer = NULL);
    BAD(silu, op.b = f.add.b);
    BAD(silu, op.d = f.add.b);
    BAD(silu, op.a.buffer = foreign);
    BAD(silu, op.dst.buffer = foreign);
    BAD(silu, op.a.offset = 4);
    BAD(silu, op.a.offset = end);
    BAD(silu, op.a.offset = end - 64);
    BAD(silu, op.dst.offset = end - 64);
    BAD(silu, op.a.offset = UINT64_MAX - 63);
    BAD(silu, op.dst.offset = UINT64_MAX - 63);
    BAD(silu, op.a.ne[0] = 0; op.dst.ne[0] = 0);
    BAD(silu, op.a.ne[1] = 0; op.dst.ne[1] = 0);
    BAD(silu, op.a.ne[2] = 0);
    BAD(silu, op.a.ne[2] = 2; op.dst.ne[2] = 2);
    BAD(silu, op.a.ne[3] = 7);
    BAD(silu, op.a.ne[0] = UINT32_MAX; op.dst.ne[0] = UINT32_MAX);
    BAD(silu, op.a.ne[0] = op.dst.ne[0] = INT32_MAX; op.a.ne[1] = op.dst.ne[1] = INT32_MAX);
    BAD(silu, op.a.ne[1] = op.dst.ne[1] = INT32_MAX; op.a.row_stride = UINT32_MAX);
    BAD(silu, op.a.row_stride = 63);
    BAD(silu, op.dst.row_stride = UINT32_MAX);
    BAD(silu, op.a.ne[1] = 3);
    BAD(silu, op.a.type = GK_F16);
    BAD(silu, op.a.type = GK_Q8_0);
    BAD(silu, op.a.type = 999);
    BAD(silu, op.dst.type = GK_I32);
    BAD(silu, op.dst = op.a; op.dst.offset += 64);
    BAD(embed, op.b.type = GK_F32);
    BAD(embed, op.a.type = GK_I32);
    BAD(embed, op.dst.ne[0] = 63);
    BAD(embed, op.dst.ne[1] = 5);
    BAD(embed, op.b.ne[0] = 3);
    BAD(embed, op.b.ne[1] = 2);
    BAD(embed, op.a.ne[0] = op.dst.ne[0] = 33; op.a.type = GK_Q8_0);
    BAD(embed, op.a.ne[1] = INT32_MAX);
    BAD(norm, op.b.ne[0] = 48);
    BAD(norm, op.b.ne[1] = 2);
    BAD(norm, op.b.buffer = NULL);
    BAD(norm, op.f[0] = -1.0f);
    BAD(norm, op.f[0] = NAN);
    BAD(norm, op.f[0] = INFINITY);
    BAD(norm, op.dst.ne[0] = 32);
    BAD(norm, op.b.offset = op.dst.offset);
    BAD(matmul, op.a.ne[0] = 65);
    BAD(matmul, op.b.ne[0] = 65);
    BAD(matmul, op.a.ne[1] = 11);
    BAD(matmul, op.dst.ne[1] = 1);
    BAD(matmul, op.a.type = GK_I32);
    BAD(matmul, op.a.row_stride = 128);
    BAD(matmul, op.a.ne[1] = op.dst.ne[0] = INT32_MAX);
    BAD(matmul, op.a.ne[0] = op.b.ne[0] = INT32_MAX; op.a.ne[1] = op.dst.ne[0] = INT32_MAX);
    BAD(matmul, op.flags = GK_BIAS);
    BAD(matmul, op.flags = GK_BIAS; op.c = at(x, 2, GK_F32, 9, 1));
    BAD(matmul, op.flags = GK_BIAS; op.c = at(x, 2, GK_F16, 10, 1));
    BAD(matmul, op.c = at(x, 2, GK_F32, 10, 1));
    BAD(matmul, op.dst.offset = op.b.offset);
    BAD(matmul, op.flags = GK_LAST_ROW; op.dst.ne[1] = 2);
    BAD(quant, op.a.ne[0] = op.b.ne[0] = 48);
    BAD(quant, op.b.type = GK_Q8_0);
    BAD(rope, op.i[0] = 3);
    BAD(rope, op.i[0] = -2; op.i[1] = -32);
    BAD(rope, op.i[0] = 0; op.i[1] = 0);
    BAD(rope, op.i[2] = 15; op.b.ne[0] = 15);
    BAD(rope, op.i[2] = 0);
    BAD(rope, op.i[2] = 34; op.b.ne[0] = 34);
    BAD(rope, op.b.ne[0] = 18);
    BAD(rope, op.b.offset = op.dst.offset);
    BAD(write, op.i[0] = 4);
    BAD(write, op.i[1] = 0);
    BAD(write, op.dst.type = GK_Q8_0);
    BAD(write, op.dst.type = GK_F32);
    BAD(write, op.c.buffer = NULL);
    BAD(write, op.c.ne[1] = 29);
    BAD(write, op.c.offset = op.dst.offset);
    BAD(write, op.b.ne[1] = 3);
    BAD(write, op.dst.ne[1] = op.c.ne[1] = INT32_MAX);
    BAD(write, op.dst.row_stride = 128);
    BAD(attention, op.i[0] = 3);
    BAD(attention, op.i[1] = 0);
    BAD(attention, op.i[1] = 3);
    BAD(attention, op.i[2] = 16);
    BAD(attention, op.f[0] = NAN);
    BAD(attention, op.dst = op.a);
    BAD(attention, op.c.type = GK_F32);
    BAD(attention, op.b.ne[0] = op.c.ne[0] = 96; op.i[1] = 3);
    BAD(swiglu, op.b.ne[1] = 1);
    BAD(swiglu, op.b.ne[0] = 32);
    BAD(add, op.b.ne[1] = 2);
    BAD(add, op.b.type = GK_F16);
    BAD(softmax, op.f[0] = NAN);
    BAD(argmax, op.dst.ne[0] = 3);
    BAD(argmax, op.dst.type = GK_F32);
    BAD(argmax, op.dst.offset = op.a.offset);
    BAD(topk, op.i[0] = 0);
    BAD(topk, op.i[0] = -1);
    BAD(topk, op.i[0] = 257; op.dst.ne[0] = op.c.ne[0] = 257; op.a.ne[0] = 600);
    BAD(topk, op.i[0] = 65; op.dst.ne[0] = op.c.ne[0] = 65);
    BAD(topk, op.c.buffer = NULL);
    BAD(topk, op.c.offset = op.dst.offset);
    BAD(copy, op.a.type = GK_I32; op.dst.type = GK_I32);
    BAD(copy, op.a.ne[0] = 32);
    BAD(step, op.a.ne[0] = 2);
    BAD(step, op.b.type = GK_F32);
    BAD(step, op.b.buffer = NULL);
    BAD(step, op.dst.offset = op.b.offset);
    BAD(rope_kv, op.d.buffer = NULL);
    BAD(rope_kv, op.d.buffer = foreign);
    BAD(rope_kv, op.d.offset = end - 64);
    BAD(rope_kv, op.d.type = GK_F16);
    BAD(rope_kv, op.d.ne[0] = 18);
    BAD(rope_kv, op.d.offset = op.dst.offset);
    BAD(rope_kv, op.d.offset = op.c.offset);
    BAD(rope_kv, op.i[2] = 15; op.d.ne[0] = 15);
    BAD(rope_kv, op.i[2] = 34; op.d.ne[0] = 34);
    BAD(rope_kv, op.i[2] = 0);
    BAD(rope_kv, op.i[0] = 4);
    BAD(rope_kv, op.i[0] = -2; op.i[1] = -32);
    BAD(rope_kv, op.a.ne[1] = 3);
    BAD(rope_kv, op.c.type = GK_F32);
    BAD(rope_kv, op.c.offset = op.dst.offset);
    BAD(rope_kv, op.flags = GK_BIAS);
    BAD(gate_up, op.d.buffer = NULL);
    BAD(gate_up, op.d.buffer = foreign);
    BAD(gate_up, op.d.offset = s->sides[SIDE_TESTED].arena_bytes[ARENA_WEIGHT] - 64);
    BAD(gate_up, op.d.type = GK_F32);
    BAD(gate_up, op.d.ne[1] = 11);
    BAD(gate_up, op.a.ne[0] = op.d.ne[0] = 65);
    BAD(gate_up, op.c = at(x, 2, GK_F32, 10, 1));
    BAD(gate_up, op.dst.ne[0] = 11);
    BAD(gate_up, op.dst.ne[1] = 1);
    BAD(gate_up, op.dst.offset = op.b.offset);
    BAD(gate_up, op.flags = GK_ACCUMULATE);
    BAD(gate_up, op.flags = GK_BIAS);
    BAD(gate_up, op.flags = GK_LAST_ROW);
    BAD(norm_matmul, op.d.buffer = NULL);
    BAD(norm_matmul, op.d.ne[0] = 32);
    BAD(norm_matmul, op.d.type = GK_F16);
    BAD(norm_matmul, op.d.ne[1] = 2);
    BAD(norm_matmul, op.d.offset = op.dst.offset);
    BAD(norm_matmul, op.dst.offset = op.b.offset);
    BAD(norm_matmul, op.f[0] = -1.0f);
    BAD(norm_matmul, op.f[0] = NAN);
    BAD(norm_matmul, op.flags = GK_BIAS);
    BAD(norm_matmul, op.flags = GK_NEOX);
    BAD(norm_matmul, op.a.ne[1] = 11);
}

static void bad_plans(suite *s) {
    side *d = &s->sides[SIDE_TESTED];
    fixture f;
    fixture_new(s, &f);
    case_begin(s, "bad", "plan", "no ops, no result, STEP in the middle or with many rows");
    gk_op middle[2] = {f.step, f.argmax}, wide[2] = {f.silu, f.step};
    if (build(s, NULL, 1) != GK_BAD_ARGUMENT) case_fail(s, "ops = NULL was accepted");
    /* The ops of an empty list must not be read: some languages have empty slices whose pointers are not NULL. */
    if (build(s, (const gk_op *)(uintptr_t)16, 0) != GK_BAD_ARGUMENT) case_fail(s, "count = 0 was accepted");
    if (build(s, middle, 2) != GK_BAD_ARGUMENT) case_fail(s, "STEP in the middle was accepted");
    if (build(s, wide, 2) != GK_BAD_ARGUMENT) case_fail(s, "STEP in a plan of four rows was accepted");
    if (d->backend->plan_build(d->device, &f.silu, 1, NULL) != GK_BAD_ARGUMENT) case_fail(s, "out = NULL was accepted");
    if (d->backend->supports(d->device, NULL) != GK_BAD_ARGUMENT) case_fail(s, "supports(NULL) was accepted");
    gk_step one = {.n_tok = 1};
    if (d->backend->plan_run(d->device, NULL, &one, 1) != GK_BAD_ARGUMENT) case_fail(s, "plan_run(NULL) was accepted");
    d->backend->plan_free(d->device, NULL);
    case_end(s);
}

static void bad_buffers(suite *s) {
    side *d = &s->sides[SIDE_TESTED];
    const gk_backend *b = d->backend;
    char bytes[64] = {0};
    case_begin(s, "bad", "buffer", "sizes, offsets and foreign buffers");
    gk_buffer *buffer = NULL, *none = d->arena[0];
#define REFUSED(call, status) \
    do { \
        gk_status got_ = (call); \
        if (got_ != (status)) case_fail(s, "%s gives %s", #call, gk_status_text(got_)); \
    } while (0)
    REFUSED(b->alloc(d->device, 0, GK_USAGE_STATE, &none), GK_BAD_ARGUMENT);
    if (none != NULL) case_fail(s, "a failed alloc set its result");
    REFUSED(b->alloc(d->device, 64, 0, &none), GK_BAD_ARGUMENT);
    REFUSED(b->alloc(d->device, 64, 4, &none), GK_BAD_ARGUMENT);
    REFUSED(b->alloc(d->device, 64, GK_USAGE_STATE, NULL), GK_BAD_ARGUMENT);
    REFUSED(b->alloc(d->device, 1ull << 60, GK_USAGE_WEIGHT, &none), GK_OUT_OF_MEMORY);
    REFUSED(b->alloc(d->device, UINT64_MAX, GK_USAGE_STATE, &none), GK_OUT_OF_MEMORY);
    REFUSED(b->alloc(d->device, 100, GK_USAGE_STATE, &buffer), GK_OK);
    REFUSED(b->write(d->device, buffer, 0, bytes, 64), GK_OK);
    REFUSED(b->write(d->device, buffer, 36, bytes, 64), GK_OK);
    REFUSED(b->write(d->device, buffer, 37, bytes, 64), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, buffer, 101, bytes, 0), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, buffer, UINT64_MAX, bytes, 2), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, buffer, 2, bytes, UINT64_MAX), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, buffer, 0, NULL, 4), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, NULL, 0, bytes, 4), GK_BAD_ARGUMENT);
    REFUSED(b->write(d->device, s->sides[SIDE_REF].arena[1], 0, bytes, 4), GK_BAD_ARGUMENT);
    REFUSED(b->read(d->device, buffer, 37, bytes, 64), GK_BAD_ARGUMENT);
    REFUSED(b->read(d->device, buffer, UINT64_MAX, bytes, 2), GK_BAD_ARGUMENT);
    REFUSED(b->read(d->device, buffer, 0, NULL, 4), GK_BAD_ARGUMENT);
    REFUSED(b->read(d->device, s->sides[SIDE_REF].arena[1], 0, bytes, 4), GK_BAD_ARGUMENT);
    REFUSED(b->read(d->device, buffer, 0, bytes, 64), GK_OK);
    b->release(d->device, buffer);
    b->release(d->device, NULL);
    buffer = NULL;
    REFUSED(b->alloc(d->device, 4096, GK_USAGE_STATE, &buffer), GK_OK);
    memset(bytes, 1, sizeof bytes);
    if (case_going(s)) REFUSED(b->read(d->device, buffer, 4096 - 64, bytes, 64), GK_OK);
    for (size_t n = 0; n < sizeof bytes; n++) {
        if (bytes[n] != 0) case_fail(s, "a new buffer is not zero");
    }
    b->release(d->device, buffer);
    case_end(s);
}

static void bad_weights(suite *s) {
    side *d = &s->sides[SIDE_TESTED];
    const gk_backend *b = d->backend;
    case_begin(s, "bad", "weight", "types, rows and sizes");
    static const float rows[4 * 64] = {0};
    gk_tensor w = at(d->arena[ARENA_WEIGHT], 0, GK_F32, 64, 4), t = w;
    REFUSED(b->weight_put(d->device, &w, rows, 0, 4), GK_OK);
    REFUSED(b->weight_put(d->device, &w, rows, 4, 0), GK_OK);
    REFUSED(b->weight_put(d->device, &w, rows, 4, 1), GK_BAD_ARGUMENT);
    REFUSED(b->weight_put(d->device, &w, rows, UINT64_MAX, 2), GK_BAD_ARGUMENT);
    REFUSED(b->weight_put(d->device, &w, rows, 1, UINT64_MAX), GK_BAD_ARGUMENT);
    REFUSED(b->weight_put(d->device, &w, NULL, 0, 1), GK_BAD_ARGUMENT);
    REFUSED(b->weight_put(d->device, NULL, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.buffer = NULL;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.buffer = s->sides[SIDE_REF].arena[ARENA_WEIGHT];
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.type = GK_I32;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.type = 77;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.type = GK_Q8_0, t.ne[0] = 48;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.ne[1] = 0;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 0), GK_BAD_ARGUMENT);
    t = w, t.ne[0] = INT32_MAX, t.ne[1] = INT32_MAX;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.offset = 8;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.offset = d->arena_bytes[ARENA_WEIGHT] - 64;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.offset = UINT64_MAX - 63;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    t = w, t.row_stride = 128;
    REFUSED(b->weight_put(d->device, &t, rows, 0, 1), GK_BAD_ARGUMENT);
    if (b->weight_bytes(d->device, GK_I32, 64, 4) != 0) case_fail(s, "i32 weights have a size");
    if (b->weight_bytes(d->device, 77, 64, 4) != 0) case_fail(s, "weights of an unknown type have a size");
    if (b->weight_bytes(d->device, GK_Q8_0, 48, 4) != 0) case_fail(s, "a broken block has a size");
    if (b->weight_bytes(d->device, GK_F32, UINT64_MAX / 2, 4) != 0) case_fail(s, "an overflowing weight has a size");
    if (b->weight_bytes(d->device, GK_F16, 1ull << 40, 1ull << 40) != 0) case_fail(s, "an overflowing weight has a size");
    if (b->weight_bytes(d->device, GK_Q8_0, 1ull << 63, 4) != 0) case_fail(s, "an overflowing weight has a size");
    case_end(s);
}

static void bad_devices(suite *s) {
    side *d = &s->sides[SIDE_TESTED];
    const gk_backend *b = d->backend;
    case_begin(s, "bad", "device", "no device, indices, small buffers for text");
    char why[8] = "xxxxxxx";
    gk_device *device = d->device;
    int count = 0;
    uint64_t bytes;
    gk_traffic traffic;
    gk_device_info info;
    REFUSED(b->enumerate(NULL, 0, &count, NULL, 0), GK_OK);
    if (count < 1) case_fail(s, "enumerate counts %d devices", count);
    REFUSED(b->enumerate(&info, 1, NULL, why, sizeof why), GK_BAD_ARGUMENT);
    REFUSED(b->enumerate(NULL, 1, &count, why, sizeof why), GK_BAD_ARGUMENT);
    REFUSED(b->enumerate(&info, -1, &count, why, sizeof why), GK_BAD_ARGUMENT);
    if (memchr(why, 0, sizeof why) == NULL) case_fail(s, "`why` is not terminated");
    REFUSED(b->enumerate(&info, 1, &count, why, sizeof why), GK_OK);
    if (memchr(info.name, 0, sizeof info.name) == NULL || info.name[0] == '\0') case_fail(s, "the device has no name");
    if (info.kind > GK_KIND_SOFTWARE) case_fail(s, "unknown kind of device");
    REFUSED(b->open(-1, NULL, &device, why, sizeof why), GK_BAD_ARGUMENT);
    if (device != NULL) case_fail(s, "a failed open set its result");
    REFUSED(b->open(1000, NULL, &device, why, sizeof why), GK_BAD_ARGUMENT);
    REFUSED(b->open(0, NULL, NULL, why, sizeof why), GK_BAD_ARGUMENT);
    b->close(NULL);
    if (b->last_error(NULL) == NULL) case_fail(s, "last_error(NULL) is NULL");
    REFUSED(b->memory(NULL, &bytes, &bytes), GK_BAD_ARGUMENT);
    REFUSED(b->memory(d->device, &bytes, &bytes), GK_OK);
    REFUSED(b->memory(d->device, NULL, NULL), GK_OK);
    b->traffic(NULL, &traffic);
    b->traffic(d->device, NULL);
    gk_buffer *buffer;
    gk_plan *plan;
    fixture f;
    fixture_new(s, &f);
    REFUSED(b->alloc(NULL, 64, GK_USAGE_STATE, &buffer), GK_BAD_ARGUMENT);
    REFUSED(b->write(NULL, d->arena[0], 0, why, 1), GK_BAD_ARGUMENT);
    REFUSED(b->read(NULL, d->arena[0], 0, why, 1), GK_BAD_ARGUMENT);
    REFUSED(b->weight_put(NULL, &f.matmul.a, why, 0, 0), GK_BAD_ARGUMENT);
    REFUSED(b->supports(NULL, &f.silu), GK_BAD_ARGUMENT);
    REFUSED(b->plan_build(NULL, &f.silu, 1, &plan), GK_BAD_ARGUMENT);
    REFUSED(b->plan_run(NULL, NULL, NULL, 1), GK_BAD_ARGUMENT);
    gk_plan_info plan_info;
    REFUSED(b->plan_info(NULL, NULL, &plan_info), GK_BAD_ARGUMENT);
    REFUSED(b->plan_info(d->device, NULL, &plan_info), GK_BAD_ARGUMENT);
    REFUSED(b->sync(NULL), GK_BAD_ARGUMENT);
    if (b->weight_bytes(NULL, GK_F32, 64, 4) != 0) case_fail(s, "weight_bytes(NULL) is not 0");
    b->release(NULL, NULL);
    b->plan_free(NULL, NULL);
    /* A second device, closed with everything still allocated, does not affect the first one. */
    REFUSED(b->open(0, NULL, &device, why, sizeof why), GK_OK);
    if (device) {
        REFUSED(b->alloc(device, 1 << 20, GK_USAGE_STATE, &buffer), GK_OK);
        REFUSED(b->write(d->device, buffer, 0, why, 1), GK_BAD_ARGUMENT);
        gk_op op = f.silu;
        op.a.buffer = op.dst.buffer = buffer;
        gk_status status = b->plan_build(device, &op, 1, &plan);
        if (status == GK_OK) {
            REFUSED(b->plan_run(d->device, plan, &(gk_step){.n_tok = 1}, 1), GK_BAD_ARGUMENT);
            REFUSED(b->plan_info(d->device, plan, &plan_info), GK_BAD_ARGUMENT);
            REFUSED(b->plan_info(device, plan, NULL), GK_BAD_ARGUMENT);
            REFUSED(b->plan_info(device, plan, &plan_info), GK_OK);
            bool host = strcmp(b->id, "cpu") == 0 || strcmp(b->id, "ref") == 0;
            if ((plan_info.replay == GK_REPLAY_HOST) != host) case_fail(s, "replay is %u", plan_info.replay);
            if (plan_info.launches != (host ? 0 : 1)) case_fail(s, "one op takes %u launches", plan_info.launches);
        }
        b->close(device);
    }
    REFUSED(b->sync(d->device), GK_OK);
    case_end(s);
}

void test_bad_arguments(suite *s) {
    bad_ops(s);
    bad_plans(s);
    bad_buffers(s);
    bad_weights(s);
    bad_devices(s);
}
