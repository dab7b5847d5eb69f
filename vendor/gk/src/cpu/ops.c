/* The ops, each split over the threads; the kernels compute sums and exponentials. A thread takes items until none is
 * left. Items are computed alike whoever takes them, so results do not depend on the number of threads. */
#include <math.h>

#include "cpu.h"
#include "host.h"

static float *row_of(const gk_tensor *t, uint64_t row) {
    return (float *)(void *)(gk_host_pointer(t) + 4 * row * gk_stride(t));
}

static int32_t *ids_of(const gk_tensor *t) { return (int32_t *)(void *)gk_host_pointer(t); }

static bool take(const cpu_task *task, uint32_t total, uint32_t least, uint32_t *first, uint32_t *last) {
    return gk_take(&task->team, task->counters, total, least, first, last);
}

/* Calls `run` for items of about `elements` numbers each. Several small ones are taken together. */
static void run_items(const cpu_task *task, uint32_t total, uint32_t elements, void (*run)(const cpu_task *, uint32_t item)) {
    enum { FEWEST_ELEMENTS = 1024 };
    const uint32_t least = elements < FEWEST_ELEMENTS ? FEWEST_ELEMENTS / elements : 1;
    for (uint32_t item, last; take(task, total, least, &item, &last);) {
        for (; item < last; item++) run(task, item);
    }
}

static void embed_row(const cpu_task *task, uint32_t t) {
    const gk_op *op = task->op;
    int32_t id = ids_of(&op->b)[t];
    if (id >= 0 && (uint32_t)id < op->a.ne[1]) gk_cpu_weight_row(task->isa, &op->a, (uint32_t)id, row_of(&op->dst, t));
    else memset(row_of(&op->dst, t), 0, op->dst.ne[0] * sizeof(float));
}

/* ---- matmul ---- */

static cpu_matmul matmul_of(const cpu_task *task) {
    const gk_op *op = task->op;
    bool last_row = (op->flags & GK_LAST_ROW) != 0;
    return (cpu_matmul){
        .weight = gk_host_pointer(&op->a),
        .type = op->a.type,
        .k = op->a.ne[0],
        .n = op->a.ne[1],
        .rows = last_row ? 1 : task->rows,
        .x = task->normed ? task->normed : row_of(&op->b, last_row ? task->rows - 1 : 0),
        .q = task->quants,
        .x_stride = gk_stride(&op->b),
        .dst_stride = gk_stride(&op->dst),
        .dst = row_of(&op->dst, 0),
        .bias = (op->flags & GK_BIAS) ? row_of(&op->c, 0) : NULL,
        .accumulate = (op->flags & GK_ACCUMULATE) != 0,
    };
}

/* Groups of rows that are worth taking at once: 16 KiB of weights, or two groups, which the kernels for many rows
 * multiply together. */
static uint32_t fewest_groups(const cpu_matmul *m) {
    enum { FEWEST_BYTES = 1 << 14 };
    const uint64_t bytes = CPU_GROUP * gk_row_bytes(m->type, m->k);
    return m->rows > 1 ? 2 : bytes < FEWEST_BYTES ? (uint32_t)(FEWEST_BYTES / bytes) : 1;
}

static void run_matmul(const cpu_task *task) {
    const cpu_matmul m = matmul_of(task);
    const uint32_t groups = (uint32_t)cpu_groups(m.n), least = fewest_groups(&m);
    for (uint32_t first, last; take(task, groups, least, &first, &last);) task->isa->matmul(&m, first, last);
}

/* Both products of some groups of rows. The second is multiplied by silu of the first, which is already in dst: no
 * barrier is needed in between. */
static void run_gate_up(const cpu_task *task) {
    enum { GROUPS = 16 }; /* few enough that the gate of many rows is still cached */
    const cpu_matmul gate = matmul_of(task);
    cpu_matmul up = gate;
    up.weight = gk_host_pointer(&task->op->d);
    up.gated = true;
    const uint32_t groups = (uint32_t)cpu_groups(gate.n), least = fewest_groups(&gate);
    for (uint32_t group, last; take(task, groups, least, &group, &last);) {
        for (uint32_t end; group < last; group = end) {
            end = last - group < GROUPS ? last : group + GROUPS;
            task->isa->matmul(&gate, group, end);
            task->isa->matmul(&up, group, end);
        }
    }
}

