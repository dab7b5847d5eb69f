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

/* ---- matrix times vector ---- */

typedef struct matvec {
    gk_buffer *weight, *state;
    gk_plan *plan;
    double bytes; /* read per run */
} matvec;

static const char *matvec_new(const gk_backend *b, gk_device *d, uint32_t type, uint64_t bytes, matvec *m) {
    enum { K = 4096 };
    uint32_t rows = (uint32_t)(bytes / gk_row_bytes(type, K)) / 64 * 64;
    if (rows == 0) return "--bytes is too small";
    gk_tensor w = {.type = type, .ne = {K, rows, 1, 1}};
    uint64_t size = b->weight_bytes(d, type, K, rows);
    if (size == 0) return "no weights of this type";
    if (b->alloc(d, size, GK_USAGE_WEIGHT, &m->weight) != GK_OK) return "out of memory";
    if (b->alloc(d, (K + 64 + (uint64_t)rows) * 4, GK_USAGE_STATE, &m->state) != GK_OK) return "out of memory";
    w.buffer = m->weight;
    enum { CHUNK = 64 };
    uint64_t row_bytes = gk_row_bytes(type, K);
    unsigned char *chunk = must_alloc(row_bytes * CHUNK);
    uint32_t random = 1;
    for (uint64_t n = 0; n < row_bytes * CHUNK; n++) chunk[n] = (unsigned char)((random = random * 1664525u + 1013904223u) >> 24);
    for (uint64_t block = 0; type == GK_Q8_0 && block < CHUNK * K / 32; block++) memcpy(chunk + block * 34, &(uint16_t){0x2000}, 2);
    for (uint64_t n = 0; type == GK_F16 && n < row_bytes * CHUNK; n += 2) chunk[n + 1] &= 0xbb; /* finite, below 2 */
    for (uint64_t first = 0; first < rows; first += CHUNK) {
        if (b->weight_put(d, &w, chunk, first, CHUNK) != GK_OK) return "weight_put failed";
    }
    free(chunk);
    float *x = must_alloc(K * sizeof *x);
    for (int n = 0; n < K; n++) x[n] = (float)(n % 17) - 8;
    if (b->write(d, m->state, 0, x, K * sizeof *x) != GK_OK) return "write failed";
    free(x);
    gk_op op = {.code = GK_OP_MATMUL, .a = w};
    op.b = (gk_tensor){.buffer = m->state, .type = GK_F32, .ne = {K, 1, 1, 1}};
    op.dst = (gk_tensor){.buffer = m->state, .offset = K * 4, .type = GK_F32, .ne = {rows, 1, 1, 1}};
    m->bytes = (double)gk_row_bytes(type, K) * rows;
    return b->plan_build(d, &op, 1, &m->plan) == GK_OK ? NULL : "plan_build failed";
}

static double matvec_seconds(const gk_backend *b, gk_device *d, const matvec *m) {
    double start = gk_seconds();
    if (b->plan_run(d, m->plan, &(gk_step){.n_tok = 1}, 1) != GK_OK || b->sync(d) != GK_OK) return 1e30;
    return gk_seconds() - start;
}

int bench(const gk_backend *b, int index, uint64_t bytes) {
    char why[256] = "";
    gk_device *d = NULL;
    if (b->open(index, NULL, &d, why, sizeof why) != GK_OK) {
        fprintf(stderr, "gk-test: %s: %s\n", b->id, why);
        return 3;
    }
    matvec types[2] = {{0}};
    const char *error = matvec_new(b, d, GK_Q8_0, bytes, &types[0]);
    if (error == NULL) error = matvec_new(b, d, GK_F16, bytes, &types[1]);
    if (error) {
        fprintf(stderr, "gk-test: %s: %s: %s\n", b->id, error, b->last_error(d));
        b->close(d);
        return 1;
    }
    double best[3] = {1e30, 1e30, 1e30};
    reader *r = reader_new(bytes);
    /* In turns, so that a machine that slows down does so for all. */
    for (int round = 0; round < 7; round++) {
        double seconds[3] = {r ? reader_seconds(r) : 1e30, matvec_seconds(b, d, &types[0]), matvec_seconds(b, d, &types[1])};
        for (int n = 0; n < 3; n++) best[n] = seconds[n] < best[n] ? seconds[n] : best[n];
    }
    double read = r ? (double)r->bytes / best[0] : 0, q8 = types[0].bytes / best[1], f16 = types[1].bytes / best[2];
    printf("{\"backend\":\"%s\",\"device\":%d,\"threads\":%d,\"read_bytes_per_s\":%.4g,\"q8_0_bytes_per_s\":%.4g,\"f16_bytes_per_s\":%.4g,"
           "\"q8_0_fraction\":%.3f,\"f16_fraction\":%.3f}\n",
           b->id, index, r ? (int)r->threads : 0, read, q8, f16, read > 0 ? q8 / read : 0, read > 0 ? f16 / read : 0);
    reader_free(r);
    b->close(d);
    return 0;
}
