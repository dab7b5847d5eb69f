/* gk_backend_cpu: one device per instruction set that this machine supports, best first. A pool of threads walks a
 * plan together and shares out each op by a counter, with a barrier only where one op needs the result of another. */
#include <stdlib.h>

#include "cpu.h"
#include "host.h"
#include "thread.h"
#include "topology.h"

enum { MOST_THREADS = 256, MOST_SHARED_ROWS = 8 };
/* How long a thread waits for the others before it sleeps. A longer wait keeps a core busy that another program could use. */
static const double SPIN_SECONDS = 50e-6;

/* ---- plans ---- */

/* When the activations of a product are normalised or rounded to int8. */
typedef enum ready_when {
    READY_AS_THEY_ARE,
    READY_NOW,   /* before the op */
    READY_REUSED /* already done by an earlier op */
} ready_when;

typedef struct op_plan {
    uint8_t ready; /* ready_when */
    bool barrier;  /* a barrier follows the op */
} op_plan;

typedef struct prepared {
    op_plan *ops;
    gk_counter *counters; /* of each op: of the rows that it rounds, then of its items in each node's part */
    unsigned char *quants; /* rows shared by all threads, then one row per thread */
    size_t quant_row, own_quants;
    float *normed; /* one row per thread */
    size_t normed_row;
    /* Attention: of each thread the scores and one part, then the parts of all threads and how many are done. */
    float *scores;
    size_t scores_of_thread, part_floats;
    uint64_t shared_parts, batches;
    void *quant_pages, *normed_pages, *score_pages;
    uint64_t quant_mapped, normed_mapped, score_mapped;
} prepared;

/* ---- the pool ---- */

typedef struct worker {
    struct cpu_state *state;
    uint32_t index;
    gk_thread thread;
    gk_thread_start start;
} worker;

typedef struct job {
    const prepared *plan;
    const gk_op *ops;
    uint32_t count;
    gk_step *step;
} job;

/* Rows of a weight to repack. */
typedef struct put_job {
    unsigned char *weight;
    const gk_tensor *dst;
    const unsigned char *rows;
    uint64_t first, count;
    gk_counter counters[GK_MOST_NODES];
} put_job;

typedef struct cpu_state {
    const cpu_isa *isa;
    uint32_t threads;
    gk_nodes nodes; /* one, unless threads are bound */
    double spin; /* seconds */
    gk_barrier barrier;
    job job;
    put_job *put; /* instead of a job, if not NULL */
    bool quit;
    worker workers[MOST_THREADS];
} cpu_state;

static gk_team team_of(const cpu_state *s, uint32_t thread) { return (gk_team){thread, s->threads, s->nodes.count}; }

static const gk_processor_set *processors_of(const cpu_state *s, uint32_t thread) { return &s->nodes.processors[thread % s->nodes.count]; }

static void wait_for_all(cpu_state *s) { gk_barrier_wait(&s->barrier, s->spin); }

/* Normalises and rounds the activations that the op reads. Every thread computes a single row itself, which costs
 * less than a barrier; the threads share several rows. */
static void make_ready(cpu_state *s, const prepared *p, cpu_task *task, const op_plan *how, gk_counter *row_counter) {
    const gk_op *op = task->op;
    if (how->ready == READY_AS_THEY_ARE) return;
    const bool rounded = gk_is_block_type(op->a.type), single = task->rows == 1 || (op->flags & GK_LAST_ROW);
    unsigned char *quants = single ? p->quants + p->own_quants + task->team.thread * p->quant_row : p->quants;
    const gk_tensor *norm = gk_norm_of(op);
    float *normed = norm ? p->normed + task->team.thread * p->normed_row : NULL;
    task->quants = rounded ? quants : NULL;
    task->normed = normed;
    if (how->ready == READY_REUSED) return;
    const unsigned char *rows = gk_host_pointer(&op->b);
    uint64_t stride = 4 * gk_stride(&op->b);
    if (single) {
        const float *x = (const float *)(const void *)(rows + (task->rows - 1) * stride);
        if (normed) s->isa->rmsnorm(x, (const float *)(const void *)gk_host_pointer(norm), op->b.ne[0], op->f[0], normed);
        if (rounded) s->isa->quantize(normed ? normed : x, op->b.ne[0], quants);
        return;
    }
    const size_t row_bytes = cpu_q8_row_bytes(op->b.ne[0]);
    const gk_team all = {task->team.thread, task->team.threads, 1};
    for (uint32_t t, last; gk_take(&all, row_counter, task->rows, 1, &t, &last);) {
        for (; t < last; t++) s->isa->quantize((const float *)(const void *)(rows + t * stride), op->b.ne[0], quants + t * row_bytes);
    }
    wait_for_all(s);
}