/* ---- attention and the KV cache ---- */

static void rotate_head(const float *in, float *out, const float *table, uint32_t d_head, uint32_t n_rot, bool neox) {
    uint32_t step = neox ? 1 : 2, partner = neox ? n_rot / 2 : 1;
    for (uint32_t pair = 0; pair < n_rot / 2; pair++) {
        uint32_t n = pair * step;
        float x = in[n], y = in[n + partner], c = table[2 * pair], s = table[2 * pair + 1];
        out[n] = x * c - y * s;
        out[n + partner] = x * s + y * c;
    }
    if (in != out) memcpy(out + n_rot, in + n_rot, (d_head - n_rot) * sizeof *out);
}

static void rope_head(const cpu_task *task, uint32_t item) {
    const gk_op *op = task->op;
    uint32_t heads = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], t = item / heads, at = item % heads * d_head;
    rotate_head(row_of(&op->a, t) + at, row_of(&op->dst, t) + at, row_of(&op->b, task->step->pos + t), d_head,
                (uint32_t)op->i[2], (op->flags & GK_NEOX) != 0);
}

static void put_cached(const gk_tensor *cache, uint64_t at, float value) {
    if (cache->type == GK_F16) ((uint16_t *)(void *)gk_host_pointer(cache))[at] = gk_f16_of_f32(value);
    else ((float *)(void *)gk_host_pointer(cache))[at] = value;
}

/* Position of element 0 of a head's key, and the distance to the next element. */
typedef struct key_place {
    uint64_t first, step;
} key_place;

static key_place place_of_key(const gk_op *op, uint32_t head, uint32_t pos) {
    const uint32_t d_head = (uint32_t)op->i[1], n_ctx = op->dst.ne[1], tile = pos / CPU_GROUP * CPU_GROUP;
    return (key_place){
        .first = (uint64_t)head * n_ctx * d_head + (uint64_t)tile * d_head + pos % CPU_GROUP,
        .step = n_ctx - tile < CPU_GROUP ? n_ctx - tile : CPU_GROUP,
    };
}

/* Copies the elements starting at `from` unchanged. */
static void put_key(const gk_op *op, key_place place, const float *key, uint32_t from) {
    for (uint32_t k = from; k < (uint32_t)op->i[1]; k++) put_cached(&op->dst, place.first + k * place.step, key[k]);
}

static void put_rotated_key(const gk_op *op, key_place place, const float *key, const float *table) {
    const bool neox = (op->flags & GK_NEOX) != 0;
    const uint32_t n_rot = (uint32_t)op->i[2], partner = neox ? n_rot / 2 : 1;
    for (uint32_t pair = 0; pair < n_rot / 2; pair++) {
        const uint32_t n = neox ? pair : 2 * pair;
        const float x = key[n], y = key[n + partner], c = table[2 * pair], s = table[2 * pair + 1];
        put_cached(&op->dst, place.first + n * place.step, x * c - y * s);
        put_cached(&op->dst, place.first + (n + partner) * place.step, x * s + y * c);
    }
    put_key(op, place, key, n_rot);
}

/* KV_WRITE and ROPE_KV. */
static void write_head(const cpu_task *task, uint32_t item) {
    const gk_op *op = task->op;
    uint32_t heads = (uint32_t)op->i[0], d_head = (uint32_t)op->i[1], n_ctx = op->dst.ne[1];
    uint32_t t = item / heads, head = item % heads, pos = task->step->pos + t;
    const float *key = row_of(&op->a, t) + head * d_head, *value = row_of(&op->b, t) + head * d_head;
    const key_place place = place_of_key(op, head, pos);
    if (op->code == GK_OP_ROPE_KV) put_rotated_key(op, place, key, row_of(&op->d, pos));
    else put_key(op, place, key, 0);
    for (uint32_t k = 0; k < d_head; k++) put_cached(&op->c, ((uint64_t)head * n_ctx + pos) * d_head + k, value[k]);
}

