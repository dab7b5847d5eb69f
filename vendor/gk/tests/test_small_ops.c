/* EMBED, RMSNORM, the elementwise ops, SOFTMAX, ARGMAX, TOPK, COPY. */
#include <math.h>

#include "gk_test.h"

enum { NEW_TENSOR = 0, ALIAS_A = 1, ALIAS_B = 2 };

static void embed(suite *s, uint32_t type, uint32_t k, uint32_t rows) {
    enum { VOCAB = 57 };
    case_begin(s, "embed", gk_type_name(type), "k=%u,n=%u,t=%u", k, (unsigned)VOCAB, rows);
    void *gguf = weight_rows(s, type, k, VOCAB, WEIGHT_GAUSS);
    mirror_op op = {.op = {.code = GK_OP_EMBED}};
    op.a = weight_new(s, type, k, VOCAB, gguf);
    if (case_going(s)) {
        op.b = tensor_ids(s, rows);
        op.dst = tensor_new(s, GK_F32, k, rows, k + 33); /* no vector size divides it */
        int32_t *ids = must_alloc(rows * sizeof *ids);
        static const int32_t special[] = {0, VOCAB - 1, VOCAB, -1, INT32_MAX, INT32_MIN};
        for (uint32_t t = 0; t < rows; t++) ids[t] = t % 2 == 1 && t / 2 < 6 ? special[t / 2] : (int32_t)random_below(s, VOCAB);
        tensor_set_i32(s, &op.b, ids);
        free(ids);
    }
    if (run_both(s, &op, 1, &(gk_step){.n_tok = rows})) compare_tensor(s, &op.dst, rows, 1e-12);
    free(gguf);
    case_end(s);
}

static void rmsnorm(suite *s, uint32_t k, uint32_t group, uint32_t rows, double scale, float eps, int alias) {
    case_begin(s, "rmsnorm", "f32", "k=%u,group=%u,t=%u,scale=%g,eps=%g%s", k, group, rows, scale, (double)eps, alias ? ",in-place" : "");
    mirror_op op = {.op = {.code = GK_OP_RMSNORM, .f = {eps}}};
    op.a = tensor_new(s, GK_F32, k, rows, 0);
    op.b = tensor_new(s, GK_F32, group, 1, 0);
    op.dst = alias ? op.a : tensor_new(s, GK_F32, k, rows, k + 17);
    float *x = gauss_values(s, (size_t)k * rows, scale), *w = gauss_values(s, group, 1);
    tensor_set(s, &op.a, x);
    tensor_set(s, &op.b, w);
    if (run_both(s, &op, 1, &(gk_step){.n_tok = rows})) compare_tensor(s, &op.dst, rows, 1e-7);
    free(x);
    free(w);
    case_end(s);
}

static void elementwise(suite *s, uint16_t code, uint32_t k, uint32_t rows, int alias, bool one_row, double scale) {
    bool binary = code != GK_OP_SILU && code != GK_OP_SOFTMAX;
    case_begin(s, gk_op_name(code), "f32", "k=%u,t=%u,scale=%g%s%s", k, rows, scale, one_row ? ",one-row" : "",
               alias == ALIAS_A ? ",dst=a" : alias == ALIAS_B ? ",dst=b" : "");
    mirror_op op = {.op = {.code = code, .f = {code == GK_OP_SOFTMAX ? 0.7f : 0}}};
    op.a = tensor_new(s, GK_F32, k, rows, alias == NEW_TENSOR ? k + 49 : 0);
    if (binary) op.b = tensor_new(s, GK_F32, k, one_row ? 1 : rows, 0);
    op.dst = alias == ALIAS_A ? op.a : alias == ALIAS_B ? op.b : tensor_new(s, GK_F32, k, rows, k + 18);
    float *x = gauss_values(s, (size_t)k * rows, scale), *y = gauss_values(s, (size_t)k * rows, scale);
    tensor_set(s, &op.a, x);
    if (binary) tensor_set(s, &op.b, y);
    uint32_t n_tok = rows > 3 ? rows - 2 : rows;
    if (run_both(s, &op, 1, &(gk_step){.n_tok = n_tok, .pos = 77})) compare_tensor(s, &op.dst, n_tok, 1e-7);
    free(x);
    free(y);
    case_end(s);
}

