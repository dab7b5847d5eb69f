/* Speed in bytes per second of matrix times vector for each type, and of its upper bound: a loop on the CPU that
 * only reads, or a copy on the device. */
#include "gk_test.h"
#include "host.h"
#include "thread.h"
#include "topology.h"

/* ---- the read loop ---- */

typedef struct reader_part {
    const uint64_t *words;
    size_t count;
    uint64_t sum;
} reader_part;

typedef struct reader {
    void *pages;
    uint64_t mapped, bytes;
    uint32_t threads;
    reader_part parts[64];
} reader;

static void read_part(void *argument) {
    reader_part *part = argument;
    uint64_t sums[16] = {0};
    for (size_t n = 0; n + 16 <= part->count; n += 16) {
        for (int k = 0; k < 16; k++) sums[k] += part->words[n + (size_t)k];
    }
    for (int k = 0; k < 16; k++) part->sum += sums[k];
}

static reader *reader_new(uint64_t bytes, uint32_t threads) {
    reader *r = must_alloc(sizeof *r);
    r->bytes = bytes / 4096 * 4096;
    r->pages = gk_host_map(r->bytes, &r->mapped);
    if (r->pages == NULL) {
        free(r);
        return NULL;
    }
    memset(r->pages, 1, (size_t)r->bytes);
    r->threads = threads < 64 ? threads : 64;
    size_t words = (size_t)(r->bytes / 8 / r->threads) / 16 * 16;
    for (uint32_t n = 0; n < r->threads; n++) r->parts[n] = (reader_part){(const uint64_t *)r->pages + n * words, words, 0};
    return r;
}

static double reader_seconds(reader *r) {
    gk_thread threads[64];
    gk_thread_start starts[64];
    bool running[64] = {false};
    double start = gk_seconds();
    for (uint32_t n = 1; n < r->threads; n++) {
        starts[n] = (gk_thread_start){read_part, &r->parts[n]};
        running[n] = gk_thread_create(&threads[n], &starts[n]);
    }
    read_part(&r->parts[0]);
    for (uint32_t n = 1; n < r->threads; n++) {
        if (running[n]) gk_thread_join(threads[n]);
        else read_part(&r->parts[n]);
    }
    return gk_seconds() - start;
}

static void reader_free(reader *r) {
    if (r == NULL) return;
    uint64_t sum = 0;
    for (uint32_t n = 0; n < r->threads; n++) sum += r->parts[n].sum;
    if (sum == 0) fprintf(stderr, "gk-test: nothing was read\n"); /* uses the sums, so that the loop is not removed */
    gk_host_unmap(r->pages, r->mapped);
    free(r);
}

/* ---- a copy on the device ---- */

/* A COPY of f32 rows from one half of a buffer to the other. */
typedef struct copier {
    gk_buffer *buffer;
    gk_plan *plan;
    uint32_t rows;
    double bytes; /* read and written */
    double best;  /* seconds */
} copier;

static const char *copier_new(const gk_backend *b, gk_device *d, uint64_t bytes, uint64_t largest, copier *c) {
    enum { WIDTH = 1 << 14 };
    uint64_t available = 0, total = 0;
    if (b->memory(d, &available, &total) != GK_OK) return "querying memory failed";
    /* Large enough that launching and waiting, some 20 microseconds, do not matter. */
    const uint64_t least = 2048ull << 20, quarter = available / 4;
    const uint64_t most = largest == 0 || quarter < largest / 2 ? quarter : largest / 2;
    uint64_t half = bytes / 4 > least ? bytes / 4 : least;
    half = (half < most ? half : most) / (4 * WIDTH) * (4 * WIDTH);
    if (half == 0) return "out of memory";
    if (b->alloc(d, 2 * half, GK_USAGE_STATE, &c->buffer) != GK_OK) return "out of memory";
    gk_op op = {.code = GK_OP_COPY};
    c->rows = (uint32_t)(half / (4 * WIDTH));
    op.a = (gk_tensor){.buffer = c->buffer, .type = GK_F32, .ne = {WIDTH, c->rows, 1, 1}};
    op.dst = op.a;
    op.dst.offset = half;
    c->bytes = 2.0 * (double)half;
    c->best = 1e30;
    return b->plan_build(d, &op, 1, &c->plan) == GK_OK ? NULL : "plan_build failed";
}

/* ---- matrix times vector, and times many ---- */

/* Rows of a prompt that are computed at once: on a CPU, on a GPU. */
enum { MANY_CPU = 64, MANY_GPU = 512, MOST_MATRICES = 512, ROUNDS = 7 };

/* Width and rows of the matrices in a layer of a model with 8 billion weights. */
static const uint32_t SHAPES[][2] = {{4096, 4096}, {4096, 14336}, {14336, 4096}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof *SHAPES, WIDEST = 14336 };

/* As many matrices as fit in `--bytes`, in one plan: together they exceed the caches, and each has the size of a
 * real model's. */
typedef struct products {
    uint32_t type, many, count;
    gk_buffer *weights[MOST_MATRICES], *state;
    gk_plan *one, *several;
    double bytes, multiplications; /* read for one row of activations; for `many` rows */
    double best_one, best_many;    /* seconds */
} products;

