/* gk-lifetimes <cuda|rocm>: tests devices beyond single ops, on the emulated driver with two devices: threads,
 * forks, lost devices, captures of a plan that fail. Exit code 0, or 1 with one line for each failure. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gk.h"

static const gk_backend *backend;
static int failures;
static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what, const char *detail) {
    (void)pthread_mutex_lock(&failures_lock);
    fprintf(stderr, "FAILED %s: %s\n", what, detail);
    failures++;
    (void)pthread_mutex_unlock(&failures_lock);
}

/* Calls a query function of the emulated driver, which is already loaded. */
static int ask(const char *name) {
    int (*function)(void) = NULL;
    void *library = dlopen(strcmp(backend->id, "cuda") == 0 ? "libcuda.so.1" : "libamdhip64.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *object = library ? dlsym(library, name) : NULL;
    memcpy(&function, &object, sizeof function);
    return function ? function() : 0;
}

static gk_device *open_device(const char *what, int index) {
    gk_device *device = NULL;
    char why[512] = "";
    if (backend->open(index, NULL, &device, why, sizeof why) != GK_OK) fail(what, why);
    return device;
}

enum { WIDTH = 96, ROWS = 3 };

/* Of the most recent plan of the thread. */
static _Thread_local gk_plan_info last_plan;

/* dst = (a + b) * a with a plan of two ops, `turns` times, with a different a each time. GK_OK if every result is
 * correct. */
static gk_status solve(gk_device *device, int turns) {
    static const uint64_t bytes = WIDTH * ROWS * sizeof(float);
    gk_buffer *buffers[3] = {NULL, NULL, NULL};
    gk_tensor tensors[3];
    gk_plan *plan = NULL;
    gk_op ops[2];
    float a[WIDTH * ROWS], b[WIDTH * ROWS], dst[WIDTH * ROWS];
    gk_status status = GK_OK;
    for (int n = 0; n < 3 && status == GK_OK; n++) {
        status = backend->alloc(device, bytes, GK_USAGE_STATE, &buffers[n]);
        tensors[n] = (gk_tensor){.buffer = buffers[n], .type = GK_F32, .ne = {WIDTH, ROWS, 1, 1}};
    }
    if (status == GK_OK) {
        ops[0] = (gk_op){.code = GK_OP_ADD, .dst = tensors[2], .a = tensors[0], .b = tensors[1]};
        ops[1] = (gk_op){.code = GK_OP_MUL, .dst = tensors[2], .a = tensors[2], .b = tensors[0]};
        status = backend->plan_build(device, ops, 2, &plan);
        if (status == GK_OK) status = backend->plan_info(device, plan, &last_plan);
    }
    for (int turn = 1; turn <= turns && status == GK_OK; turn++) {
        const gk_step step = {.n_tok = ROWS};
        for (int n = 0; n < WIDTH * ROWS; n++) {
            a[n] = (float)(n % 17 + turn);
            b[n] = (float)(n % 5);
        }
        status = backend->write(device, buffers[0], 0, a, bytes);
        if (status == GK_OK) status = backend->write(device, buffers[1], 0, b, bytes);
        if (status == GK_OK) status = backend->plan_run(device, plan, &step, 1);
        if (status == GK_OK) status = backend->read(device, buffers[2], 0, dst, bytes);
        for (int n = 0; n < WIDTH * ROWS && status == GK_OK; n++)
            if (dst[n] != (a[n] + b[n]) * a[n]) {
                fail("solve", "a wrong result");
                status = GK_FAILED;
            }
    }
    backend->plan_free(device, plan);
    for (int n = 0; n < 3; n++) backend->release(device, buffers[n]);
    return status;
}

static void demand(const char *what, gk_device *device, gk_status status) {
    if (status != GK_OK) fail(what, backend->last_error(device));
    if (ask("gk_emulated_contexts") != 0) fail(what, "a context was left current");
}

/* ---- threads ---- */

typedef struct errand {
    const char *what;
    gk_device *device;
    int index;
    int turns;
} errand;

static void *use_in_thread(void *context) {
    errand *e = context;
    if (!e->device) e->device = open_device(e->what, e->index);
    if (e->device) demand(e->what, e->device, solve(e->device, e->turns));
    return NULL;
}

static void *close_in_thread(void *context) {
    backend->close(context);
    return NULL;
}

static void threads(void) {
    pthread_t thread, other;
    errand first = {"opened here, used in a thread", open_device("threads", 0), 0, 3};
    errand second = {"a device in a separate thread", NULL, 1, 20};
    if (!first.device || pthread_create(&thread, NULL, use_in_thread, &first) != 0) goto no_thread;
    (void)pthread_join(thread, NULL);
    first.turns = 20;
    if (pthread_create(&thread, NULL, use_in_thread, &first) != 0 || pthread_create(&other, NULL, use_in_thread, &second) != 0)
        goto no_thread;
    (void)pthread_join(thread, NULL);
    (void)pthread_join(other, NULL);
    if (pthread_create(&thread, NULL, close_in_thread, first.device) != 0) goto no_thread;
    (void)pthread_join(thread, NULL);
    /* The other device keeps working. */
    demand("after another device was closed", second.device, solve(second.device, 1));
    backend->close(second.device);
    return;
no_thread:
    fail("threads", "a thread cannot be started");
}

/* ---- forks ---- */

static void forks(void) {
    gk_device *device = open_device("forks", 0);
    demand("before a fork", device, solve(device, 1));
    const pid_t child = fork();
    if (child == 0) {
        const gk_status status = solve(device, 1);
        const int told = strstr(backend->last_error(device), "fork") != NULL;
        backend->close(device); /* must neither damage the parent's device nor crash */
        _exit(status == GK_FAILED && told ? 0 : 1);
    }
    int how = 1;
    if (child < 0 || waitpid(child, &how, 0) != child || how != 0) fail("forks", "the child got no reason why its device does not work");
    demand("after a fork", device, solve(device, 1));
    backend->close(device);
}

/* ---- lost devices ---- */

static void lost(const char *fault) {
    gk_device *device = open_device("lost", 0);
    gk_buffer *kept = NULL;
    char bytes[64];
    demand("before the loss", device, backend->alloc(device, 64, GK_USAGE_STATE, &kept));
    (void)setenv("GK_EMULATE_LAUNCH", fault, 1);
    if (solve(device, 1) != GK_DEVICE_LOST) fail("lost", "a failing kernel does not report a lost device");
    (void)unsetenv("GK_EMULATE_LAUNCH");
    if (backend->read(device, kept, 0, bytes, 64) != GK_DEVICE_LOST) fail("lost", "later calls do not report the lost device");
    if (backend->sync(device) != GK_DEVICE_LOST) fail("lost", "sync does not report the lost device");
    backend->close(device);
}

/* ---- captures ---- */

/* `words` must be in the note of a plan whose graph could not be created. */
static void capture(const char *fault, const char *words) {
    (void)setenv("GK_EMULATE_CAPTURE", fault, 1);
    gk_device *device = open_device("capture", 0);
    const int before = ask("gk_emulated_graphs_launched");
    demand(fault, device, solve(device, 3));
    const int launched = ask("gk_emulated_graphs_launched") - before;
    if (launched != (*fault ? 0 : 3)) fail(*fault ? fault : "capture", "the number of launched graphs is unexpected");
    if (last_plan.launches != 2) fail(fault, "plan_info does not report two launches");
    if (last_plan.replay != (*fault ? GK_REPLAY_LAUNCHES : GK_REPLAY_GRAPH)) fail(fault, "plan_info reports another kind of replay");
    if (!strstr(last_plan.note, words) || !*words != !*last_plan.note) fail(last_plan.note, "plan_info does not report why the graph is missing");
    backend->close(device);
    (void)unsetenv("GK_EMULATE_CAPTURE");
}

int main(int argc, char **argv) {
    backend = argc == 2 && strcmp(argv[1], "rocm") == 0 ? gk_backend_rocm() : gk_backend_cuda();
    capture("", "");
    capture("begin", "starting the capture failed: ");
    capture("launch", "a launch in the capture failed: ");
    capture("end", "ending the capture failed: ");
    capture("instantiate", "instantiating the graph failed: ");
    capture("empty", "the capture has 0 of 2 launches");
    threads();
    forks();
    /* HIP's emulation cannot recover from a lost device. */
    if (strcmp(backend->id, "cuda") == 0) lost("700");
    lost("719");
    if (failures == 0) printf("lifetimes on %s: passed\n", backend->id);
    return failures ? 1 : 0;
}
