/* gk_backend_ref: every op in float64, in the order that gk.h states, without optimisation. The other backends are
 * compared with it. Keep it simple enough to verify by reading. */
#include <math.h>
#include <stdlib.h>

#include "host.h"

typedef struct run_context {
    const gk_op *op;
    gk_step *step;
    uint32_t rows; /* rows that this op computes in this run */
    double *scratch; /* as much as any op of the plan needs */
} run_context;

/* ---- elements ---- */

static const unsigned char *row_at(const gk_tensor *t, uint64_t row) {
    uint64_t row_bytes = gk_is_block_type(t->type) ? gk_row_bytes(t->type, t->ne[0]) : gk_stride(t) * gk_type_block_bytes(t->type);
    return gk_host_pointer(t) + row * row_bytes;
}

static double load(const gk_tensor *t, uint64_t row, uint64_t column) {
    if (t->type == GK_F32) { /* the most common type */
        float value;
        memcpy(&value, gk_host_pointer(t) + 4 * (row * gk_stride(t) + column), sizeof value);
        return (double)value;
    }
    return gk_row_value(t->type, row_at(t, row), column);
}

static void store(const gk_tensor *t, uint64_t row, uint64_t column, double value) {
    unsigned char *base = gk_host_pointer(t);
    uint64_t index = row * gk_stride(t) + column;
    float single = (float)value;
    if (t->type == GK_F16) {
        uint16_t half = gk_f16_of_f32(single);
        memcpy(base + 2 * index, &half, sizeof half);
    } else {
        memcpy(base + 4 * index, &single, sizeof single);
    }
}

static int32_t load_i32(const gk_tensor *t, uint64_t index) {
    int32_t value;
    memcpy(&value, gk_host_pointer(t) + 4 * index, sizeof value);
    return value;
}

static void store_i32(const gk_tensor *t, uint64_t index, int32_t value) {
    memcpy(gk_host_pointer(t) + 4 * index, &value, sizeof value);
}

/* ---- ops ---- */

static void run_embed(const run_context *run) {
    const gk_op *op = run->op;
    for (uint32_t t = 0; t < run->rows; t++) {
        int32_t id = load_i32(&op->b, t);
        bool known = id >= 0 && (uint32_t)id < op->a.ne[1];
        for (uint32_t k = 0; k < op->a.ne[0]; k++) store(&op->dst, t, k, known ? load(&op->a, (uint32_t)id, k) : 0.0);
    }
}

static void run_rmsnorm(const run_context *run) {
    const gk_op *op = run->op;
    uint32_t group = op->b.ne[0];
    for (uint32_t t = 0; t < run->rows; t++) {
        for (uint32_t start = 0; start < op->a.ne[0]; start += group) {
            double sum = 0;
            for (uint32_t k = 0; k < group; k++) sum += load(&op->a, t, start + k) * load(&op->a, t, start + k);
            double root = sqrt(sum / group + (double)op->f[0]);
            for (uint32_t k = 0; k < group; k++) {
                store(&op->dst, t, start + k, load(&op->a, t, start + k) / root * load(&op->b, 0, k));
            }
        }
    }
}

static double silu(double x) { return x / (1.0 + exp(-x)); }

/* Root of the mean of squares of row t of b. */
static double root_of(const gk_op *op, uint32_t t) {
    double sum = 0;
    for (uint32_t k = 0; k < op->b.ne[0]; k++) sum += load(&op->b, t, k) * load(&op->b, t, k);
    return sqrt(sum / op->b.ne[0] + (double)op->f[0]);
}

/* Row t of b, normalised if the product includes a norm. */
static void load_input(const gk_op *op, uint32_t t, double *x) {
    const gk_tensor *norm = gk_norm_of(op);
    double root = norm ? root_of(op, t) : 1;
    for (uint32_t k = 0; k < op->b.ne[0]; k++) {
        x[k] = load(&op->b, t, k);
        if (norm) x[k] = x[k] / root * load(norm, 0, k);
    }
}

enum { ABREAST = 4 };

/* Products of a weight with up to four inputs. An addition takes several cycles, so four sums take as long as one. */
static void dot(const double *weight, const double *const inputs[ABREAST], uint32_t size, double sums[ABREAST]) {
    const double *a = inputs[0], *b = inputs[1], *c = inputs[2], *d = inputs[3];
    double sum_a = 0, sum_b = 0, sum_c = 0, sum_d = 0;
    for (uint32_t k = 0; k < size; k++) {
        sum_a += weight[k] * a[k];
        sum_b += weight[k] * b[k];
        sum_c += weight[k] * c[k];
        sum_d += weight[k] * d[k];
    }
    sums[0] = sum_a, sums[1] = sum_b, sums[2] = sum_c, sums[3] = sum_d;
}

