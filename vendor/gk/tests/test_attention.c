/* KV_WRITE and ATTENTION together, because the layout of the cache is private to the backend; ROPE. */
#include <math.h>

#include "gk_test.h"

typedef struct attention_case {
    uint32_t type, d_head, n_head, n_head_kv, rows, n_tok, pos, n_ctx;
    double scale; /* of the scores: large ones make the softmax one-hot */
    uint32_t stride;
} attention_case;

/* Fills positions 0 .. pos - 1 in chunks, as a prefill does, then runs attention. */
static void run_case(suite *s, const attention_case *c) {
    uint32_t kv = c->n_head_kv * c->d_head, q = c->n_head * c->d_head;
    uint32_t chunk = c->pos < 64 ? 1 + c->pos : 64;
    mirror_op fill = {.op = {.code = GK_OP_KV_WRITE, .i = {(int32_t)c->n_head_kv, (int32_t)c->d_head}}};
    fill.dst = cache_new(s, c->type, kv, c->n_ctx);
    fill.c = cache_new(s, c->type, kv, c->n_ctx);
    fill.a = tensor_new(s, GK_F32, kv, chunk, 0);
    fill.b = tensor_new(s, GK_F32, kv, chunk, 0);
    for (uint32_t pos = 0; pos < c->pos && case_going(s); pos += chunk) {
        uint32_t count = c->pos - pos < chunk ? c->pos - pos : chunk;
        float *keys = gauss_values(s, (size_t)kv * chunk, 1), *values = gauss_values(s, (size_t)kv * chunk, 1);
        tensor_set(s, &fill.a, keys);
        tensor_set(s, &fill.b, values);
        run_both(s, &fill, 1, &(gk_step){.n_tok = count, .pos = pos});
        free(keys);
        free(values);
    }
    mirror_op ops[2] = {fill, {.op = {.code = GK_OP_ATTENTION}}};
    ops[0].a = tensor_new(s, GK_F32, kv, c->rows, c->stride ? kv + 16 + c->stride - 1 : 0);
    ops[0].b = tensor_new(s, GK_F32, kv, c->rows, c->stride ? kv + 32 + c->stride - 1 : 0);
    ops[1].op.i[0] = (int32_t)c->n_head;
    ops[1].op.i[1] = (int32_t)c->n_head_kv;
    ops[1].op.i[2] = (int32_t)c->d_head;
    ops[1].op.f[0] = (float)(c->scale / sqrt(c->d_head));
    ops[1].a = tensor_new(s, GK_F32, q, c->rows, c->stride ? q + 48 + c->stride - 1 : 0);
    ops[1].b = fill.dst;
    ops[1].c = fill.c;
    ops[1].dst = tensor_new(s, GK_F32, q, c->rows, c->stride ? q + 16 + c->stride - 1 : 0);
    float *keys = gauss_values(s, (size_t)kv * c->rows, 1), *values = gauss_values(s, (size_t)kv * c->rows, 1);
    float *queries = gauss_values(s, (size_t)q * c->rows, 1);
    tensor_set(s, &ops[0].a, keys);
    tensor_set(s, &ops[0].b, values);
    tensor_set(s, &ops[1].a, queries);
    free(keys);
    free(values);
    free(queries);
    if (run_both(s, ops, 2, &(gk_step){.n_tok = c->n_tok, .pos = c->pos})) {
        /* Scores in float32: a large scale magnifies their rounding. */
        double exact = c->type == GK_F32 ? 1e-7 : 1e-6;
        compare_tensor(s, &ops[1].dst, c->n_tok, c->scale > 10 ? 1e-5 : exact);
    }
}

static void attention(suite *s, attention_case c) {
    if (c.n_tok == 0) c.n_tok = c.rows;
    if (c.n_ctx == 0) c.n_ctx = c.pos + c.rows;
    if (c.scale == 0) c.scale = 1;
    case_begin(s, "attention", gk_type_name(c.type), "d=%u,heads=%u/%u,t=%u%s,n_kv=%u,scale=%g%s", c.d_head, c.n_head,
               c.n_head_kv, c.n_tok, c.n_tok < c.rows ? ",partial" : "", c.pos + c.n_tok, c.scale, c.stride > 1 ? ",odd-stride" : c.stride ? ",stride" : "");
    run_case(s, &c);
    case_end(s);
}

mirror rope_table(suite *s, uint32_t n_rot, uint32_t n_ctx) {
    mirror m = tensor_new(s, GK_F32, n_rot, n_ctx, 0);
    float *table = must_alloc(sizeof(float) * n_rot * n_ctx);
    for (uint32_t p = 0; p < n_ctx; p++) {
        for (uint32_t pair = 0; pair < n_rot / 2; pair++) {
            double angle = p * pow(10000.0, -2.0 * pair / n_rot);
            table[p * n_rot + 2 * pair] = (float)cos(angle);
            table[p * n_rot + 2 * pair + 1] = (float)sin(angle);
        }
    }
    tensor_set(s, &m, table);
    free(table);
    return m;
}