/* Few rows may not give every thread a batch of queries, so their positions are shared out too. */
static bool shares_positions(const cpu_state *s, const gk_op *op) { return s->threads > 1 && op->a.ne[1] <= MOST_SHARED_ROWS; }

static void give_scratch(const cpu_state *s, const prepared *p, cpu_task *task) {
    task->scores = p->scores + task->team.thread * p->scores_of_thread;
    task->part = task->scores + (size_t)s->isa->queries * CPU_POSITIONS;
    if (!shares_positions(s, task->op)) return;
    task->parts = p->scores + s->threads * p->scores_of_thread;
    task->parts_done = (atomic_uint *)(void *)(task->parts + p->shared_parts);
}

static void walk(cpu_state *s, uint32_t thread) {
    const job *j = &s->job;
    const prepared *p = j->plan;
    const uint32_t n_tok = j->step->n_tok;
    for (uint32_t n = 0; n < j->count; n++) {
        const gk_op *op = &j->ops[n];
        gk_counter *counters = p->counters + (size_t)n * (1 + s->nodes.count);
        uint32_t rows = gk_op_rows(op) < n_tok ? gk_op_rows(op) : n_tok;
        cpu_task task = {
            .isa = s->isa,
            .op = op,
            .step = j->step,
            .rows = rows,
            .team = team_of(s, thread),
            .counters = counters + 1,
        };
        if (op->code == GK_OP_ATTENTION) give_scratch(s, p, &task);
        make_ready(s, p, &task, &p->ops[n], counters);
        gk_cpu_run_op(&task);
        if (p->ops[n].barrier) wait_for_all(s);
    }
}

/* Takes groups of rows until none is left, only those in the part of the weight that this node's threads multiply: the
 * system allocates memory in the node of the thread that writes it first. */
static void put_share(cpu_state *s, uint32_t thread) {
    put_job *put = s->put;
    const uint64_t row_bytes = gk_row_bytes(put->dst->type, put->dst->ne[0]), end = put->first + put->count;
    const gk_team team = team_of(s, thread);
    const uint32_t node = thread % team.nodes, base = (uint32_t)(put->first / CPU_GROUP), past = (uint32_t)cpu_groups(end);
    uint32_t low, high;
    gk_part_of(&team, node, (uint32_t)cpu_groups(put->dst->ne[1]), &low, &high);
    low = low > base ? low : base, high = high < past ? high : past;
    if (low >= high) return;
    const gk_team of_node = {thread, (s->threads - 1) / team.nodes + 1, 1};
    for (uint32_t group, last; gk_take(&of_node, &put->counters[node], high - low, 1, &group, &last);) {
        uint64_t from = (uint64_t)(low + group) * CPU_GROUP, to = (uint64_t)(low + last) * CPU_GROUP;
        from = from > put->first ? from : put->first, to = to < end ? to : end;
        gk_cpu_weight_put(s->isa, put->weight, put->dst, put->rows + (from - put->first) * row_bytes, from, to - from);
    }
}

static void take_part(cpu_state *s, uint32_t thread) {
    if (s->put) put_share(s, thread);
    else walk(s, thread);
}

static void work(void *argument) {
    worker *w = argument;
    cpu_state *s = w->state;
    gk_bind(processors_of(s, w->index), NULL);
    for (;;) {
        wait_for_all(s);
        if (s->quit) return;
        take_part(s, w->index);
        wait_for_all(s);
    }
}

/* The calling thread is thread 0, and bound only while it works. */
static void run_together(cpu_state *s) {
    gk_processor_set before;
    gk_bind(processors_of(s, 0), &before);
    wait_for_all(s);
    take_part(s, 0);
    wait_for_all(s);
    gk_bind(&before, NULL);
}

static void cpu_run(void *state, void *plan, const gk_op *ops, uint32_t count, gk_step *step) {
    cpu_state *s = state;
    const prepared *p = plan;
    s->job = (job){p, ops, count, step};
    for (size_t n = 0; n < (size_t)count * (1 + s->nodes.count); n++) atomic_store_explicit(&p->counters[n].taken, 0, memory_order_relaxed);
    run_together(s);
}