/* Scratch: the inputs, and a row of each weight. Decoding a weight takes longer than a product with it. */
static bool matmul_scratch(const gk_op *op, uint64_t *count) { return gk_mul_u64((uint64_t)gk_op_rows(op) + 2, op->b.ne[0], count); }

/* MATMUL and its fused forms. */
static void run_matmul(const run_context *run) {
    const gk_op *op = run->op;
    uint32_t size = op->b.ne[0], first = op->flags & GK_LAST_ROW ? run->rows - 1 : 0, count = run->rows - first;
    double *weights = run->scratch, *up = weights + size, *inputs = up + size;
    for (uint32_t t = 0; t < count; t++) load_input(op, first + t, inputs + (uint64_t)t * size);
    for (uint32_t r = 0; r < op->a.ne[1]; r++) {
        for (uint32_t k = 0; k < size; k++) {
            weights[k] = load(&op->a, r, k);
            if (op->code == GK_OP_GATE_UP) up[k] = load(&op->d, r, k);
        }
        for (uint32_t first_t = 0; first_t < count; first_t += ABREAST) {
            const double *x[ABREAST]; /* the last input repeated, if there are fewer */
            double sums[ABREAST], ups[ABREAST];
            for (uint32_t n = 0; n < ABREAST; n++) x[n] = inputs + (uint64_t)(first_t + n < count ? first_t + n : count - 1) * size;
            dot(weights, x, size, sums);
            if (op->code == GK_OP_GATE_UP) dot(up, x, size, ups);
            for (uint32_t n = 0; n < ABREAST && first_t + n < count; n++) {
                const uint32_t t = first_t + n;
                double sum = op->code == GK_OP_GATE_UP ? silu(sums[n]) * ups[n] : sums[n];
                if (op->flags & GK_BIAS) sum += load(&op->c, 0, r);
                if (op->flags & GK_ACCUMULATE) sum += load(&op->dst, t, r);
                store(&op->dst, t, r, sum);
            }
        }
    }
}

/* Rotates row t of a into a row of dst. */
static void rotate_row(const run_context *run, const gk_tensor *table, uint32_t t, uint32_t out) {
    const gk_op *op = run->op;
    uint32_t d_head = (uint32_t)op->i[1], n_rot = (uint32_t)op->i[2];
    for (uint32_t head = 0; head < op->a.ne[0]; head += d_head) {
        for (uint32_t pair = 0; pair < n_rot / 2; pair++) {
            uint32_t first = head + ((op->flags & GK_NEOX) ? pair : 2 * pair);
            uint32_t second = head + ((op->flags & GK_NEOX) ? pair + n_rot / 2 : 2 * pair + 1);
            double x = load(&op->a, t, first), y = load(&op->a, t, second);
            double c = load(table, run->step->pos + t, 2 * pair);
            double s = load(table, run->step->pos + t, 2 * pair + 1);
            store(&op->dst, out, first, x * c - y * s);
            store(&op->dst, out, second, x * s + y * c);
        }
        for (uint32_t k = n_rot; k < d_head; k++) store(&op->dst, out, head + k, load(&op->a, t, head + k));
    }
}

static void run_rope(const run_context *run) {
    for (uint32_t t = 0; t < run->rows; t++) rotate_row(run, &run->op->b, t, t);
}

static void run_kv_write(const run_context *run) {
    const gk_op *op = run->op;
    for (uint32_t t = 0; t < run->rows; t++) {
        for (uint32_t k = 0; k < op->a.ne[0]; k++) {
            if (op->code == GK_OP_KV_WRITE) store(&op->dst, run->step->pos + t, k, load(&op->a, t, k));
            store(&op->c, run->step->pos + t, k, load(&op->b, t, k));
        }
        if (op->code == GK_OP_ROPE_KV) rotate_row(run, &op->d, t, run->step->pos + t);
    }
}