static void rope(suite *s, uint32_t d_head, uint32_t n_rot, uint16_t flags, uint32_t rows, bool in_place) {
    uint32_t heads = 3, n_ctx = 150, pos = n_ctx - rows - (rows < 100 ? 7 : 0);
    case_begin(s, "rope", flags & GK_NEOX ? "neox" : "norm", "d=%u,n_rot=%u,t=%u,pos=%u%s", d_head, n_rot, rows, pos,
               in_place ? ",in-place" : "");
    mirror_op op = {.op = {.code = GK_OP_ROPE, .flags = flags, .i = {(int32_t)heads, (int32_t)d_head, (int32_t)n_rot}}};
    op.a = tensor_new(s, GK_F32, heads * d_head, rows, 0);
    op.b = rope_table(s, n_rot, n_ctx);
    op.dst = in_place ? op.a : tensor_new(s, GK_F32, heads * d_head, rows, heads * d_head + 16);
    float *x = gauss_values(s, (size_t)heads * d_head * rows, 1);
    tensor_set(s, &op.a, x);
    uint32_t n_tok = rows > 2 ? rows - 1 : rows;
    if (run_both(s, &op, 1, &(gk_step){.n_tok = n_tok, .pos = pos})) compare_tensor(s, &op.dst, n_tok, 1e-7);
    free(x);
    case_end(s);
}

void test_attention(suite *s) {
    static const uint32_t heads_of[] = {32, 64, 80, 96, 128}, group_of[] = {1, 4, 7, 8};
    static const uint32_t n_kv_of[] = {1, 255, 256, 257, 1025}, rows_of[] = {1, 2, 3, 7, 8, 9, 33, 64, 129};
    for (int type = GK_F32; type <= GK_F16; type++) {
        attention_case base = {.type = (uint32_t)type, .d_head = 64, .n_head = 4, .n_head_kv = 2, .rows = 1, .pos = 20};
        for (int d = 0; d < 5; d++) {
            for (int g = 0; g < 4; g++) {
                attention_case c = base;
                c.d_head = heads_of[d], c.n_head_kv = 2, c.n_head = 2 * group_of[g];
                attention(s, c);
                c.rows = 5, c.pos = 3;
                attention(s, c);
            }
            for (int n = 0; n < 5; n++) {
                attention_case c = base;
                c.d_head = heads_of[d], c.pos = n_kv_of[n] - 1;
                attention(s, c);
            }
        }
        for (int n = 0; n < 5; n++) {
            attention_case c = base;
            c.n_head_kv = 1, c.rows = 9, c.pos = n_kv_of[n] > 9 ? n_kv_of[n] - 9 : 0, c.n_ctx = c.pos + 40;
            attention(s, c);
        }
        for (int n = 0; n < 9; n++) {
            attention_case c = base;
            c.d_head = 32, c.rows = rows_of[n], c.pos = 0;
            attention(s, c);
            c.pos = 70, c.stride = 1;
            attention(s, c);
            c.stride = 2; /* rows that no vector size divides */
            attention(s, c);
        }
        attention_case c = base;
        c.rows = 16, c.n_tok = 5, c.n_ctx = 300;
        attention(s, c);
        c.n_tok = 1, c.pos = 280;
        attention(s, c);
        c = base, c.scale = 100, c.pos = 300;
        attention(s, c);
        c.rows = 8, c.scale = 30;
        attention(s, c);
        c = base, c.scale = 1e-4, c.pos = 127, c.stride = 1;
        attention(s, c);
        /* The cpu backend computes 512 positions at a time, in parallel for a few rows: rows that see different numbers of
         * such parts, and a long context. */
        for (uint32_t rows = 3; rows <= 9; rows += 3) {
            c = base, c.rows = rows, c.n_head = 10, c.pos = 510, c.scale = 4;
            attention(s, c);
            c.pos = 1021, c.n_ctx = 1040, c.n_tok = rows - 1;
            attention(s, c);
        }
        c = base, c.d_head = 32, c.pos = 4096, c.n_ctx = 4101, c.scale = 8;
        attention(s, c);
        /* Groups larger than kernels process at once, long heads, and heads that no vector size divides. */
        for (uint32_t rows = 1; rows <= 12; rows += 11) {
            c = base, c.rows = rows, c.n_head = 26;
            attention(s, c);
            c.n_head = 40, c.pos = 400;
            attention(s, c);
            c = base, c.rows = rows, c.d_head = 256;
            attention(s, c);
            c = base, c.rows = rows, c.d_head = 50;
            attention(s, c);
        }
    }
    for (uint16_t flags = 0; flags <= GK_NEOX; flags += GK_NEOX) {
        for (int d = 0; d < 5; d++) {
            rope(s, heads_of[d], heads_of[d], flags, 1, true);
            rope(s, heads_of[d], heads_of[d] / 2, flags, 9, false);
            rope(s, heads_of[d], heads_of[d], flags, 129, d % 2 == 0);
        }
        rope(s, 64, 2, flags, 3, true);
        rope(s, 64, 22, flags, 33, true);
    }
}
