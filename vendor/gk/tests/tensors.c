/* Tensors on both devices, between sentinel bytes; random data; comparison. */
#include <math.h>

#include "gk_test.h"

#define SENTINEL 0xa5
#define GUARD 256u /* minimum number of bytes before and after every plain tensor */

mirror tensor_none(void) {
    mirror none;
    memset(&none, 0, sizeof none);
    return none;
}

static bool claim(suite *s, int which, int arena, uint64_t bytes, gk_tensor *t, uint32_t type, uint32_t ne0, uint32_t ne1,
                  uint32_t stride) {
    side *d = &s->sides[which];
    uint64_t offset = d->used[arena] + GUARD;
    *t = (gk_tensor){.buffer = d->arena[arena], .offset = offset, .type = type, .row_stride = stride, .ne = {ne0, ne1, 1, 1}};
    d->used[arena] = gk_align_u64(offset + bytes, 64) + GUARD;
    if (d->used[arena] <= d->arena_bytes[arena]) return true;
    case_fail(s, "the case needs more memory than the test's arena has");
    return false;
}

static void write_bytes(suite *s, int which, const gk_tensor *t, uint64_t offset, const void *bytes, uint64_t count) {
    side *d = &s->sides[which];
    expect_status(s, which, d->backend->write(d->device, t->buffer, offset, bytes, count), GK_OK, "write");
}

/* The tensor and its guards before the plan runs. */
static unsigned char *fresh_bytes(const gk_tensor *t, uint64_t *count) {
    uint64_t span = gk_tensor_span(t);
    *count = gk_align_u64(span, 64) + 2 * GUARD;
    unsigned char *bytes = must_alloc((size_t)*count);
    memset(bytes, SENTINEL, (size_t)*count);
    uint32_t size = gk_type_block_bytes(t->type);
    const uint32_t nan32 = 0x7fc00000u, least = 0x80000000u;
    const uint16_t nan16 = 0x7e00u;
    for (uint32_t row = 0; row < t->ne[1]; row++) {
        for (uint32_t k = 0; k < t->ne[0]; k++) {
            const void *value = t->type == GK_F16 ? (const void *)&nan16 : t->type == GK_I32 ? (const void *)&least : &nan32;
            memcpy(bytes + GUARD + (row * gk_stride(t) + k) * size, value, size);
        }
    }
    return bytes;
}

static mirror plain_new(suite *s, int arena, uint32_t type, uint32_t ne0, uint32_t ne1, uint32_t stride) {
    mirror m = tensor_none();
    gk_tensor shape = {.type = type, .row_stride = stride, .ne = {ne0, ne1, 1, 1}};
    for (int which = 0; which < 2; which++) {
        gk_tensor *t = &m.on[which];
        if (!claim(s, which, arena, gk_tensor_span(&shape), t, type, ne0, ne1, stride)) return m;
        uint64_t count;
        unsigned char *bytes = fresh_bytes(t, &count);
        write_bytes(s, which, t, t->offset - GUARD, bytes, count);
        free(bytes);
    }
    return m;
}

mirror tensor_new(suite *s, uint32_t type, uint32_t ne0, uint32_t ne1, uint32_t stride) {
    return plain_new(s, ARENA_STATE, type, ne0, ne1, stride);
}

mirror tensor_ids(suite *s, uint32_t n) { return plain_new(s, ARENA_STAGING, GK_I32, n, 1, 0); }

static void encode(const gk_tensor *t, unsigned char *out, const float *values, size_t count) {
    for (size_t n = 0; n < count; n++) {
        uint16_t half = gk_f16_of_f32(values[n]);
        if (t->type == GK_F16) memcpy(out + 2 * n, &half, sizeof half);
        else memcpy(out + 4 * n, &values[n], sizeof values[n]);
    }
}

void tensor_set(suite *s, const mirror *m, const float *values) {
    const gk_tensor *t = &m->on[0];
    uint64_t size = gk_type_block_bytes(t->type), count = (uint64_t)t->ne[0] * t->ne[1];
    unsigned char *bytes = must_alloc((size_t)(count * size));
    encode(t, bytes, values, (size_t)count);
    for (int which = 0; which < 2; which++) {
        const gk_tensor *u = &m->on[which];
        bool dense = gk_stride(u) == u->ne[0];
        uint64_t pieces = dense ? 1 : u->ne[1], piece = (dense ? count : u->ne[0]) * size;
        for (uint64_t r = 0; r < pieces && case_going(s); r++) {
            write_bytes(s, which, u, u->offset + r * gk_stride(u) * size, bytes + r * piece, piece);
        }
    }
    free(bytes);
}