static void cpu_close(void *state) {
    cpu_state *s = state;
    s->quit = true;
    wait_for_all(s);
    for (uint32_t n = 1; n < s->threads; n++) gk_thread_join(s->workers[n].thread);
    gk_barrier_destroy(&s->barrier);
    free(s);
}

/* ---- preparing a plan ---- */

static uint64_t span_of(const gk_op *op, gk_operand operand) {
    const gk_tensor *t = gk_operand_of(op, operand);
    switch (gk_operand_role(op, operand)) {
    case GK_ROLE_PLAIN: return gk_tensor_span(t);
    case GK_ROLE_WEIGHT: return gk_cpu_weight_bytes(t->type, t->ne[0], t->ne[1]);
    case GK_ROLE_CACHE: return gk_row_bytes(t->type, t->ne[0]) * t->ne[1];
    default: return 0;
    }
}

/* Does one of the two ops write what the other reads or writes? Compares byte ranges, which is conservative. */
static bool conflict(const gk_op *x, const gk_op *y) {
    if (x->code == GK_OP_ATTENTION && y->code == GK_OP_ATTENTION) return true; /* they use the same scratch memory */
    for (int n = GK_DST; n <= GK_D; n++) {
        const gk_tensor *s = gk_operand_of(x, (gk_operand)n);
        if (s->buffer == NULL) continue;
        for (int m = GK_DST; m <= GK_D; m++) {
            const gk_tensor *t = gk_operand_of(y, (gk_operand)m);
            if (t->buffer != s->buffer) continue;
            if (!gk_operand_written(x, (gk_operand)n) && !gk_operand_written(y, (gk_operand)m)) continue;
            if (s->offset < t->offset + span_of(y, (gk_operand)m) && t->offset < s->offset + span_of(x, (gk_operand)n)) return true;
        }
    }
    return false;
}

/* Sets a barrier after op n if op n + 1 conflicts with an op since the last barrier. STEP changes the position for
 * all threads. */
static void plan_barriers(op_plan *plans, const gk_op *ops, uint32_t count) {
    uint32_t since = 0;
    for (uint32_t n = 0; n + 1 < count; n++) {
        bool needed = ops[n + 1].code == GK_OP_STEP;
        for (uint32_t m = since; m <= n && !needed; m++) needed = conflict(&ops[m], &ops[n + 1]);
        /* Activations of many rows are rounded into memory that the previous matmul may still read. */
        needed = needed || plans[n + 1].ready == READY_NOW;
        plans[n].barrier = needed;
        if (needed) since = n + 1;
    }
}

static bool same_source(const gk_op *x, const gk_op *y) {
    return x->b.buffer == y->b.buffer && x->b.offset == y->b.offset && x->b.ne[0] == y->b.ne[0] && x->b.ne[1] == y->b.ne[1] &&
           gk_stride(&x->b) == gk_stride(&y->b) && (x->flags & GK_LAST_ROW) == (y->flags & GK_LAST_ROW);
}

static bool is_product(const gk_op *op) {
    return op->code == GK_OP_MATMUL || op->code == GK_OP_GATE_UP || op->code == GK_OP_NORM_MATMUL;
}

/* Are the activations of this op normalised or rounded first? */
static bool wants_ready(const gk_op *op) {
    return is_product(op) && (gk_norm_of(op) || gk_is_block_type(op->a.type));
}

/* Can y reuse the prepared activations of x? */
static bool same_ready(const gk_op *x, const gk_op *y) {
    const gk_tensor *x_norm = gk_norm_of(x), *y_norm = gk_norm_of(y);
    if (!x_norm != !y_norm || !same_source(x, y)) return false;
    if (gk_is_block_type(y->a.type) && !gk_is_block_type(x->a.type)) return false;
    return !x_norm || (gk_same_slice(x_norm, y_norm) && x->f[0] == y->f[0]);
}

/* A product that directly follows others on the same activations, none of which changes these, reuses the prepared
 * activations. */