/* Query vectors that share a key head are computed together, in batches from several rows if one row does not fill
 * one, and CPU_POSITIONS positions at a time. These parts are always folded in order, so the result is the same if
 * several threads compute them. */
typedef struct attention_job {
    const cpu_task *task;
    uint32_t key_heads, d_head, per_key, queries, batch, batches, parts;
} attention_job;

static attention_job attention_job_of(const cpu_task *task) {
    const gk_op *op = task->op;
    const uint32_t key_heads = (uint32_t)op->i[1], per_key = (uint32_t)op->i[0] / key_heads;
    attention_job j = {task, key_heads, (uint32_t)op->i[2], per_key, per_key * task->rows, task->isa->queries, 0, 1};
    if (task->parts) j.parts = (task->step->pos + task->rows - 1) / CPU_POSITIONS + 1;
    j.batches = (j.queries + j.batch - 1) / j.batch;
    /* With more threads than batches, use smaller batches: they read the keys more often, but in parallel. */
    while (j.batch > 1 && j.batches * key_heads * j.parts < task->team.threads) {
        j.batch = (j.batch + 1) / 2;
        j.batches = (j.queries + j.batch - 1) / j.batch;
    }
    return j;
}

/* Computes part `part` of some queries into `out`. */
static void attend_part(const attention_job *j, uint32_t key_head, uint32_t start, uint32_t count, uint32_t part, float *out) {
    const gk_op *op = j->task->op;
    const uint32_t n_ctx = op->b.ne[1], first = part * CPU_POSITIONS;
    const uint64_t at = ((uint64_t)key_head * n_ctx + first) * j->d_head * gk_type_block_bytes(op->b.type);
    cpu_attention a = {
        .keys = gk_host_pointer(&op->b) + at,
        .values = gk_host_pointer(&op->c) + at,
        .half = op->b.type == GK_F16,
        .n_ctx = n_ctx - first,
        .d_head = j->d_head,
        .queries = count,
        .scale = op->f[0],
        .scores = j->task->scores,
    };
    for (uint32_t n = 0; n < count; n++) {
        const uint32_t t = (start + n) / j->per_key, seen = j->task->step->pos + t + 1, left = seen > first ? seen - first : 0;
        a.query[n] = row_of(&op->a, t) + (key_head * j->per_key + (start + n) % j->per_key) * j->d_head;
        a.length[n] = left < CPU_POSITIONS ? left : CPU_POSITIONS;
        a.out[n] = out + n * cpu_part_floats(j->d_head);
    }
    j->task->isa->attention(&a);
    for (uint32_t n = 0; n < count; n++) a.out[n][j->d_head] = a.largest[n], a.out[n][j->d_head + 1] = a.sum[n];
}

/* Adds a part to the sums of those before it. The weights of both are relative to their own largest score. */
static void fold_part(float *out, float *largest, float *sum, const float *part, uint32_t d_head) {
    const float part_largest = part[d_head], part_sum = part[d_head + 1];
    if (part_sum == 0) return;
    const float most = part_largest > *largest ? part_largest : *largest, ours = expf(*largest - most), theirs = expf(part_largest - most);
    for (uint32_t k = 0; k < d_head; k++) out[k] = out[k] * ours + part[k] * theirs;
    *sum = *sum * ours + part_sum * theirs;
    *largest = most;
}

static float *result_of(const attention_job *j, uint32_t key_head, uint32_t query) {
    return row_of(&j->task->op->dst, query / j->per_key) + (key_head * j->per_key + query % j->per_key) * j->d_head;
}