/* One head of one row: softmax over positions 0 .. last, then the weighted sum of the values. */
static void attend(const run_context *run, uint32_t t, uint32_t query, uint32_t key, uint32_t last) {
    const gk_op *op = run->op;
    uint32_t d_head = (uint32_t)op->i[2];
    double *scores = run->scratch, largest = -INFINITY, sum = 0;
    for (uint32_t p = 0; p <= last; p++) {
        double score = 0;
        for (uint32_t k = 0; k < d_head; k++) score += load(&op->a, t, query + k) * load(&op->b, p, key + k);
        scores[p] = score * (double)op->f[0];
        if (scores[p] > largest) largest = scores[p];
    }
    for (uint32_t p = 0; p <= last; p++) {
        scores[p] = exp(scores[p] - largest);
        sum += scores[p];
    }
    for (uint32_t k = 0; k < d_head; k++) {
        double value = 0;
        for (uint32_t p = 0; p <= last; p++) value += scores[p] * load(&op->c, p, key + k);
        store(&op->dst, t, query + k, value / sum);
    }
}

static void run_attention(const run_context *run) {
    const gk_op *op = run->op;
    uint32_t heads = (uint32_t)op->i[0], d_head = (uint32_t)op->i[2];
    uint32_t heads_per_key = heads / (uint32_t)op->i[1];
    for (uint32_t t = 0; t < run->rows; t++) {
        for (uint32_t h = 0; h < heads; h++) attend(run, t, h * d_head, h / heads_per_key * d_head, run->step->pos + t);
    }
}

/* Element k of row t of an op whose elements depend on nothing else. One row of b may serve all. */
static double element(const gk_op *op, uint32_t t, uint32_t k) {
    double a = load(&op->a, t, k);
    uint32_t b_row = op->b.ne[1] == 1 ? 0 : t;
    switch (op->code) {
    case GK_OP_COPY: return a;
    case GK_OP_SILU: return silu(a);
    case GK_OP_SWIGLU: return silu(a) * load(&op->b, t, k);
    case GK_OP_ADD: return a + load(&op->b, b_row, k);
    case GK_OP_MUL: return a * load(&op->b, b_row, k);
    default: return NAN;
    }
}

static void run_elementwise(const run_context *run) {
    const gk_op *op = run->op;
    for (uint32_t t = 0; t < run->rows; t++) {
        for (uint32_t k = 0; k < op->a.ne[0]; k++) store(&op->dst, t, k, element(op, t, k));
    }
}

static void run_softmax(const run_context *run) {
    const gk_op *op = run->op;
    uint32_t n = op->a.ne[0];
    for (uint32_t t = 0; t < run->rows; t++) {
        double largest = -INFINITY, sum = 0;
        for (uint32_t k = 0; k < n; k++) largest = fmax(largest, (double)op->f[0] * load(&op->a, t, k));
        for (uint32_t k = 0; k < n; k++) sum += exp((double)op->f[0] * load(&op->a, t, k) - largest);
        for (uint32_t k = 0; k < n; k++) store(&op->dst, t, k, exp((double)op->f[0] * load(&op->a, t, k) - largest) / sum);
    }
}

/* Is element x of a row ranked before element y, where y has the lower index? NaN ranks last. */
static bool beats(double x, double y) { return x > y || (isnan(y) && !isnan(x)); }

static void run_argmax(const run_context *run) {
    const gk_op *op = run->op;
    for (uint32_t t = 0; t < run->rows; t++) {
        uint32_t best = 0;
        for (uint32_t k = 1; k < op->a.ne[0]; k++) {
            if (beats(load(&op->a, t, k), load(&op->a, t, best))) best = k;
        }
        store_i32(&op->dst, t, (int32_t)best);
    }
}

/* Insertion into a sorted list of at most k elements. */
static void run_topk(const run_context *run) {
    const gk_op *op = run->op;
    uint32_t k = (uint32_t)op->i[0];
    for (uint32_t t = 0; t < run->rows; t++) {
        uint32_t list[GK_MAX_TOPK], length = 0;
        for (uint32_t n = 0; n < op->a.ne[0]; n++) {
            uint32_t place = length;
            while (place > 0 && beats(load(&op->a, t, n), load(&op->a, t, list[place - 1]))) place--;
            if (place == k) continue;
            if (length < k) length++;
            for (uint32_t m = length - 1; m > place; m--) list[m] = list[m - 1];
            list[place] = n;
        }
        for (uint32_t n = 0; n < k; n++) {
            store_i32(&op->dst, t * gk_stride(&op->dst) + n, (int32_t)list[n]);
            store(&op->c, t, n, load(&op->a, t, list[n]));
        }
    }
}