static void copy(suite *s, uint32_t from, uint32_t to, uint32_t k, uint32_t rows) {
    case_begin(s, "copy", gk_type_name(from), "to=%s,k=%u,t=%u", gk_type_name(to), k, rows);
    mirror_op op = {.op = {.code = GK_OP_COPY}};
    op.a = tensor_new(s, from, k, rows, k + 65);
    op.dst = tensor_new(s, to, k, rows, k + 33);
    float *x = gauss_values(s, (size_t)k * rows, 1);
    for (uint32_t n = 0; n < k; n++) x[n] *= n % 3 == 0 ? 1e-6f : n % 3 == 1 ? 1e4f : 1.0f; /* f16: denormal, large */
    tensor_set(s, &op.a, x);
    if (run_both(s, &op, 1, &(gk_step){.n_tok = rows})) compare_tensor(s, &op.dst, rows, 1e-12);
    free(x);
    case_end(s);
}

typedef enum rank_kind { RANK_GAUSS, RANK_TIES, RANK_EQUAL, RANK_SPECIAL, RANK_NAN, RANK_LAST, RANK_BORDERS, RANK_KINDS } rank_kind;
static const char *const RANK_NAMES[] = {"gauss", "ties", "equal", "infinite", "nan", "last", "borders"};

/* Elements beside multiples of 256, where GPUs divide rows: equal ones on both sides, and NaN next to them. */
static float border(size_t m) {
    const size_t place = m % 256, number = m / 256;
    if (place == 0 || place == 255) return number % 7 < 5 ? 2 : INFINITY;
    if (place == 1 || place == 254) return NAN;
    return place % 2 ? -0.0f : 0.0f;
}

static void rank(suite *s, uint32_t n, uint32_t rows, uint32_t k, rank_kind kind) {
    case_begin(s, k ? "topk" : "argmax", "f32", "n=%u,rows=%u,k=%u,%s", n, rows, k, RANK_NAMES[kind]);
    mirror_op op = {.op = {.code = k ? GK_OP_TOPK : GK_OP_ARGMAX, .i = {(int32_t)k}}};
    op.a = tensor_new(s, GK_F32, n, rows, kind == RANK_TIES ? n + 17 : 0);
    op.dst = k ? tensor_new(s, GK_I32, k, rows, 0) : tensor_ids(s, rows);
    if (k) op.c = tensor_new(s, GK_F32, k, rows, 0);
    float *x = gauss_values(s, (size_t)n * rows, 1);
    for (size_t m = 0; m < (size_t)n * rows; m++) {
        if (kind == RANK_TIES) x[m] = (m % 2 ? -1.0f : 1.0f) * ((float)random_below(s, 5) - 2); /* also -0 */
        if (kind == RANK_EQUAL) x[m] = -3;
        if (kind == RANK_SPECIAL && m % 3 == 1) x[m] = -INFINITY;
        if (kind == RANK_SPECIAL && m % n == n / 2) x[m] = INFINITY;
        if (kind == RANK_NAN && m % 4 == 0) x[m] = NAN;
        if (kind == RANK_LAST) x[m] = (float)(m % n);
        if (kind == RANK_BORDERS) x[m] = border(m % n);
    }
    tensor_set(s, &op.a, x);
    if (run_both(s, &op, 1, &(gk_step){.n_tok = rows})) {
        compare_i32(s, &op.dst, k ? rows : 1);
        if (k) {
            int32_t *ids = tensor_get_i32(s, SIDE_TESTED, &op.dst);
            float *values = tensor_get(s, SIDE_TESTED, &op.c);
            for (uint32_t r = 0; r < rows && case_going(s); r++) {
                for (uint32_t m = 0; m < k; m++) {
                    float wanted = x[(size_t)r * n + (size_t)ids[r * k + m]];
                    if (values[r * k + m] != wanted && !isnan(wanted)) case_fail(s, "row %u: value %u is not that of its index", r, m);
                }
            }
            tensor_check_sentinels(s, &op.c);
            free(ids);
            free(values);
        }
    }
    free(x);
    case_end(s);
}