static void attend(const attention_job *j, uint32_t item) {
    const uint32_t at = item / j->parts, part = item % j->parts, key_head = at % j->key_heads, d_head = j->d_head;
    /* The last rows first, because they see most positions. */
    const uint32_t start = (j->batches - 1 - at / j->key_heads) * j->batch, left = j->queries - start, count = left < j->batch ? left : j->batch;
    const uint32_t all = (j->task->step->pos + (start + count - 1) / j->per_key) / CPU_POSITIONS + 1;
    const size_t floats = cpu_part_floats(d_head);
    float *parts = j->task->parts ? j->task->parts + (size_t)at * j->parts * j->batch * floats : j->task->part;
    if (j->parts > 1) {
        attend_part(j, key_head, start, count, part, parts + part * j->batch * floats);
        /* The thread that computes the last part folds them all. */
        if (atomic_fetch_add_explicit(&j->task->parts_done[at], 1, memory_order_acq_rel) + 1 < j->parts) return;
        atomic_store_explicit(&j->task->parts_done[at], 0, memory_order_relaxed);
    }
    float largest[CPU_MOST_QUERIES], sum[CPU_MOST_QUERIES];
    for (uint32_t m = 0; m < all; m++) {
        float *from = j->parts > 1 ? parts + m * j->batch * floats : parts;
        if (j->parts == 1) attend_part(j, key_head, start, count, m, from);
        for (uint32_t n = 0; n < count; n++, from += floats) {
            float *out = result_of(j, key_head, start + n);
            if (m > 0) {
                fold_part(out, &largest[n], &sum[n], from, d_head);
                continue;
            }
            memcpy(out, from, d_head * sizeof *out);
            largest[n] = from[d_head], sum[n] = from[d_head + 1];
        }
    }
    for (uint32_t n = 0; n < count; n++) {
        float *out = result_of(j, key_head, start + n);
        const float inverse = 1.0f / sum[n];
        for (uint32_t k = 0; k < d_head; k++) out[k] *= inverse;
    }
}

static void run_attention(const cpu_task *task) {
    const attention_job j = attention_job_of(task);
    for (uint32_t item, last; take(task, j.batches * j.key_heads * j.parts, 1, &item, &last);) {
        for (; item < last; item++) attend(&j, item);
    }
}

/* ---- rows ---- */

static void norm_group(const cpu_task *task, uint32_t item) {
    const gk_op *op = task->op;
    uint32_t group = op->b.ne[0], groups = op->a.ne[0] / group, t = item / groups, at = item % groups * group;
    task->isa->rmsnorm(row_of(&op->a, t) + at, row_of(&op->b, 0), group, op->f[0], row_of(&op->dst, t) + at);
}

static void copy_span(const gk_op *op, uint32_t t, uint32_t first, uint32_t count) {
    uint64_t from = t * gk_stride(&op->a) + first, to = t * gk_stride(&op->dst) + first;
    const void *a = gk_host_pointer(&op->a);
    void *dst = gk_host_pointer(&op->dst);
    for (uint32_t n = 0; n < count; n++) {
        if (op->a.type == op->dst.type) {
            if (op->a.type == GK_F16) ((uint16_t *)dst)[to + n] = ((const uint16_t *)a)[from + n];
            else ((float *)dst)[to + n] = ((const float *)a)[from + n];
        } else if (op->a.type == GK_F16) {
            ((float *)dst)[to + n] = gk_f32_of_f16(((const uint16_t *)a)[from + n]);
        } else {
            ((uint16_t *)dst)[to + n] = gk_f16_of_f32(((const float *)a)[from + n]);
        }
    }
}

static void elementwise_span(const cpu_task *task, uint32_t t, uint32_t first, uint32_t count) {
    const gk_op *op = task->op;
    if (op->code == GK_OP_COPY) {
        copy_span(op, t, first, count);
        return;
    }
    const float *a = row_of(&op->a, t) + first;
    const float *b = op->b.buffer ? row_of(&op->b, op->b.ne[1] == 1 ? 0 : t) + first : NULL;
    float *dst = row_of(&op->dst, t) + first;
    switch (op->code) {
    case GK_OP_SILU: task->isa->silu(a, count, dst); break;
    case GK_OP_SWIGLU: task->isa->swiglu(a, b, count, dst); break;
    case GK_OP_ADD:
        for (uint32_t n = 0; n < count; n++) dst[n] = a[n] + b[n];
        break;
    case GK_OP_MUL:
        for (uint32_t n = 0; n < count; n++) dst[n] = a[n] * b[n];
        break;
    default: break;
    }
}

