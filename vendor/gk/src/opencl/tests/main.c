/* gk-opencl-test: what gk-test can't test, because it concerns failing drivers and files.
 *
 *   gk-opencl-test fault STATUS TEXT   runs a small plan; the first failure must have this status and contain TEXT.
 *                                      faulty_loader.c injects the fault, selected by the environment.
 *   gk-opencl-test cache FOLDER        the cache of compiled kernels: written, read, and ignored when damaged.
 *
 * Exit code: 0 passed, 1 failed, 2 usage, 3 no device. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_file.h"

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

static gk_status start(session *s, const char *cache_dir) {
    *s = (session){.backend = gk_backend_opencl()};
    gk_device_info info;
    int count = 0;
    gk_status status = s->backend->enumerate(&info, 1, &count, s->text, sizeof s->text);
    if (status != GK_OK) return status;
    return s->backend->open(0, &(gk_open_options){.cache_dir = cache_dir}, &s->device, s->text, sizeof s->text);
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
    gk_text(fault, sizeof fault, "%s", getenv("GK_OPENCL_FAULT") ? getenv("GK_OPENCL_FAULT") : "");
    unsetenv("GK_OPENCL_FAULT");
    /* A loader that lacks a function never has a device. */
    if (strcmp(fault, "without-fill") != 0 && !has_device()) return 3;
    setenv("GK_OPENCL_FAULT", fault, 1);
    session s;
    gk_status status = start(&s, NULL);
    /* Faults of running devices start here. */
    if (status == GK_OK) setenv("GK_OPENCL_FAULT_NOW", "1", 1);
    if (status == GK_OK) status = work(&s);
    bool right = strcmp(gk_status_text(status), wanted_status) == 0 && strstr(s.text, wanted_text) != NULL;
    if (status == GK_DEVICE_LOST) {
        unsetenv("GK_OPENCL_FAULT_NOW"); /* a lost device stays lost */
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

/* Changes whenever the file is replaced. */
static unsigned long file_id(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? (unsigned long)info.st_ino : 0;
}

/* Its size may change: some drivers add further compiled code. */
static bool is_whole(const char *path) {
    uint64_t bytes;
    uint8_t *data = gk_cache_read(path, "GKCLPC01", &bytes);
    free(data);
    return data != NULL;
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

/* Changes bytes of the file and updates its checksum: what another driver or an attacker could have written. */
static bool rewrite(const char *path, uint64_t offset, uint64_t bytes) {
    uint64_t size = 0;
    uint8_t *data = gk_cache_read(path, "GKCLPC01", &size);
    bool done = data != NULL && offset + bytes <= size;
    if (done) memset(data + offset, 0x5a, (size_t)bytes);
    if (done) gk_cache_write(path, "GKCLPC01", data, size);
    free(data);
    return done;
}

/* Offset of the driver's bytes in a file with one entry: after the owner and the header of the entry. */
static uint64_t first_binary(void) { return sizeof(char[512]) + sizeof(uint64_t) + 9 * sizeof(uint32_t) + 4 + sizeof(uint64_t); }

static int test_cache(const char *folder) {
    if (!has_device()) return 3;
    char path[1024] = "", missing[1024];
    mkdir(folder, 0700);
    if (find_file(folder, path, sizeof path) > 0) remove(path);
    bool right = run_with(folder, "first start") && find_file(folder, path, sizeof path) == 1;
    long bytes = file_bytes(path);
    unsigned long id = file_id(path);
    right = right && bytes > 24 && run_with(folder, "second start") && file_id(path) == id; /* nothing was compiled */
    /* Every kind of damage is ignored, and the file is valid again afterwards. */
    right = right && truncate(path, bytes / 2) == 0 && run_with(folder, "cut in half") && is_whole(path);
    right = right && truncate(path, 0) == 0 && run_with(folder, "empty") && is_whole(path);
    right = right && overwrite(path, bytes - 1, "\x5a", 1) && run_with(folder, "last byte changed") && is_whole(path);
    right = right && overwrite(path, 0, "garbage!", 8) && run_with(folder, "garbage") && is_whole(path);
    right = right && overwrite(path, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8) && run_with(folder, "huge length");
    right = right && is_whole(path) && find_file(folder, path, sizeof path) == 1;
    right = right && rewrite(path, 0, 8) && run_with(folder, "of another driver") && is_whole(path);
    right = right && rewrite(path, first_binary(), 64) && run_with(folder, "with an invalid binary");
    right = right && rewrite(path, first_binary() - 8, 8);
    id = file_id(path);
    right = right && run_with(folder, "with an entry that is too long");
    right = right && is_whole(path) && file_id(path) != id;
    gk_text(missing, sizeof missing, "%s/none/of/these", folder);
    right = right && run_with(missing, "missing folder");
    if (!right) printf("FAILED: `%s` is not a valid cache file (%ld bytes)\n", path, file_bytes(path));
    return right ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "fault") == 0) return test_fault(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "cache") == 0) return test_cache(argv[2]);
    fprintf(stderr, "usage: gk-opencl-test fault STATUS TEXT | cache FOLDER\n");
    return 2;
}
