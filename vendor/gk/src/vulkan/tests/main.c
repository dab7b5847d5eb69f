/* gk-vulkan-test: what gk-test can't test, because it concerns failing drivers and files.
 *
 *   gk-vulkan-test fault STATUS TEXT   runs a small plan; the first failure must have this status and contain TEXT.
 *                                      faulty_loader.c injects the fault, selected by the environment.
 *   gk-vulkan-test cache FOLDER        the pipeline cache: written, read, and ignored when damaged.
 *   gk-vulkan-test rounding TYPE yes|no  does a matmul of many tokens with weights of TYPE (q8_0, f16) round its activations, as
 *                                      integer dot products and cooperative matrices require? Never with few tokens, and never
 *                                      on a device that was opened with GK_OPEN_EXACT.
 *
 * Exit code: 0 passed, 1 failed, 2 usage, 3 no device. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gk_internal.h"

enum { N = 256 };

typedef struct session {
    const gk_backend *backend;
    gk_device *device;
    gk_buffer *buffer;
    gk_plan *plan;
    char text[256];
} session;

static gk_status keep(session *s, gk_status status) {
    if (status != GK_OK) gk_text(s->text, sizeof s->text, "%s", s->backend->last_error(s->device));
    return status;
}

static gk_status start_with(session *s, const gk_open_options *options) {
    *s = (session){.backend = gk_backend_vulkan()};
    gk_device_info info;
    int count = 0;
    gk_status status = s->backend->enumerate(&info, 1, &count, s->text, sizeof s->text);
    if (status != GK_OK) return status;
    return s->backend->open(0, options, &s->device, s->text, sizeof s->text);
}

static gk_status start(session *s, const char *cache_dir) {
    return start_with(s, &(gk_open_options){.cache_dir = cache_dir});
}

/* dst = a + a over N floats, checked. */
static gk_status work(session *s) {
    const gk_backend *b = s->backend;
    float data[2 * N];
    for (int n = 0; n < N; n++) data[n] = (float)n;
    gk_status status = keep(s, b->alloc(s->device, sizeof data, GK_USAGE_STATE, &s->buffer));
    if (status == GK_OK) status = keep(s, b->write(s->device, s->buffer, 0, data, N * sizeof *data));
    if (status != GK_OK) return status;
    gk_tensor a = {.buffer = s->buffer, .type = GK_F32, .ne = {N, 1, 1, 1}};
    gk_op op = {.code = GK_OP_ADD, .dst = a, .a = a, .b = a};
    op.dst.offset = N * sizeof *data;
    status = keep(s, b->plan_build(s->device, &op, 1, &s->plan));
    if (status == GK_OK) status = keep(s, b->plan_run(s->device, s->plan, &(gk_step){.n_tok = 1}, 1));
    if (status == GK_OK) status = keep(s, b->sync(s->device));
    if (status == GK_OK) status = keep(s, b->read(s->device, s->buffer, 0, data, sizeof data));
    for (int n = 0; n < N && status == GK_OK; n++) {
        if (data[N + n] == 2 * (float)n) continue;
        gk_text(s->text, sizeof s->text, "element %d is %g", n, (double)data[N + n]);
        status = GK_FAILED;
    }
    return status;
}

static void stop(session *s) {
    s->backend->plan_free(s->device, s->plan);
    s->backend->release(s->device, s->buffer);
    s->backend->close(s->device);
}

/* Is there a device that works without an injected fault? */
static bool has_device(void) {
    session s;
    bool found = start(&s, NULL) == GK_OK;
    if (!found) printf("skipped: %s\n", s.text);
    s.backend->close(s.device);
    return found;
}

static int test_fault(const char *wanted_status, const char *wanted_text) {
    char fault[64];
    gk_text(fault, sizeof fault, "%s", getenv("GK_VULKAN_FAULT") ? getenv("GK_VULKAN_FAULT") : "");
    unsetenv("GK_VULKAN_FAULT");
    if (!has_device()) return 3;
    setenv("GK_VULKAN_FAULT", fault, 1);
    session s;
    gk_status status = start(&s, NULL);
    /* Faults of running devices start here. */
    if (status == GK_OK) setenv("GK_VULKAN_FAULT_NOW", "1", 1);
    if (status == GK_OK) status = work(&s);
    bool right = strcmp(gk_status_text(status), wanted_status) == 0 && strstr(s.text, wanted_text) != NULL;
    if (status == GK_DEVICE_LOST) {
        unsetenv("GK_VULKAN_FAULT_NOW"); /* a lost device stays lost */
        right = right && s.backend->sync(s.device) == GK_DEVICE_LOST;
        gk_buffer *buffer;
        right = right && s.backend->alloc(s.device, 64, GK_USAGE_STATE, &buffer) == GK_DEVICE_LOST && buffer == NULL;
    }
    printf("%s: %s: %s\n", right ? "ok" : "FAILED", gk_status_text(status), s.text);
    stop(&s);
    return right ? 0 : 1;
}

/* ---- the cache ---- */

/* Finds the cache file in the folder; returns the number of files there. */
static int find_file(const char *folder, char *path, size_t capacity) {
    int count = 0;
    DIR *all = opendir(folder);
    if (all == NULL) return -1;
    for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        gk_text(path, capacity, "%s/%s", folder, entry->d_name);
        count++;
    }
    closedir(all);
    return count;
}