static void plan_ready(op_plan *plans, const gk_op *ops, uint32_t count) {
    const gk_op *owner = NULL;
    for (uint32_t n = 0; n < count; n++) {
        const gk_op *op = &ops[n];
        plans[n].ready = READY_AS_THEY_ARE;
        if (wants_ready(op)) {
            bool reused = owner != NULL && same_ready(owner, op);
            plans[n].ready = reused ? READY_REUSED : READY_NOW;
            if (!reused) owner = op;
        }
        if (owner != NULL && owner != op && !is_product(op)) owner = NULL;
        if (owner != NULL) {
            gk_op reads = {.code = GK_OP_SILU, .dst = owner->b};
            reads.dst.ne[2] = reads.dst.ne[3] = 1;
            gk_op writes = {.code = GK_OP_SILU, .dst = op->dst};
            if (conflict(&reads, &writes)) owner = NULL;
        }
    }
}

static void cpu_discard(void *plan) {
    prepared *p = plan;
    if (p == NULL) return;
    gk_host_unmap(p->quant_pages, p->quant_mapped);
    gk_host_unmap(p->normed_pages, p->normed_mapped);
    gk_host_unmap(p->score_pages, p->score_mapped);
    free(p->counters);
    free(p->ops);
    free(p);
}

/* Enlarges the scratch memory of the plan for this op. */
static void measure_attention(const cpu_state *s, prepared *p, const gk_op *op) {
    if (op->code != GK_OP_ATTENTION) return;
    const uint64_t heads = (uint64_t)op->i[0] * op->a.ne[1], key_heads = (uint64_t)op->i[1];
    const size_t floats = cpu_part_floats((uint32_t)op->i[2]);
    if (floats > p->part_floats) p->part_floats = floats;
    if (!shares_positions(s, op)) return;
    /* The last batch of a key head may be incomplete. */
    const uint64_t queries = heads + key_heads * s->isa->queries;
    const uint64_t parts = queries * floats * ((op->b.ne[1] - 1) / CPU_POSITIONS + 1);
    if (parts > p->shared_parts) p->shared_parts = parts;
    if (heads > p->batches) p->batches = heads;
}

static void *cpu_prepare(void *state, const gk_op *ops, uint32_t count, const gk_plan_limits *limits) {
    cpu_state *s = state;
    (void)limits;
    prepared *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->ops = calloc(count, sizeof *p->ops);
    p->counters = calloc((size_t)count * (1 + s->nodes.count), sizeof *p->counters);
    uint64_t rows = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (!wants_ready(&ops[n])) continue;
        const size_t normed = gk_norm_of(&ops[n]) ? ((size_t)ops[n].b.ne[0] + 15) / 16 * 16 : 0;
        if (normed > p->normed_row) p->normed_row = normed;
        if (!gk_is_block_type(ops[n].a.type)) continue;
        size_t row = cpu_q8_row_bytes(ops[n].b.ne[0]);
        if (row > p->quant_row) p->quant_row = row;
        if (ops[n].b.ne[1] > rows) rows = ops[n].b.ne[1];
    }
    for (uint32_t n = 0; n < count; n++) measure_attention(s, p, &ops[n]);
    bool ok = p->ops != NULL && p->counters != NULL;
    if (ok && p->quant_row != 0) {
        uint64_t shared, own, all;
        ok = gk_mul_u64(rows, p->quant_row, &shared) && gk_mul_u64(s->threads, p->quant_row, &own) && gk_add_u64(shared, own, &all);
        p->quant_pages = ok ? gk_host_map(all, &p->quant_mapped) : NULL;
        p->quants = p->quant_pages;
        p->own_quants = (size_t)shared;
        ok = p->quants != NULL;
    }
    if (ok && p->normed_row != 0) {
        p->normed_pages = gk_host_map((uint64_t)s->threads * p->normed_row * sizeof(float), &p->normed_mapped);
        p->normed = p->normed_pages;
        ok = p->normed != NULL;
    }
    if (ok && p->part_floats != 0) {
        p->scores_of_thread = s->isa->queries * (CPU_POSITIONS + p->part_floats);
        const uint64_t floats = s->threads * p->scores_of_thread + p->shared_parts + p->batches;
        p->score_pages = gk_host_map(floats * sizeof(float), &p->score_mapped);
        p->scores = p->score_pages;
        ok = p->scores != NULL;
    }
    if (!ok) {
        cpu_discard(p);
        return NULL;
    }
    plan_ready(p->ops, ops, count);
    plan_barriers(p->ops, ops, count);
    return p;
}

/* ---- the backend ---- */