void tensor_set_i32(suite *s, const mirror *m, const int32_t *values) {
    for (int which = 0; which < 2; which++) {
        const gk_tensor *t = &m->on[which];
        write_bytes(s, which, t, t->offset, values, 4ull * t->ne[0] * t->ne[1]);
    }
}

mirror weight_new(suite *s, uint32_t type, uint32_t ne0, uint32_t ne1, const void *gguf_rows) {
    mirror m = tensor_none();
    uint64_t row = gk_row_bytes(type, ne0);
    for (int which = 0; which < 2; which++) {
        side *d = &s->sides[which];
        uint64_t bytes = d->backend->weight_bytes(d->device, type, ne0, ne1);
        if (bytes == 0) {
            case_skip(s, "%s has no weights of type %s", d->backend->id, gk_type_name(type));
            return m;
        }
        if (bytes % 64 != 0) case_fail(s, "weight_bytes is not a multiple of 64");
        if (!claim(s, which, ARENA_WEIGHT, bytes, &m.on[which], type, ne0, ne1, 0)) return m;
        /* Uneven chunks, as when streaming a file. */
        uint64_t first = 0, chunk = 1;
        while (first < ne1 && case_going(s)) {
            uint64_t count = chunk < ne1 - first ? chunk : ne1 - first;
            gk_status status = d->backend->weight_put(d->device, &m.on[which], (const char *)gguf_rows + first * row, first, count);
            expect_status(s, which, status, GK_OK, "weight_put");
            first += count;
            chunk = chunk * 3 + 4;
        }
    }
    return m;
}

mirror cache_new(suite *s, uint32_t type, uint32_t ne0, uint32_t ne1) {
    mirror m = tensor_none();
    uint64_t bytes = gk_row_bytes(type, ne0) * ne1;
    void *zeros = must_alloc((size_t)bytes);
    for (int which = 0; which < 2; which++) {
        if (!claim(s, which, ARENA_STATE, bytes, &m.on[which], type, ne0, ne1, 0)) break;
        write_bytes(s, which, &m.on[which], m.on[which].offset, zeros, bytes);
    }
    free(zeros);
    return m;
}

/* ---- reading back ---- */

static unsigned char *read_span(suite *s, int which, const gk_tensor *t) {
    side *d = &s->sides[which];
    uint64_t span = gk_tensor_span(t);
    unsigned char *bytes = must_alloc((size_t)span);
    expect_status(s, which, d->backend->read(d->device, t->buffer, t->offset, bytes, span), GK_OK, "read");
    return bytes;
}

float *tensor_get(suite *s, int which, const mirror *m) {
    const gk_tensor *t = &m->on[which];
    unsigned char *bytes = read_span(s, which, t);
    float *values = must_alloc((size_t)t->ne[0] * t->ne[1] * sizeof *values);
    for (uint32_t r = 0; r < t->ne[1]; r++) {
        for (uint32_t k = 0; k < t->ne[0]; k++) {
            float *value = &values[(size_t)r * t->ne[0] + k];
            uint16_t half;
            if (t->type == GK_F16) {
                memcpy(&half, bytes + 2 * (r * gk_stride(t) + k), sizeof half);
                *value = gk_f32_of_f16(half);
            } else {
                memcpy(value, bytes + 4 * (r * gk_stride(t) + k), sizeof *value);
            }
        }
    }
    free(bytes);
    return values;
}

int32_t *tensor_get_i32(suite *s, int which, const mirror *m) { return (int32_t *)(void *)read_span(s, which, &m->on[which]); }

void tensor_check_sentinels(suite *s, const mirror *m) {
    const gk_tensor *t = &m->on[SIDE_TESTED];
    side *d = &s->sides[SIDE_TESTED];
    uint64_t count;
    unsigned char *wanted = fresh_bytes(t, &count);
    unsigned char *got = must_alloc((size_t)count);
    expect_status(s, SIDE_TESTED, d->backend->read(d->device, t->buffer, t->offset - GUARD, got, count), GK_OK, "read");
    uint32_t size = gk_type_block_bytes(t->type);
    uint64_t stride = gk_stride(t) * size, row_bytes = (uint64_t)t->ne[0] * size;
    for (uint64_t n = 0; n < count && case_going(s); n++) {
        if (got[n] == wanted[n]) continue;
        uint64_t inside = n - GUARD; /* wraps before the tensor */
        if (n >= GUARD && inside / stride < t->ne[1] && inside % stride < row_bytes) continue;
        case_fail(s, "wrote outside its output, at byte %lld of a tensor of %llu", (long long)n - (long long)GUARD,
                  (unsigned long long)gk_tensor_span(t));
    }
    free(got);
    free(wanted);
}