/* Random bits, except for scales, which are small numbers. */
static void fill(unsigned char *rows, uint32_t type, uint64_t bytes) {
    uint32_t random = 1;
    for (uint64_t n = 0; n < bytes; n++) rows[n] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
    const uint32_t block = gk_type_block_bytes(type), scale = type == GK_Q6_K ? 208 : 0;
    const uint16_t small = 0x2000;
    for (uint64_t n = 0; n < bytes; n += block) {
        if (type == GK_F32) memcpy(rows + n, &(float){(float)rows[n] / 256}, 4);
        else if (!gk_is_block_type(type)) rows[n + 1] &= type == GK_F16 ? 0xbb : 0xbf; /* below 2 */
        else memcpy(rows + n + scale, &small, sizeof small);
        if (type == GK_Q4_K) memcpy(rows + n + 2, &small, sizeof small);
    }
}

/* Rows of the next matrix: fewer than in a model if `--bytes` is not large enough. */
static uint32_t rows_within(uint32_t type, const uint32_t *shape, double left) {
    const double rows = left / (double)gk_row_bytes(type, shape[0]);
    return rows < shape[1] ? (uint32_t)rows / 64 * 64 : shape[1];
}

static const char *weight_fill(const gk_backend *b, gk_device *d, const gk_tensor *w) {
    enum { CHUNK = 64 };
    const uint64_t row_bytes = gk_row_bytes(w->type, w->ne[0]);
    unsigned char *chunk = must_alloc(row_bytes * CHUNK);
    fill(chunk, w->type, row_bytes * CHUNK);
    bool ok = true;
    for (uint64_t first = 0; first < w->ne[1] && ok; first += CHUNK) ok = b->weight_put(d, w, chunk, first, CHUNK) == GK_OK;
    free(chunk);
    return ok ? NULL : "weight_put failed";
}

static const char *plan_new(const gk_backend *b, gk_device *d, const products *p, const gk_tensor *weights, uint32_t rows, gk_plan **out) {
    static gk_op ops[MOST_MATRICES];
    for (uint32_t n = 0; n < p->count; n++) {
        const gk_tensor *w = &weights[n];
        ops[n] = (gk_op){.code = GK_OP_MATMUL, .a = *w};
        ops[n].b = (gk_tensor){.buffer = p->state, .type = GK_F32, .ne = {w->ne[0], rows, 1, 1}};
        ops[n].dst = (gk_tensor){.buffer = p->state, .offset = 4ull * WIDEST * p->many, .type = GK_F32, .ne = {w->ne[1], rows, 1, 1}};
    }
    return b->plan_build(d, ops, p->count, out) == GK_OK ? NULL : "plan_build failed";
}

static const char *products_new(const gk_backend *b, gk_device *d, uint64_t bytes, products *p) {
    static gk_tensor weights[MOST_MATRICES];
    if (b->weight_bytes(d, p->type, SHAPES[0][0], SHAPES[0][1]) == 0) return NULL; /* the backend does not have this type */
    while (p->count < MOST_MATRICES) {
        const uint32_t *shape = SHAPES[p->count % SHAPE_COUNT], rows = rows_within(p->type, shape, (double)bytes - p->bytes);
        if (rows == 0) break;
        gk_tensor *w = &weights[p->count];
        *w = (gk_tensor){.type = p->type, .ne = {shape[0], rows, 1, 1}};
        if (b->alloc(d, b->weight_bytes(d, p->type, shape[0], rows), GK_USAGE_WEIGHT, &p->weights[p->count]) != GK_OK) return "out of memory";
        w->buffer = p->weights[p->count++];
        const char *error = weight_fill(b, d, w);
        if (error) return error;
        p->bytes += (double)gk_row_bytes(p->type, shape[0]) * rows;
        p->multiplications += (double)shape[0] * rows * p->many;
    }
    if (p->count == 0) return "--bytes is too small";
    const uint32_t count = WIDEST * p->many;
    if (b->alloc(d, 8ull * count, GK_USAGE_STATE, &p->state) != GK_OK) return "out of memory";
    float *x = must_alloc(sizeof *x * count);
    for (uint32_t n = 0; n < count; n++) x[n] = (float)(n % 17) - 8;
    const bool written = b->write(d, p->state, 0, x, sizeof *x * count) == GK_OK;
    free(x);
    if (!written) return "write failed";
    p->best_one = p->best_many = 1e30;
    const char *error = plan_new(b, d, p, weights, 1, &p->one);
    return error ? error : plan_new(b, d, p, weights, p->many, &p->several);
}

/* Frees the memory for the next type. */
static void products_free(const gk_backend *b, gk_device *d, products *p) {
    b->plan_free(d, p->one);
    b->plan_free(d, p->several);
    for (uint32_t n = 0; n < p->count; n++) b->release(d, p->weights[n]);
    b->release(d, p->state);
}