void test_small_ops(suite *s) {
    static const uint32_t rows_of[] = {1, 2, 3, 7, 8, 9, 33, 64, 129};
    for (int n = 0; n < 9; n++) {
        uint32_t rows = rows_of[n];
        embed(s, GK_F32, 96, rows);
        embed(s, GK_F16, 96, rows);
        embed(s, GK_BF16, 96, rows);
        embed(s, GK_Q8_0, 96, rows);
        embed(s, GK_Q4_0, 96, rows);
        embed(s, GK_Q4_K, 512, rows);
        embed(s, GK_Q6_K, 512, rows);
        rmsnorm(s, 96, 96, rows, 1, 1e-5f, n % 2);
        rmsnorm(s, 4 * 80, 80, rows, 1, 1e-6f, !(n % 2));
        for (uint16_t code = GK_OP_SWIGLU; code <= GK_OP_SOFTMAX; code++) {
            elementwise(s, code, 65, rows, NEW_TENSOR, false, 1);
            elementwise(s, code, 128, rows, ALIAS_A, false, 5);
            if (code == GK_OP_SWIGLU || code == GK_OP_ADD || code == GK_OP_MUL) elementwise(s, code, 96, rows, ALIAS_B, false, 1);
            if (code == GK_OP_ADD || code == GK_OP_MUL) elementwise(s, code, 33, rows, n % 2 ? ALIAS_A : NEW_TENSOR, true, 1);
        }
        copy(s, GK_F32, GK_F16, 50, rows);
        copy(s, GK_F16, GK_F32, 50, rows);
    }
    embed(s, GK_F16, 97, 5);
    embed(s, GK_BF16, 97, 5);
    embed(s, GK_Q8_0, 4096, 5);
    copy(s, GK_F32, GK_F32, 129, 5);
    copy(s, GK_F16, GK_F16, 129, 5);
    rmsnorm(s, 4096, 4096, 2, 1, 1e-5f, 0);
    rmsnorm(s, 1, 1, 2, 1, 1e-5f, 0);
    rmsnorm(s, 7, 7, 2, 1, 1e-5f, 1);
    rmsnorm(s, 128, 128, 3, 1e-3, 1e-5f, 0); /* eps is as large as the values */
    rmsnorm(s, 128, 128, 3, 1e-12, 1e-5f, 0);
    rmsnorm(s, 128, 128, 3, 1e6, 1e-5f, 0);
    rmsnorm(s, 128, 128, 3, 0, 1e-6f, 0);
    for (uint16_t code = GK_OP_SWIGLU; code <= GK_OP_SOFTMAX; code++) {
        elementwise(s, code, 1, 1, NEW_TENSOR, false, 1);
        elementwise(s, code, 3000, 2, NEW_TENSOR, false, 1);
        elementwise(s, code, 129, 2, NEW_TENSOR, false, 200); /* exp overflows in float32 */
        elementwise(s, code, 129, 2, NEW_TENSOR, false, 0);
    }
    for (int kind = RANK_GAUSS; kind < RANK_KINDS; kind++) {
        static const uint32_t n_of[] = {1, 31, 256, 257, 5000};
        for (int n = 0; n < 5; n++) {
            rank(s, n_of[n], 1 + (uint32_t)n, 0, (rank_kind)kind);
            rank(s, n_of[n], 1 + (uint32_t)n, 1, (rank_kind)kind);
            if (n_of[n] >= 31) rank(s, n_of[n], 2, 31, (rank_kind)kind);
            if (n_of[n] >= 256) rank(s, n_of[n], 2, 256, (rank_kind)kind);
        }
        /* Vocabularies, which GPUs divide. */
        static const uint32_t wide[] = {4096, 4097, 32000, 152064};
        for (int n = 0; n < 4; n++) {
            static const uint32_t k_of[] = {0, 3, 40, 256};
            for (int m = 0; m < 4; m++) rank(s, wide[n], n < 2 ? 2 : 1, k_of[m], (rank_kind)kind);
        }
    }
}