/* ---- data ---- */

float *gauss_values(suite *s, size_t count, double scale) {
    float *values = must_alloc(count * sizeof *values);
    for (size_t n = 0; n < count; n++) values[n] = (float)(random_gauss(s) * scale);
    return values;
}

static double weight_value(suite *s, weight_kind kind) {
    switch (kind) {
    case WEIGHT_ZERO: return 0;
    case WEIGHT_POSITIVE: return fabs(random_gauss(s));
    case WEIGHT_LARGE: return random_gauss(s) * 5000;
    case WEIGHT_TINY: return random_gauss(s) * 1e-6; /* denormal in f16 */
    default: return random_gauss(s);
    }
}

static double q8_scale(suite *s, weight_kind kind) {
    double u = 0.5 + random_uniform(s);
    switch (kind) {
    case WEIGHT_ZERO: return 0;
    case WEIGHT_LARGE: return 40000 * u;
    case WEIGHT_TINY: return (1 + random_below(s, 1023)) / 16777216.0;
    case WEIGHT_NEGATIVE: return random_below(s, 4) == 0 ? -0.0 : -u / 64;
    default: return u / 64;
    }
}

static void put_half(unsigned char *bytes, double value) {
    uint16_t half = gk_f16_of_f32((float)value);
    memcpy(bytes, &half, sizeof half);
}

/* A block of random bits, so that every pattern occurs, with valid scales. */
static void few_bits(suite *s, uint32_t type, unsigned char *block, weight_kind kind) {
    const bool positive = kind == WEIGHT_POSITIVE;
    const uint32_t bytes = gk_type_block_bytes(type);
    for (uint32_t n = 0; n < bytes; n++) block[n] = (unsigned char)random_below(s, 256);
    if (type == GK_Q4_0) {
        put_half(block, fmin(q8_scale(s, kind) * 8, 60000));
        if (positive) for (uint32_t n = 2; n < bytes; n++) block[n] |= 0x88;
    } else if (type == GK_Q4_K) {
        put_half(block, q8_scale(s, kind) / 4);
        put_half(block + 2, positive ? 0 : q8_scale(s, kind) / 4);
    } else {
        put_half(block + 208, q8_scale(s, kind) / 8);
        if (positive) for (uint32_t n = 128; n < 192; n++) block[n] |= 0xaa;
        if (positive) for (uint32_t n = 192; n < 208; n++) block[n] &= 0x7f;
    }
}

void *weight_rows(suite *s, uint32_t type, uint32_t ne0, uint32_t ne1, weight_kind kind) {
    uint64_t row = gk_row_bytes(type, ne0);
    unsigned char *rows = must_alloc((size_t)(row * ne1));
    uint64_t blocks = (uint64_t)ne1 * ne0 / gk_type_block_elements(type);
    for (uint64_t n = 0; n < blocks; n++) {
        unsigned char *block = rows + n * gk_type_block_bytes(type);
        if (type == GK_Q4_0 || type == GK_Q4_K || type == GK_Q6_K) {
            few_bits(s, type, block, kind);
        } else if (type == GK_Q8_0) {
            uint16_t scale = gk_f16_of_f32((float)q8_scale(s, kind));
            memcpy(block, &scale, sizeof scale);
            for (int k = 0; k < 32; k++) {
                int quant = (int)random_below(s, 256) - 128;
                if (kind == WEIGHT_POSITIVE && quant < 0) quant = -1 - quant;
                if (kind == WEIGHT_NEGATIVE) quant = random_below(s, 3) == 0 ? quant : quant < 0 ? -128 : 127;
                block[2 + k] = (unsigned char)(int8_t)quant;
            }
        } else {
            float value = (float)weight_value(s, kind);
            uint16_t half = type == GK_F16 ? gk_f16_of_f32(value) : (uint16_t)(gk_bits_of_float(value) >> 16);
            memcpy(block, type == GK_F32 ? (const void *)&value : (const void *)&half, gk_type_block_bytes(type));
        }
    }
    return rows;
}

/* ---- running ---- */

gk_op op_on(const mirror_op *m, int which) {
    gk_op op = m->op;
    op.dst = m->dst.on[which];
    op.a = m->a.on[which];
    op.b = m->b.on[which];
    op.c = m->c.on[which];
    op.d = m->d.on[which];
    return op;
}