static long file_bytes(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static bool overwrite(const char *path, long offset, const void *data, size_t bytes) {
    FILE *file = fopen(path, "r+b");
    bool done = file != NULL && fseek(file, offset, SEEK_SET) == 0 && fwrite(data, bytes, 1, file) == 1;
    return file != NULL && fclose(file) == 0 && done;
}

static bool run_with(const char *folder, const char *what) {
    session s;
    gk_status status = start(&s, folder);
    if (status == GK_OK) status = work(&s);
    printf("%s: cache %s: %s\n", status == GK_OK ? "ok" : "FAILED", what, s.text);
    stop(&s);
    return status == GK_OK;
}

static int test_cache(const char *folder) {
    if (!has_device()) return 3;
    char path[1024] = "", missing[1024];
    mkdir(folder, 0700);
    if (find_file(folder, path, sizeof path) > 0) remove(path);
    bool right = run_with(folder, "first start") && find_file(folder, path, sizeof path) == 1;
    long bytes = file_bytes(path);
    right = right && bytes > 24 && run_with(folder, "second start");
    /* Every kind of damage is ignored, and the file is valid again afterwards. */
    right = right && truncate(path, bytes / 2) == 0 && run_with(folder, "cut in half") && file_bytes(path) == bytes;
    right = right && truncate(path, 0) == 0 && run_with(folder, "empty") && file_bytes(path) == bytes;
    right = right && overwrite(path, bytes - 1, "\x5a", 1) && run_with(folder, "last byte changed");
    right = right && overwrite(path, 0, "garbage!", 8) && run_with(folder, "garbage") && file_bytes(path) == bytes;
    right = right && overwrite(path, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) && run_with(folder, "huge length");
    right = right && file_bytes(path) == bytes && find_file(folder, path, sizeof path) == 1;
    gk_text(missing, sizeof missing, "%s/none/of/these", folder);
    right = right && run_with(missing, "missing folder");
    if (!right) printf("FAILED: `%s` has %ld bytes, expected %ld\n", path, file_bytes(path), bytes);
    return right ? 0 : 1;
}

/* ---- rounding ---- */

/* A row of weights that is 1 at element 1, and activations in which this element shows a rounding: 0.25 is lost in
 * steps of 100 / 127, as is the last bit of 1 + 2^-12 in f16. */
typedef struct rounding_case {
    uint32_t type;
    unsigned char row[64];
    float x[2], rounded;
} rounding_case;

static const rounding_case ROUNDINGS[] = {
    {.type = GK_Q8_0, .row = {0x00, 0x3c, 0, 1}, .x = {100, 0.25f}, .rounded = 0}, /* the scale 1.0, then bytes */
    {.type = GK_F16, .row = {0, 0, 0x00, 0x3c}, .x = {0, 1.000244140625f}, .rounded = 1},
};

static gk_status second_of(session *s, const rounding_case *c, uint32_t tokens, float *out) {
    enum { K = 32, WEIGHT_AT = 0, X_AT = 4096, DST_AT = 16384, BYTES = 20480 };
    const gk_backend *b = s->backend;
    float x[32 * K] = {0};
    for (uint32_t t = 0; t < tokens; t++) memcpy(x + t * K, c->x, sizeof c->x);
    gk_status status = keep(s, b->alloc(s->device, BYTES, GK_USAGE_STATE, &s->buffer));
    if (status != GK_OK) return status;
    const gk_op op = {.code = GK_OP_MATMUL,
                      .a = {.buffer = s->buffer, .offset = WEIGHT_AT, .type = c->type, .ne = {K, 1, 1, 1}},
                      .b = {.buffer = s->buffer, .offset = X_AT, .type = GK_F32, .ne = {K, tokens, 1, 1}},
                      .dst = {.buffer = s->buffer, .offset = DST_AT, .type = GK_F32, .ne = {1, tokens, 1, 1}}};
    status = keep(s, b->weight_put(s->device, &op.a, c->row, 0, 1));
    if (status == GK_OK) status = keep(s, b->write(s->device, s->buffer, X_AT, x, tokens * K * sizeof *x));
    if (status == GK_OK) status = keep(s, b->plan_build(s->device, &op, 1, &s->plan));
    if (status == GK_OK) status = keep(s, b->plan_run(s->device, s->plan, &(gk_step){.n_tok = tokens}, 1));
    if (status == GK_OK) status = keep(s, b->read(s->device, s->buffer, DST_AT, out, sizeof *out));
    return status;
}

static bool rounds(const rounding_case *c, uint32_t flags, uint32_t tokens, bool wanted) {
    session s;
    float result = -1;
    gk_status status = start_with(&s, &(gk_open_options){.flags = flags});
    if (status == GK_OK) status = second_of(&s, c, tokens, &result);
    const bool right = status == GK_OK && result == (wanted ? c->rounded : c->x[1]);
    printf("%s: %u tokens, flags %u: %s %.9g %s\n", right ? "ok" : "FAILED", (unsigned)tokens, (unsigned)flags, gk_status_text(status),
           (double)result, s.text);
    stop(&s);
    return right;
}

static int test_rounding(const char *type, bool wanted) {
    if (!has_device()) return 3;
    const rounding_case *c = &ROUNDINGS[strcmp(type, "f16") == 0 ? 1 : 0];
    bool right = rounds(c, 0, 32, wanted);
    right = rounds(c, 0, 9, wanted) && right;
    right = rounds(c, 0, 8, false) && right;
    right = rounds(c, 0, 1, false) && right;
    right = rounds(c, GK_OPEN_EXACT, 32, false) && right;
    return right ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "fault") == 0) return test_fault(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "cache") == 0) return test_cache(argv[2]);
    if (argc == 4 && strcmp(argv[1], "rounding") == 0) return test_rounding(argv[2], strcmp(argv[3], "yes") == 0);
    fprintf(stderr, "usage: gk-vulkan-test fault STATUS TEXT | cache FOLDER | rounding q8_0|f16 yes|no\n");
    return 2;
}