static void cpu_weight_put(void *state, unsigned char *weight, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    cpu_state *s = state;
    if (count <= CPU_GROUP && s->nodes.count == 1) { /* not worth waking the other threads */
        gk_cpu_weight_put(s->isa, weight, dst, rows, first, count);
        return;
    }
    put_job put = {.weight = weight, .dst = dst, .rows = rows, .first = first, .count = count};
    s->put = &put;
    run_together(s);
    s->put = NULL;
}

/* With more rows the threads share the norm, which the separate ops do. */
static const char *cpu_unsupported(const gk_op *op) {
    if (is_product(op) && gk_norm_of(op) && op->b.ne[1] > 1 && !(op->flags & GK_LAST_ROW)) return "the norm of a product has more than one row";
    return NULL;
}

static const gk_host_kernels CPU_KERNELS = {
    .weight_bytes = gk_cpu_weight_bytes,
    .weight_put = cpu_weight_put,
    .unsupported = cpu_unsupported,
    .prepare = cpu_prepare,
    .discard = cpu_discard,
    .run = cpu_run,
    .close = cpu_close,
};

static gk_status cpu_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    if (count == NULL || capacity < 0 || (out == NULL && capacity > 0)) {
        gk_text(why, why_capacity, "enumerate: an output argument is NULL");
        return GK_BAD_ARGUMENT;
    }
    const cpu_isa *isas[CPU_MOST_ISAS];
    *count = gk_cpu_isas(isas);
    for (int n = 0; n < *count && n < capacity; n++) {
        gk_device_info *info = &out[n];
        memset(info, 0, sizeof *info);
        gk_cpu_name(info->name, sizeof info->name);
        gk_text(info->arch, sizeof info->arch, "%s", isas[n]->name);
        info->kind = GK_KIND_CPU;
        gk_host_memory_of_machine(&info->memory_free, &info->memory_total);
        info->max_buffer = info->memory_total;
    }
    return GK_OK;
}

/* Starting fewer threads than requested is not a failure. */
static void start_threads(cpu_state *s, uint32_t wanted) {
    gk_barrier_init(&s->barrier, 1);
    s->threads = 1;
    while (s->threads < wanted) {
        worker *w = &s->workers[s->threads];
        w->state = s;
        w->index = s->threads;
        w->start = (gk_thread_start){work, w};
        /* A thread that arrives early waits for the count that it sees: raise the count first. */
        atomic_store(&s->barrier.count, s->threads + 1);
        if (!gk_thread_create(&w->thread, &w->start)) {
            atomic_store(&s->barrier.count, s->threads);
            return;
        }
        s->threads++;
    }
}

static gk_status cpu_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    const cpu_isa *isas[CPU_MOST_ISAS];
    int count = gk_cpu_isas(isas);
    if (out) *out = NULL;
    if (out == NULL || index < 0 || index >= count) {
        gk_text(why, why_capacity, "open: device %d does not exist, or `out` is NULL", index);
        return GK_BAD_ARGUMENT;
    }
    cpu_state *s = calloc(1, sizeof *s);
    if (s == NULL) {
        gk_text(why, why_capacity, "open: out of memory");
        return GK_OUT_OF_MEMORY;
    }
    const gk_topology machine = gk_topology_read();
    const uint32_t wanted = options && options->threads ? options->threads : machine.cores;
    const bool exact = options && (options->flags & GK_OPEN_EXACT);
    const uint32_t threads = wanted < MOST_THREADS ? wanted : MOST_THREADS;
    s->nodes.count = 1;
    if (options && (options->flags & GK_OPEN_BIND)) gk_nodes_read(&s->nodes);
    if (s->nodes.count > threads) s->nodes.count = threads;
    s->isa = exact && isas[index]->exact ? isas[index]->exact : isas[index];
    /* Spinning only helps while every thread has its own processor. */
    s->spin = wanted <= machine.processors ? SPIN_SECONDS : 0;
    start_threads(s, threads);
    gk_status status = gk_host_open(&CPU_KERNELS, s, out, why, why_capacity);
    if (status == GK_OK) (*out)->exact = exact;
    return status;
}

const gk_backend *gk_backend_cpu(void) {
    static const gk_backend backend = {
        .abi = GK_ABI,
        .id = "cpu",
        .enumerate = cpu_enumerate,
        .open = cpu_open,
        GK_HOST_ENTRIES,
    };
    return &backend;
}