static bool run_on(suite *s, int which, const mirror_op *ops, uint32_t count, const gk_step *step) {
    side *d = &s->sides[which];
    gk_op *list = must_alloc(count * sizeof *list);
    for (uint32_t n = 0; n < count; n++) {
        list[n] = op_on(&ops[n], which);
        list[n].tag = n;
        gk_status status = d->backend->supports(d->device, &list[n]);
        if (status == GK_UNSUPPORTED) case_skip(s, "%s", d->backend->last_error(d->device));
        else expect_status(s, which, status, GK_OK, "supports");
    }
    gk_plan *plan = NULL;
    if (case_going(s)) expect_status(s, which, d->backend->plan_build(d->device, list, count, &plan), GK_OK, "plan_build");
    if (case_going(s)) expect_status(s, which, d->backend->plan_run(d->device, plan, step, 1), GK_OK, "plan_run");
    if (case_going(s)) expect_status(s, which, d->backend->sync(d->device), GK_OK, "sync");
    d->backend->plan_free(d->device, plan);
    free(list);
    return case_going(s);
}

bool run_both(suite *s, const mirror_op *ops, uint32_t count, const gk_step *step) {
    return case_going(s) && run_on(s, SIDE_TESTED, ops, count, step) && run_on(s, SIDE_REF, ops, count, step);
}

/* ---- comparing ---- */

double nmse_of(const float *got, const float *wanted, size_t count) {
    double error = 0, power = 0;
    for (size_t n = 0; n < count; n++) {
        double difference = (double)got[n] - (double)wanted[n];
        error += difference * difference;
        power += (double)wanted[n] * (double)wanted[n];
    }
    return power > 0 ? error / power : error;
}

void compare_values(suite *s, const float *got, const float *wanted, size_t count, double bound) {
    double power = 0, worst = 0;
    size_t worst_at = 0;
    for (size_t n = 0; n < count; n++) {
        if (isfinite(got[n]) != isfinite(wanted[n])) {
            case_fail(s, "element %zu is %g, the reference has %g", n, (double)got[n], (double)wanted[n]);
            return;
        }
        double difference = fabs((double)got[n] - (double)wanted[n]);
        if (difference > worst) worst = difference, worst_at = n;
        power += (double)wanted[n] * (double)wanted[n];
    }
    double nmse = nmse_of(got, wanted, count);
    if (nmse > s->now.nmse) s->now.nmse = nmse;
    if (!(nmse <= bound)) case_fail(s, "nmse %.3g is above %.3g; worst is element %zu: %g, the reference has %g", nmse, bound,
                                    worst_at, (double)got[worst_at], (double)wanted[worst_at]);
    /* A single wrong element among many barely changes the mean, so the largest error has a bound too. */
    double rms = sqrt(power / (double)count);
    if (worst > 30 * sqrt(bound) * (rms + fabs((double)wanted[worst_at])) && power > 0) {
        case_fail(s, "element %zu is %g, the reference has %g; rms %g", worst_at, (double)got[worst_at],
                  (double)wanted[worst_at], rms);
    }
}

void compare_bits(suite *s, const float *x, const float *y, size_t count, const char *what) {
    for (size_t n = 0; n < count; n++) {
        if (gk_bits_of_float(x[n]) != gk_bits_of_float(y[n])) case_fail(s, "%s: element %zu is %.9g and %.9g", what, n, (double)x[n], (double)y[n]);
    }
}

void compare_tensor(suite *s, const mirror *m, uint32_t rows, double bound) {
    if (!case_going(s)) return;
    float *got = tensor_get(s, SIDE_TESTED, m), *wanted = tensor_get(s, SIDE_REF, m);
    const size_t count = (size_t)m->on[0].ne[0] * rows;
    compare_values(s, got, wanted, count, bound);
    if (s->same_as) compare_bits(s, got, wanted, count, "another number of threads");
    tensor_check_sentinels(s, m);
    free(got);
    free(wanted);
}

void compare_i32(suite *s, const mirror *m, uint32_t rows) {
    if (!case_going(s)) return;
    int32_t *got = tensor_get_i32(s, SIDE_TESTED, m), *wanted = tensor_get_i32(s, SIDE_REF, m);
    uint64_t stride = gk_stride(&m->on[0]);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t k = 0; k < m->on[0].ne[0]; k++) {
            int32_t x = got[r * stride + k], y = wanted[r * stride + k];
            if (x != y) case_fail(s, "row %u, element %u is %d, the reference has %d", r, k, (int)x, (int)y);
        }
    }
    tensor_check_sentinels(s, m);
    free(got);
    free(wanted);
}
