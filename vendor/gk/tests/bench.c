/* Speed in bytes per second: a loop that only reads, and matrix times vector on weights of the same size. */
#include "gk_test.h"
#include "host.h"
#include "thread.h"

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

static reader *reader_new(uint64_t bytes) {
    reader *r = must_alloc(sizeof *r);
    r->bytes = bytes / 4096 * 4096;
    r->pages = gk_host_map(r->bytes, &r->mapped);
    if (r->pages == NULL) {
        free(r);
        return NULL;
    }
    memset(r->pages, 1, (size_t)r->bytes);
    r->threads = gk_thread_cores() < 64 ? gk_thread_cores() : 64;
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
    if (sum == 0) fprintf(stderr, "gk-test: nothing was read\n"); /* uses the sums: the loop stays */
    gk_host_unmap(r->pages, r->mapped);
    free(r);
}

/* ---- matrix times vector, and times many ---- */

enum { MANY = 64 };

typedef struct products {
    uint32_t type;
    gk_buffer *weight, *state;
    gk_plan *one, *many;
    double bytes, multiplications; /* read by one row of activations; done for MANY */
    double best_one, best_many;    /* seconds */
} products;

/* Any bits, but for scales: those are small numbers. */
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

static const char *plan_new(const gk_backend *b, gk_device *d, products *p, const gk_tensor *w, uint32_t rows, gk_plan **out) {
    gk_op op = {.code = GK_OP_MATMUL, .a = *w};
    op.b = (gk_tensor){.buffer = p->state, .type = GK_F32, .ne = {w->ne[0], rows, 1, 1}};
    op.dst = (gk_tensor){.buffer = p->state, .offset = 4ull * w->ne[0] * MANY, .type = GK_F32, .ne = {w->ne[1], rows, 1, 1}};
    return b->plan_build(d, &op, 1, out) == GK_OK ? NULL : "plan_build failed";
}

static const char *products_new(const gk_backend *b, gk_device *d, uint64_t bytes, products *p) {
    enum { K = 4096, CHUNK = 64 };
    const uint64_t row_bytes = gk_row_bytes(p->type, K);
    const uint32_t rows = (uint32_t)(bytes / row_bytes) / CHUNK * CHUNK;
    if (rows == 0) return "--bytes is too small";
    gk_tensor w = {.type = p->type, .ne = {K, rows, 1, 1}};
    uint64_t size = b->weight_bytes(d, p->type, K, rows);
    if (size == 0) return NULL; /* a type that this backend does not have */
    if (b->alloc(d, size, GK_USAGE_WEIGHT, &p->weight) != GK_OK) return "out of memory";
    if (b->alloc(d, 4ull * MANY * (K + rows), GK_USAGE_STATE, &p->state) != GK_OK) return "out of memory";
    w.buffer = p->weight;
    unsigned char *chunk = must_alloc(row_bytes * CHUNK);
    fill(chunk, p->type, row_bytes * CHUNK);
    for (uint64_t first = 0; first < rows; first += CHUNK) {
        if (b->weight_put(d, &w, chunk, first, CHUNK) != GK_OK) return "weight_put failed";
    }
    free(chunk);
    float *x = must_alloc(sizeof *x * K * MANY);
    for (int n = 0; n < K * MANY; n++) x[n] = (float)(n % 17) - 8;
    if (b->write(d, p->state, 0, x, sizeof *x * K * MANY) != GK_OK) return "write failed";
    free(x);
    p->bytes = (double)row_bytes * rows;
    p->multiplications = (double)K * rows * MANY;
    p->best_one = p->best_many = 1e30;
    const char *error = plan_new(b, d, p, &w, 1, &p->one);
    return error ? error : plan_new(b, d, p, &w, MANY, &p->many);
}

static void measure(const gk_backend *b, gk_device *d, gk_plan *plan, uint32_t rows, double *best) {
    double start = gk_seconds();
    if (b->plan_run(d, plan, &(gk_step){.n_tok = rows}, 1) != GK_OK || b->sync(d) != GK_OK) return;
    double seconds = gk_seconds() - start;
    *best = seconds < *best ? seconds : *best;
}

int bench(const gk_backend *b, int index, uint64_t bytes, uint32_t flags) {
    char why[256] = "";
    gk_device *d = NULL;
    if (b->open(index, &(gk_open_options){.flags = flags}, &d, why, sizeof why) != GK_OK) {
        fprintf(stderr, "gk-test: %s: %s\n", b->id, why);
        return 3;
    }
    products all[] = {{.type = GK_F32}, {.type = GK_F16}, {.type = GK_BF16}, {.type = GK_Q8_0},
                      {.type = GK_Q6_K}, {.type = GK_Q4_K}, {.type = GK_Q4_0}};
    const size_t count = sizeof all / sizeof *all;
    for (size_t n = 0; n < count; n++) {
        const char *error = products_new(b, d, bytes, &all[n]);
        if (error == NULL) continue;
        fprintf(stderr, "gk-test: %s: %s: %s: %s\n", b->id, gk_type_name(all[n].type), error, b->last_error(d));
        b->close(d);
        return 1;
    }
    double best_read = 1e30;
    reader *r = reader_new(bytes);
    /* In turns, so that a machine that slows down does so for all. */
    for (int round = 0; round < 7; round++) {
        double seconds = r ? reader_seconds(r) : 1e30;
        best_read = seconds < best_read ? seconds : best_read;
        for (size_t n = 0; n < count; n++) {
            if (all[n].one) measure(b, d, all[n].one, 1, &all[n].best_one);
            if (all[n].many && round % 3 == 0) measure(b, d, all[n].many, MANY, &all[n].best_many);
        }
    }
    double read = r ? (double)r->bytes / best_read : 0;
    printf("{\"backend\":\"%s\",\"device\":%d,\"threads\":%d,\"read_bytes_per_s\":%.4g,\"types\":{", b->id, index, r ? (int)r->threads : 0, read);
    const char *comma = "";
    for (size_t n = 0; n < count; n++) {
        if (all[n].one == NULL) continue;
        double speed = all[n].bytes / all[n].best_one;
        printf("%s\"%s\":{\"bytes_per_s\":%.4g,\"fraction\":%.3f,\"multiplications_per_s_of_%d_rows\":%.4g}", comma, gk_type_name(all[n].type),
               speed, read > 0 ? speed / read : 0, (int)MANY, all[n].multiplications / all[n].best_many);
        comma = ",";
    }
    printf("}}\n");
    reader_free(r);
    b->close(d);
    return 0;
}