enum { SPAN = 1024 }; /* elements of a row that are computed at once */

static uint32_t spans_of(const gk_op *op) { return (op->a.ne[0] + SPAN - 1) / SPAN; }

static void run_span(const cpu_task *task, uint32_t item) {
    const uint32_t spans = spans_of(task->op), first = item % spans * SPAN, left = task->op->a.ne[0] - first;
    elementwise_span(task, item / spans, first, left < SPAN ? left : SPAN);
}

static void softmax_row(const cpu_task *task, uint32_t t) {
    const gk_op *op = task->op;
    task->isa->softmax(row_of(&op->a, t), op->a.ne[0], op->f[0], row_of(&op->dst, t));
}

static bool beats(float x, float y) { return x > y || (isnan(y) && !isnan(x)); }

static void argmax_row(const cpu_task *task, uint32_t t) {
    const gk_op *op = task->op;
    const float *x = row_of(&op->a, t);
    uint32_t best = 0;
    for (uint32_t n = 1; n < op->a.ne[0]; n++) {
        if (beats(x[n], x[best])) best = n;
    }
    ids_of(&op->dst)[t] = (int32_t)best;
}

/* A sorted list: most elements are rejected by a comparison with its last entry. */
static void topk_row(const cpu_task *task, uint32_t t) {
    const gk_op *op = task->op;
    const float *x = row_of(&op->a, t);
    uint32_t k = (uint32_t)op->i[0], list[GK_MAX_TOPK], length = 0;
    for (uint32_t n = 0; n < op->a.ne[0]; n++) {
        if (length == k && !beats(x[n], x[list[k - 1]])) continue;
        uint32_t place = length < k ? length++ : k - 1;
        for (; place > 0 && beats(x[n], x[list[place - 1]]); place--) list[place] = list[place - 1];
        list[place] = n;
    }
    for (uint32_t n = 0; n < k; n++) {
        ids_of(&op->dst)[t * gk_stride(&op->dst) + n] = (int32_t)list[n];
        row_of(&op->c, t)[n] = x[list[n]];
    }
}

static void run_step(const cpu_task *task) {
    const gk_op *op = task->op;
    if (task->team.thread != 0) return;
    int32_t id = ids_of(&op->a)[0];
    ids_of(&op->b)[0] = id;
    if (op->dst.buffer && task->step->run < op->dst.ne[0]) ids_of(&op->dst)[task->step->run] = id;
    task->step->pos += task->step->n_tok;
    task->step->run += 1;
}

void gk_cpu_run_op(const cpu_task *task) {
    const gk_op *op = task->op;
    const uint32_t rows = task->rows, width = op->a.ne[0], heads = (uint32_t)op->i[0] * rows, d_head = (uint32_t)op->i[1];
    switch (gk_code(op)) {
    case GK_OP_EMBED: run_items(task, rows, width, embed_row); break;
    case GK_OP_RMSNORM: run_items(task, width / op->b.ne[0] * rows, op->b.ne[0], norm_group); break;
    case GK_OP_MATMUL:
    case GK_OP_NORM_MATMUL: run_matmul(task); break;
    case GK_OP_ROPE: run_items(task, heads, d_head, rope_head); break;
    case GK_OP_KV_WRITE:
    case GK_OP_ROPE_KV: run_items(task, heads, d_head, write_head); break;
    case GK_OP_GATE_UP: run_gate_up(task); break;
    case GK_OP_ATTENTION: run_attention(task); break;
    case GK_OP_SOFTMAX: run_items(task, rows, width, softmax_row); break;
    case GK_OP_ARGMAX: run_items(task, rows, width, argmax_row); break;
    case GK_OP_TOPK: run_items(task, rows, width, topk_row); break;
    case GK_OP_STEP: run_step(task); break;
    case GK_OP_SWIGLU:
    case GK_OP_SILU:
    case GK_OP_ADD:
    case GK_OP_MUL:
    case GK_OP_COPY: run_items(task, spans_of(op) * rows, SPAN, run_span); break;
    }
}