static void run_step(const run_context *run) {
    const gk_op *op = run->op;
    int32_t id = load_i32(&op->a, 0);
    store_i32(&op->b, 0, id);
    if (op->dst.buffer && run->step->run < op->dst.ne[0]) store_i32(&op->dst, run->step->run, id);
    run->step->pos += run->step->n_tok;
    run->step->run += 1;
}

static void run_op(const run_context *run) {
    switch (gk_code(run->op)) {
    case GK_OP_EMBED: run_embed(run); break;
    case GK_OP_RMSNORM: run_rmsnorm(run); break;
    case GK_OP_MATMUL:
    case GK_OP_GATE_UP:
    case GK_OP_NORM_MATMUL: run_matmul(run); break;
    case GK_OP_ROPE: run_rope(run); break;
    case GK_OP_KV_WRITE:
    case GK_OP_ROPE_KV: run_kv_write(run); break;
    case GK_OP_ATTENTION: run_attention(run); break;
    case GK_OP_SOFTMAX: run_softmax(run); break;
    case GK_OP_ARGMAX: run_argmax(run); break;
    case GK_OP_TOPK: run_topk(run); break;
    case GK_OP_STEP: run_step(run); break;
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL:
    case GK_OP_COPY: run_elementwise(run); break;
    }
}

/* ---- the backend ---- */

static uint64_t ref_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1) {
    uint64_t bytes;
    return gk_mul_u64(gk_row_bytes(type, ne0), ne1, &bytes) ? gk_align_u64(bytes, 64) : 0;
}

static void ref_weight_put(void *state, unsigned char *weight, const gk_tensor *dst, const void *rows, uint64_t first,
                           uint64_t count) {
    (void)state;
    uint64_t row = gk_row_bytes(dst->type, dst->ne[0]);
    memcpy(weight + first * row, rows, (size_t)(count * row));
}

/* Scores of all positions, or what the largest product needs. */
static void *ref_prepare(void *state, const gk_op *ops, uint32_t count, const gk_plan_limits *limits) {
    (void)state;
    uint64_t most = limits->n_ctx == UINT32_MAX ? 1 : limits->n_ctx;
    for (uint32_t n = 0; n < count; n++) {
        uint64_t needed;
        if (ops[n].code != GK_OP_MATMUL && ops[n].code != GK_OP_GATE_UP && ops[n].code != GK_OP_NORM_MATMUL) continue;
        if (!matmul_scratch(&ops[n], &needed) || needed > SIZE_MAX / sizeof(double)) return NULL;
        most = needed > most ? needed : most;
    }
    return calloc((size_t)most, sizeof(double));
}

static void ref_run(void *state, void *prepared, const gk_op *ops, uint32_t count, gk_step *step) {
    (void)state;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t rows = gk_op_rows(&ops[n]);
        run_context run = {&ops[n], step, rows < step->n_tok ? rows : step->n_tok, prepared};
        run_op(&run);
    }
}

static gk_status ref_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    if (count == NULL || capacity < 0 || (out == NULL && capacity > 0)) {
        gk_text(why, why_capacity, "enumerate: an output argument is NULL");
        return GK_BAD_ARGUMENT;
    }
    *count = 1;
    if (capacity == 0) return GK_OK;
    memset(out, 0, sizeof *out);
    gk_text(out->name, sizeof out->name, "float64 reference");
    gk_text(out->arch, sizeof out->arch, "c");
    out->kind = GK_KIND_CPU;
    gk_host_memory_of_machine(&out->memory_free, &out->memory_total);
    out->max_buffer = out->memory_total;
    return GK_OK;
}

static const gk_host_kernels REF_KERNELS = {
    .weight_bytes = ref_weight_bytes,
    .weight_put = ref_weight_put,
    .prepare = ref_prepare,
    .discard = free,
    .run = ref_run,
};

static gk_status ref_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    (void)options;
    if (out) *out = NULL;
    if (out == NULL || index != 0) {
        gk_text(why, why_capacity, "open: the reference has one device, 0");
        return GK_BAD_ARGUMENT;
    }
    return gk_host_open(&REF_KERNELS, NULL, out, why, why_capacity);
}

const gk_backend *gk_backend_ref(void) {
    static const gk_backend backend = {
        .abi = GK_ABI,
        .id = "ref",
        .enumerate = ref_enumerate,
        .open = ref_open,
        GK_HOST_ENTRIES,
    };
    return &backend;
}
