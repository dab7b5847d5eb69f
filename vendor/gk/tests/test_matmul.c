/* MATMUL and its fused forms against the reference: every type, odd shapes, flags, extreme values. */
#include <math.h>

#include "gk_test.h"

static double exact_bound(const suite *s, const matmul_case *c) {
    if (gk_is_block_type(c->type)) return s->exact ? 1e-7 : 1e-6;
    return c->type == GK_F32 ? 1e-7 : 1e-6;
}

/* Were the activations rounded to int8 or bf16? The cpu backend always rounds for block types, and for bf16 from four
 * rows on if the processor has its dot products. The vulkan, cuda and rocm backends may round for block types, and cuda
 * and rocm for bf16 from nine rows on, if the device can use it, which the result shows. Other backends must not round.
 * (cuda and rocm also round to f16 from nine rows on, which the bound of exact results allows.) */
static bool rounds_activations(suite *s, const matmul_case *c, const mirror *dst, uint32_t rows) {
    const bool blocks = gk_is_block_type(c->type), cpu = strcmp(s->sides[SIDE_TESTED].backend->id, "cpu") == 0;
    const bool vulkan = strcmp(s->sides[SIDE_TESTED].backend->id, "vulkan") == 0;
    const bool gpu = may_round_on_gpu(s);
    if (s->exact || s->same_as || !case_going(s)) return false;
    if (cpu && blocks) return true;
    const bool bf16 = c->type == GK_BF16 && ((cpu && rows >= 4) || (gpu && c->rows >= 9));
    if (!((vulkan || gpu) && blocks) && !bf16) return false;
    float *got = tensor_get(s, SIDE_TESTED, dst), *wanted = tensor_get(s, SIDE_REF, dst);
    const bool rounds = nmse_of(got, wanted, (size_t)c->n * rows) > exact_bound(s, c);
    free(got);
    free(wanted);
    return rounds;
}

/* Error bounds: the arithmetic of the weight type, and of activations that may be rounded to int8 or bf16. */
static double bound_of(const suite *s, const matmul_case *c, bool rounds) {
    if (rounds) {
        /* The expected error is 3e-5 (bf16: 3e-6), but a mean over few outputs, or over few blocks of activations,
         * whose sums all outputs share, can be far from it; and single outputs may cancel out, for which only the
         * second comparison is meaningful. */
        const uint32_t rows = c->flags & GK_LAST_ROW ? 1 : c->n_tok ? c->n_tok : c->rows;
        if (c->n * rows < 16 || (c->normed && c->k / 32 * rows < 64)) return 1;
        const double products = c->code == GK_OP_GATE_UP ? 3 : 1; /* both have errors, and silu is steeper than 1 in places */
        const double int8 = c->n * rows < 64 || c->k / 32 * rows < 64 ? 1e-3 : 2e-4;
        return products * (gk_is_block_type(c->type) ? int8 : int8 / 10);
    }
    return exact_bound(s, c);
}

/* Moves values away from the middle between two int8 steps: devices may divide differently in the last bit. */
static void keep_from_ties(float *block) {
    float largest = 0;
    for (int n = 0; n < 32; n++) largest = fmaxf(largest, fabsf(block[n]));
    for (int n = 0; n < 32 && largest > 0; n++) {
        const float steps = block[n] * (127.0f / largest), rest = steps - floorf(steps);
        if (fabsf(rest - 0.5f) < 1e-3f) block[n] = (floorf(steps) + 0.25f) * (largest / 127.0f);
    }
}

static float *activations(suite *s, const matmul_case *c) {
    size_t count = (size_t)c->k * c->rows;
    float *x = gauss_values(s, count, c->scale);
    if (c->one_hot) {
        memset(x, 0, count * sizeof *x);
        for (uint32_t t = 0; t < c->rows; t++) x[(size_t)t * c->k + t % c->k] = 1.0f;
    }
    /* A few sums may almost cancel out, which makes a relative error meaningless. */
    if (c->kind == WEIGHT_POSITIVE) {
        for (size_t n = 0; n < count; n++) x[n] = fabsf(x[n]);
    }
    for (size_t n = 0; gk_is_block_type(c->type) && n < count; n += 32) keep_from_ties(x + n);
    return x;
}