static void measure(const gk_backend *b, gk_device *d, gk_plan *plan, uint32_t rows, double *best) {
    double start = gk_seconds();
    if (b->plan_run(d, plan, &(gk_step){.n_tok = rows}, 1) != GK_OK || b->sync(d) != GK_OK) return;
    double seconds = gk_seconds() - start;
    *best = seconds < *best ? seconds : *best;
}

/* ---- the benchmark ---- */

/* The bound that the products are compared with. */
typedef struct reference {
    reader *reader; /* CPU threads, if the CPU is the device; NULL: a copy on the device */
    copier copier;
    double best; /* bytes per second */
    char name[64];
} reference;

static const char *reference_new(const gk_backend *b, gk_device *d, uint64_t bytes, const gk_device_info *info, uint32_t threads, reference *r) {
    if (info->kind != GK_KIND_CPU && info->kind != GK_KIND_SOFTWARE) {
        gk_text(r->name, sizeof r->name, "copy on the device");
        return copier_new(b, d, bytes, info->max_buffer, &r->copier);
    }
    r->reader = reader_new(bytes, threads ? threads : gk_topology_read().cores);
    if (r->reader == NULL) return "out of memory";
    gk_text(r->name, sizeof r->name, "loop of %u threads that read", r->reader->threads);
    return NULL;
}

static void reference_measure(const gk_backend *b, gk_device *d, reference *r) {
    if (r->reader == NULL) measure(b, d, r->copier.plan, r->copier.rows, &r->copier.best);
    const double seconds = r->reader ? reader_seconds(r->reader) : r->copier.best;
    const double speed = (r->reader ? (double)r->reader->bytes : r->copier.bytes) / seconds;
    if (speed > r->best) r->best = speed;
}

static const char *replay_name(const gk_backend *b, gk_device *d, gk_plan *plan) {
    static const char *const names[] = {"host", "launches", "commands", "graph"};
    gk_plan_info info = {.replay = GK_REPLAY_HOST};
    return b->plan_info(d, plan, &info) == GK_OK && info.replay <= GK_REPLAY_GRAPH ? names[info.replay] : "";
}

/* Measures one type and prints its figures after `comma`; prints nothing if the backend does not have the type. */
static const char *bench_type(const gk_backend *b, gk_device *d, uint64_t bytes, reference *r, uint32_t type, const char *comma) {
    products p = {.type = type, .many = r->reader ? MANY_CPU : MANY_GPU};
    const char *error = products_new(b, d, bytes, &p);
    /* Interleaved, so that a machine that slows down affects both. */
    for (int round = 0; round < ROUNDS && p.one && p.several; round++) {
        reference_measure(b, d, r);
        measure(b, d, p.one, 1, &p.best_one);
        if (round % 3 == 0) measure(b, d, p.several, p.many, &p.best_many);
    }
    if (error == NULL && p.one) {
        const double speed = p.bytes / p.best_one;
        printf("%s\"%s\":{\"bytes_per_s\":%.4g,\"fraction\":%.3f,\"multiplications_per_s_of_%u_rows\":%.4g,\"matrices\":%u,\"replay\":\"%s\"}",
               comma, gk_type_name(type), speed, speed / r->best, p.many, p.multiplications / p.best_many, p.count, replay_name(b, d, p.one));
    }
    products_free(b, d, &p);
    return error;
}

static const char *bench_types(const gk_backend *b, gk_device *d, uint64_t bytes, reference *r) {
    static const uint32_t types[] = {GK_F32, GK_F16, GK_BF16, GK_Q8_0, GK_Q6_K, GK_Q4_K, GK_Q4_0};
    const char *error = NULL, *comma = "";
    printf("\"types\":{");
    for (size_t n = 0; n < sizeof types / sizeof *types && error == NULL; n++) {
        if (b->weight_bytes(d, types[n], SHAPES[0][0], SHAPES[0][1]) == 0) continue;
        error = bench_type(b, d, bytes, r, types[n], comma);
        comma = ",";
    }
    printf("},\"reference_bytes_per_s\":%.4g}\n", r->best);
    return error;
}

int bench(const gk_backend *b, int index, uint64_t bytes, const gk_open_options *options) {
    char why[256] = "";
    gk_device *d = NULL;
    gk_device_info infos[16];
    int count = 0;
    if (b->enumerate(infos, 16, &count, why, sizeof why) != GK_OK || index >= count || index >= 16 ||
        b->open(index, options, &d, why, sizeof why) != GK_OK) {
        fprintf(stderr, "gk-test: %s: %s\n", b->id, why[0] ? why : "no such device");
        return 3;
    }
    reference r = {.best = 0};
    const char *error = reference_new(b, d, bytes, &infos[index], options->threads, &r);
    if (error == NULL) {
        printf("{\"backend\":\"%s\",\"device\":%d,\"name\":", b->id, index);
        print_json_text(infos[index].name);
        printf(",\"rounds\":%d,\"reference\":\"%s\",", (int)ROUNDS, r.name);
        error = bench_types(b, d, bytes, &r);
    }
    if (error) fprintf(stderr, "gk-test: %s: %s: %s\n", b->id, error, b->last_error(d));
    reader_free(r.reader);
    b->close(d);
    return error ? 1 : 0;
}