/* Normalises rows as RMSNORM does, in float32: rounded values must be equal to the last bit, or nearly. */
static void norm_rows(float *x, const float *norm, uint32_t k, uint32_t rows, float eps) {
    for (uint32_t t = 0; t < rows; t++, x += k) {
        double sum = 0;
        for (uint32_t n = 0; n < k; n++) sum += (double)x[n] * (double)x[n];
        for (uint32_t n = 0; n < k; n++) x[n] = (float)((double)x[n] / sqrt(sum / k + (double)eps) * (double)norm[n]);
    }
}

/* The same for a row that is normalised first, by changing the norm's weights, so for one row only. */
static void keep_norm_from_ties(const float *row, float *norm, uint32_t k, float eps) {
    float *normed = must_alloc(k * sizeof *normed), *moved = must_alloc(k * sizeof *moved);
    memcpy(normed, row, k * sizeof *normed);
    norm_rows(normed, norm, k, 1, eps);
    memcpy(moved, normed, k * sizeof *moved);
    for (uint32_t n = 0; n < k; n += 32) keep_from_ties(moved + n);
    for (uint32_t n = 0; n < k; n++) {
        if (normed[n] != 0) norm[n] *= moved[n] / normed[n];
    }
    free(normed);
    free(moved);
}

/* Rounds activations to int8 in blocks of 32 with an f32 scale. */
static void round_as_int8(float *x, size_t count) {
    for (size_t start = 0; start < count; start += 32) {
        float largest = 0;
        for (size_t n = start; n < start + 32; n++) largest = fmaxf(largest, fabsf(x[n]));
        float scale = largest / 127.0f, inverse = largest > 0 ? 127.0f / largest : 0;
        for (size_t n = start; n < start + 32; n++) x[n] = scale * nearbyintf(x[n] * inverse);
    }
}

/* Rounds to the nearest bf16, ties to even. There are no denormals here, which would become zero. */
static void round_as_bf16(float *x, size_t count) {
    for (size_t n = 0; n < count; n++) {
        const uint32_t bits = gk_bits_of_float(x[n]);
        x[n] = gk_float_of_bits((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
    }
}

static void run_case(suite *s, const matmul_case *c) {
    const uint16_t code = c->code ? c->code : GK_OP_MATMUL;
    bool last = (c->flags & GK_LAST_ROW) != 0, normed = c->normed || code == GK_OP_NORM_MATMUL;
    uint32_t n_tok = c->n_tok ? c->n_tok : c->rows;
    case_begin(s, gk_op_name(code), gk_type_name(c->type), "k=%u,n=%u,t=%u%s%s%s%s%s%s%s", c->k, c->n, c->rows, c->normed ? ",norm" : "",
               n_tok < c->rows ? ",partial" : "", c->flags & GK_BIAS ? ",bias" : "", c->flags & GK_ACCUMULATE ? ",accumulate" : "",
               last ? ",last" : "", c->padded > 1 ? ",odd-stride" : c->padded ? ",stride" : "",
               c->one_hot ? ",one-hot" : c->scale == 0 ? ",zeros" : (const char *[]){"", ",positive", ",zero-weights", ",large", ",tiny", ",negative"}[c->kind]);
    void *rows = weight_rows(s, c->type, c->k, c->n, c->kind);
    float *x = activations(s, c);
    mirror_op op = {.op = {.code = code, .flags = c->flags, .f = {normed ? 1e-2f : 0}}};
    op.a = weight_new(s, c->type, c->k, c->n, rows);
    if (case_going(s)) {
        op.b = tensor_new(s, GK_F32, c->k, c->rows, c->padded ? c->k + (c->padded > 1 ? 3 : 64) : 0);
        op.dst = tensor_new(s, GK_F32, c->n, last && c->padded ? 1 : c->rows, c->padded ? c->n + 17 : 0);
        tensor_set(s, &op.b, x);
    }
    float *norm = NULL;
    if (case_going(s) && code == GK_OP_GATE_UP) {
        void *up = weight_rows(s, c->type, c->k, c->n, c->kind);
        op.d = weight_new(s, c->type, c->k, c->n, up);
        free(up);
    }
    if (case_going(s) && normed) {
        norm = gauss_values(s, c->k, 0.2);
        for (uint32_t n = 0; n < c->k; n++) norm[n] += 1;
        if (gk_is_block_type(c->type)) keep_norm_from_ties(x + (size_t)(n_tok - 1) * c->k, norm, c->k, op.op.f[0]);
        mirror *operand = code == GK_OP_NORM_MATMUL ? &op.d : &op.c;
        *operand = tensor_new(s, GK_F32, c->k, 1, 0);
        tensor_set(s, operand, norm);
    }
    if (case_going(s) && (c->flags & GK_BIAS)) {
        op.c = tensor_new(s, GK_F32, c->n, 1, 0);
        float *bias = gauss_values(s, c->n, 2);
        tensor_set(s, &op.c, bias);
        free(bias);
    }
    float *before = NULL;
    if (case_going(s) && (c->flags & GK_ACCUMULATE)) {
        before = gauss_values(s, (size_t)c->n * op.dst.on[0].ne[1], 3);
        tensor_set(s, &op.dst, before);
    }
    const gk_step step = {.n_tok = n_tok, .pos = 5};
    if (run_both(s, &op, 1, &step)) {
        uint32_t compared = last ? 1 : n_tok;
        const bool rounds = rounds_activations(s, c, &op.dst, compared);
        compare_tensor(s, &op.dst, compared, bound_of(s, c, rounds));
        /* The second comparison: with the same rounding of the activations, almost no error may remain. */
        if (case_going(s) && rounds) {
            float *got = tensor_get(s, SIDE_TESTED, &op.dst);
            side *ref = &s->sides[SIDE_REF];
            if (norm) { /* the rounded values are normalised, so the product has no norm */
                norm_rows(x, norm, c->k, c->rows, op.op.f[0]);
                if (code == GK_OP_NORM_MATMUL) {
                    op.op.code = GK_OP_MATMUL;
                    op.d = tensor_none();
                } else {
                    op.c = tensor_none();
                }
            }
            (gk_is_block_type(c->type) ? round_as_int8 : round_as_bf16)(x, (size_t)c->k * c->rows);
            tensor_set(s, &op.b, x);
            if (before) tensor_set(s, &op.dst, before);
            gk_op again = op_on(&op, SIDE_REF);
            gk_plan *plan = NULL;
            expect_status(s, SIDE_REF, ref->backend->plan_build(ref->device, &again, 1, &plan), GK_OK, "plan_build");
            if (case_going(s)) expect_status(s, SIDE_REF, ref->backend->plan_run(ref->device, plan, &step, 1), GK_OK, "plan_run");
            ref->backend->plan_free(ref->device, plan);
            float *wanted = tensor_get(s, SIDE_REF, &op.dst);
            if (case_going(s)) {
                double tier_a = s->now.nmse;
                /* Of rows that are normalised first, only the last has no values near the middle of two steps. */
                if (norm) compare_values(s, got, wanted, (size_t)c->n * compared, 1e-5);
                const size_t from = norm ? (size_t)c->n * (compared - 1) : 0;
                if (case_going(s)) compare_values(s, got + from, wanted + from, (size_t)c->n * compared - from, 1e-9);
                if (case_going(s)) s->now.nmse = tier_a;
            }
            free(got);
            free(wanted);
        }
    }
    free(norm);
    free(before);
    free(x);
    free(rows);
}

void matmul(suite *s, matmul_case c) {
    const uint32_t elements = gk_type_block_elements(c.type);
    c.k = (c.k + elements - 1) / elements * elements;
    run_case(s, &c);
    case_end(s);
}

void test_matmul(suite *s) {
    static const uint32_t types[] = {GK_F32, GK_F16, GK_BF16, GK_Q8_0, GK_Q4_0, GK_Q4_K, GK_Q6_K};
    static const uint32_t all_rows[] = {1, 2, 3, 7, 8, 9, 33, 64, 129};
    static const uint32_t all_n[] = {2, 8, 15, 16, 17, 33, 100, 257};
    for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
        uint32_t type = types[n];
        matmul_case base = {.type = type, .k = 96, .n = 49, .rows = 3, .kind = WEIGHT_GAUSS, .scale = 1};
        for (size_t m = 0; m < sizeof all_rows / sizeof *all_rows; m++) {
            matmul_case c = base;
            c.rows = all_rows[m];
            matmul(s, c);
            c.k = 320, c.n = 64;
            matmul(s, c);
        }
        for (size_t m = 0; m < sizeof all_n / sizeof *all_n; m++) {
            matmul_case c = base;
            c.n = all_n[m];
            for (c.rows = 1; c.rows <= 9; c.rows += 4) matmul(s, c);
        }
        matmul_case c = base;
        c.kind = WEIGHT_POSITIVE;
        for (c.n = 1; c.n <= 3; c.n += 2) {
            for (c.rows = 1; c.rows <= 2; c.rows++) {
                for (c.k = 32; c.k <= 64; c.k += 32) matmul(s, c);
            }
        }
        if (!gk_is_block_type(type)) { /* rows that no block or vector size divides */
            for (uint32_t k = 1; k <= 67; k += k < 9 ? 2 : 29) {
                c = base;
                c.kind = WEIGHT_POSITIVE;
                c.k = k;
                matmul(s, c);
                c.rows = 1;
                matmul(s, c);
                c.rows = 9;
                matmul(s, c);
            }
        }
        c = base, c.k = 4096, c.n = 200, c.rows = 1, matmul(s, c);
        c = base, c.k = 2048, c.n = 300, c.rows = 9, matmul(s, c);
        c = base, c.k = 64, c.n = 2000, c.rows = 2, matmul(s, c);
        for (uint16_t flags = 1; flags < 16; flags++) {
            if (flags & ~(GK_ACCUMULATE | GK_BIAS | GK_LAST_ROW)) continue;
            c = base, c.flags = flags, matmul(s, c);
            c.rows = 1, matmul(s, c);
            c.rows = 9, c.n_tok = 4, matmul(s, c);
            c.padded = 1, c.n = 18, matmul(s, c);
        }
        c = base, c.padded = 1, c.rows = 33, matmul(s, c);
        c = (matmul_case){.type = type, .k = 64, .n = 4096, .rows = 65, .kind = WEIGHT_GAUSS, .scale = 1}, matmul(s, c); /* kernels for large products */
        c.n = 4100, c.k = 96, c.rows = 129, c.n_tok = 100, c.flags = GK_ACCUMULATE | GK_BIAS, matmul(s, c);
        for (double scale = 1e-20; scale < 1e21; scale *= 1e20) { /* beyond the range of f16 */
            c = base, c.rows = 17, c.scale = scale, matmul(s, c);
            c.kind = WEIGHT_TINY, matmul(s, c);
        }
        for (uint32_t rows = 1; rows <= 33; rows += 8) c = base, c.padded = 2, c.k = 256, c.rows = rows, matmul(s, c);
        c.n_tok = 1, matmul(s, c);
        c = base, c.one_hot = true, c.rows = 96, matmul(s, c);
        c.rows = 1, c.k = 32, matmul(s, c);
        c = base, c.scale = 0, matmul(s, c);
        c.rows = 1, matmul(s, c);
        for (int kind = WEIGHT_ZERO; kind <= WEIGHT_NEGATIVE; kind++) {
            c = base, c.kind = (weight_kind)kind, matmul(s, c);
            c.rows = 1, matmul(s, c);
            /* With more than eight rows, cuda and rocm use f16, in which such blocks are infinite. */
            c.scale = 1e4, c.rows = may_round_on_gpu(s) ? 8 : 9, matmul(s, c);
            c.scale = 1e-20, c.rows = 2, matmul(s, c);
        }
    }
}
