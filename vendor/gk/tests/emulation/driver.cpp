// A CUDA driver (GK_HIP = 0) or HIP runtime (GK_HIP = 1) that runs the kernels of gk on the CPU, for tests. It is
// stricter than real ones: work only starts when something waits for it, so a missing wait or a source that is freed
// too early is detected; fresh memory holds NaN; an access past the end of an allocation hits a guard page; a call
// without a current context, a foreign handle or a leak is an error.
//
// Faults are injected by environment variables: GK_EMULATE_INIT, GK_EMULATE_MODULE, GK_EMULATE_LAUNCH (a result to
// return), GK_EMULATE_INIT=crash or hang, GK_EMULATE_DEVICES (how many), GK_EMULATE_MEMORY (bytes), GK_EMULATE_VERSION
// (of CUDA, 13000), GK_EMULATE_CAPTURE=begin, launch, end, instantiate (where stream capture fails) or empty (it
// records nothing).
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "emulator.h"

namespace {

enum result {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901
};

typedef std::function<int()> work;

struct graph {
    std::vector<work> nodes;
};

struct stream {
    std::vector<work> queue;
    int device = 0;
    bool capturing = false;
    bool invalidated = false; // a call failed during the capture
    graph captured;
};

struct allocation {
    size_t bytes;  // as requested
    size_t mapped; // including the guard page
    char *mapping;
    int device;
};

std::recursive_mutex lock;
bool initialized;
std::map<uint64_t, allocation> allocations;
std::set<stream *> streams;
std::set<graph *> graphs;
std::set<int *> modules;
size_t allocated;
std::string last_failure; // of a kernel, for the error text
int sticky = OK;          // a failed kernel makes the context unusable
#if GK_HIP
thread_local int current_device = 0;
int current() { return current_device; }
#else
enum { MOST_DEVICES = 8 };
int context_counts[MOST_DEVICES];
char context_places[MOST_DEVICES];
thread_local std::vector<void *> context_stack;
int current() { return static_cast<int>(static_cast<char *>(context_stack.back()) - context_places); }
#endif
pid_t started_in;      // the process that called init: a fork of it must not call anything
int graphs_launched;

int number_from(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

bool capture_fault(const char *where) {
    const char *text = getenv("GK_EMULATE_CAPTURE");
    return text && strcmp(text, where) == 0;
}

size_t memory_total() {
    const char *text = getenv("GK_EMULATE_MEMORY");
    return text && *text ? strtoull(text, nullptr, 10) : static_cast<size_t>(1) << 30;
}

int device_total() { return number_from("GK_EMULATE_DEVICES", 1); } // at most 8

// The check at the start of every call on a device.
int usable() {
    if (!initialized || getpid() != started_in) return NOT_INITIALIZED;
    if (sticky != OK) return sticky;
#if !GK_HIP
    if (context_stack.empty() || context_counts[current()] == 0) return INVALID_CONTEXT;
#endif
    return OK;
}

#define REQUIRE_USABLE() \
    std::lock_guard<std::recursive_mutex> guard(lock); \
    do { \
        const int state_ = usable(); \
        if (state_ != OK) return state_; \
    } while (0)

bool inside(uint64_t address, size_t bytes) {
    auto at = allocations.upper_bound(address);
    if (at == allocations.begin()) return false;
    --at;
    return address - at->first <= at->second.bytes && bytes <= at->second.bytes - (address - at->first);
}

int drain(stream *which) {
    std::vector<work> queue;
    queue.swap(which->queue);
    for (const work &item : queue) {
        if (sticky == OK) sticky = item();
    }
    return sticky;
}

int drain_all() {
    for (stream *which : streams) drain(which);
    return sticky;
}

int enqueue(void *handle, bool may_capture, work item) {
    stream *to = static_cast<stream *>(handle);
    if (!streams.count(to) || to->device != current()) return INVALID_HANDLE;
    if (to->capturing && !capture_fault("empty")) {
        if (!may_capture || capture_fault("launch")) {
            to->invalidated = true;
            return CAPTURE_UNSUPPORTED;
        }
        to->captured.nodes.push_back(std::move(item));
    } else {
        to->queue.push_back(std::move(item));
    }
    return OK;
}

void drop(const allocation &which) { munmap(which.mapping, which.mapped); }

// ---- the functions, grouped by purpose ----

int emulate_init(unsigned flags) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    const char *text = getenv("GK_EMULATE_INIT");
    if (text && strcmp(text, "crash") == 0) raise(SIGSEGV);
    while (text && strcmp(text, "hang") == 0) pause();
    const int fault = number_from("GK_EMULATE_INIT", OK);
    if (flags != 0) return INVALID_VALUE;
    if (initialized && getpid() != started_in) return NOT_INITIALIZED;
    if (fault == OK) {
        initialized = true;
        started_in = getpid();
    }
    return fault;
}

int emulate_device_count(int *count) {
    if (!initialized) return NOT_INITIALIZED;
    *count = device_total();
    return OK;
}

int emulate_device_get(int *device, int ordinal) {
    if (!initialized) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= device_total()) return INVALID_DEVICE;
    *device = ordinal;
    return OK;
}

int emulate_device_name(char *name, int capacity, int) {
    snprintf(name, static_cast<size_t>(capacity), "emulated GPU (%d lanes)", GK_WARP);
    return OK;
}

int emulate_device_memory(size_t *bytes, int) {
    *bytes = memory_total();
    return OK;
}

int emulate_device_pci(char *text, int capacity, int device) {
    snprintf(text, static_cast<size_t>(capacity), "0000:%02X:00.0", 0xc0 + device);
    return OK;
}

int emulate_device_uuid(void *bytes, int device) {
    memset(bytes, 0x40 + device, 16);
    return OK;
}

int emulate_memory_info(size_t *free_bytes, size_t *total) {
    REQUIRE_USABLE();
    *total = memory_total();
    *free_bytes = *total > allocated ? *total - allocated : 0;
    return OK;
}

int emulate_memory_alloc(uint64_t *address, size_t bytes) {
    REQUIRE_USABLE();
    if (bytes == 0) return INVALID_VALUE;
    if (bytes > memory_total() || allocated > memory_total() - bytes) return OUT_OF_MEMORY;
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t rounded = (bytes + 255) / 256 * 256; // devices align to 256, so up to 255 bytes are unguarded
    allocation made;
    made.device = current();
    made.bytes = bytes;
    made.mapped = (rounded + page - 1) / page * page + page;
    void *memory = mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return OUT_OF_MEMORY;
    made.mapping = static_cast<char *>(memory);
    memset(made.mapping, 0xff, made.mapped - page);
    if (mprotect(made.mapping + made.mapped - page, page, PROT_NONE) != 0) abort();
    *address = reinterpret_cast<uint64_t>(made.mapping + made.mapped - page - rounded);
    allocations[*address] = made;
    emulator::watch_memory(*address, bytes);
    allocated += bytes;
    return OK;
}

int emulate_memory_free(uint64_t address) {
    REQUIRE_USABLE();
    const auto at = allocations.find(address);
    if (at == allocations.end() || at->second.device != current()) return INVALID_VALUE;
    drain_all(); // real drivers wait here too
    allocated -= at->second.bytes;
    emulator::forget_memory(address);
    drop(at->second);
    allocations.erase(at);
    return sticky;
}

int emulate_memory_zero(uint64_t address, unsigned char value, size_t bytes, void *on) {
    REQUIRE_USABLE();
    if (!inside(address, bytes)) return INVALID_VALUE;
    return enqueue(on, true, [=] {
        memset(reinterpret_cast<void *>(address), value, bytes);
        return OK;
    });
}

int emulate_copy_up(uint64_t to, const void *from, size_t bytes, void *on) {
    REQUIRE_USABLE();
    if (!inside(to, bytes)) return INVALID_VALUE;
    return enqueue(on, false, [=] {
        memcpy(reinterpret_cast<void *>(to), from, bytes);
        return OK;
    });
}

int emulate_copy_down(void *to, uint64_t from, size_t bytes, void *on) {
    REQUIRE_USABLE();
    if (!inside(from, bytes)) return INVALID_VALUE;
    return enqueue(on, false, [=] {
        memcpy(to, reinterpret_cast<void *>(from), bytes);
        return OK;
    });
}

int emulate_stream_create(void **out, unsigned flags) {
    REQUIRE_USABLE();
    if (flags > 1) return INVALID_VALUE;
    stream *made = new stream;
    made->device = current();
    streams.insert(made);
    *out = made;
    return OK;
}

int emulate_stream_destroy(void *handle) {
    REQUIRE_USABLE();
    stream *which = static_cast<stream *>(handle);
    if (!streams.count(which)) return INVALID_HANDLE;
    drain(which);
    streams.erase(which);
    delete which;
    return sticky;
}

int emulate_stream_wait(void *handle) {
    REQUIRE_USABLE();
    stream *which = static_cast<stream *>(handle);
    if (!streams.count(which)) return INVALID_HANDLE;
    if (which->capturing) return CAPTURE_UNSUPPORTED;
    return drain(which);
}

int emulate_module_load(void **out, const void *image) {
    REQUIRE_USABLE();
    const int fault = number_from("GK_EMULATE_MODULE", OK);
    if (fault != OK) return fault;
    if (!image) return INVALID_IMAGE;
    int *made = new int(0);
    modules.insert(made);
    *out = made;
    return OK;
}

int emulate_module_unload(void *handle) {
    REQUIRE_USABLE();
    int *which = static_cast<int *>(handle);
    if (!modules.erase(which)) return INVALID_HANDLE;
    delete which;
    return OK;
}

int emulate_module_function(void **out, void *handle, const char *name) {
    REQUIRE_USABLE();
    if (!modules.count(static_cast<int *>(handle))) return INVALID_HANDLE;
    const emulator::kernel *found = emulator::find(name);
    if (!found) return NOT_FOUND;
    *out = const_cast<emulator::kernel *>(found);
    return OK;
}

int emulate_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared_bytes, void *on, void **parameters, void **extra) {
    REQUIRE_USABLE();
    const emulator::kernel *what = static_cast<const emulator::kernel *>(function);
    const int fault = number_from("GK_EMULATE_LAUNCH", OK);
    if (fault != OK) return sticky = fault;
    if (!what || !parameters || extra || shared_bytes != 0) return INVALID_VALUE;
    gk_gpu_args args;
    memcpy(&args, parameters[0], sizeof args); // real drivers also copy at launch
    return enqueue(on, true, [=]() -> int {
        const char *failure = emulator::launch(*what, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, args);
        if (!failure) return OK;
        last_failure = failure;
        return LAUNCH_FAILED;
    });
}

int emulate_capture_begin(void *handle, int mode) {
    REQUIRE_USABLE();
    stream *which = static_cast<stream *>(handle);
    if (capture_fault("begin")) return NOT_SUPPORTED;
    if (!streams.count(which)) return INVALID_HANDLE;
    if (which->capturing || mode < 0 || mode > 2) return INVALID_VALUE;
    which->capturing = true;
    which->invalidated = false;
    which->captured.nodes.clear();
    return OK;
}

int emulate_capture_end(void *handle, void **out) {
    REQUIRE_USABLE();
    stream *which = static_cast<stream *>(handle);
    if (!streams.count(which)) return INVALID_HANDLE;
    if (!which->capturing) return INVALID_VALUE;
    which->capturing = false;
    *out = nullptr;
    if (which->invalidated || capture_fault("end")) return CAPTURE_INVALIDATED;
    graph *made = new graph(which->captured);
    graphs.insert(made);
    *out = made;
    return OK;
}

int emulate_graph_nodes(void *handle, void **nodes, size_t *count) {
    REQUIRE_USABLE();
    graph *which = static_cast<graph *>(handle);
    if (!graphs.count(which) || nodes) return INVALID_VALUE;
    *count = which->nodes.size();
    return OK;
}

int emulate_graph_instantiate(void **out, void *handle, unsigned long long flags) {
    REQUIRE_USABLE();
    graph *from = static_cast<graph *>(handle);
    if (!graphs.count(from) || flags != 0) return INVALID_VALUE;
    if (capture_fault("instantiate")) return NOT_SUPPORTED;
    graph *made = new graph(*from);
    graphs.insert(made);
    *out = made;
    return OK;
}

int emulate_graph_launch(void *handle, void *on) {
    REQUIRE_USABLE();
    graph *which = static_cast<graph *>(handle);
    if (!graphs.count(which)) return INVALID_HANDLE;
    ++graphs_launched;
    for (const work &item : which->nodes) {
        const int result = enqueue(on, false, item);
        if (result != OK) return result;
    }
    return OK;
}

int emulate_graph_destroy(void *handle) {
    REQUIRE_USABLE();
    graph *which = static_cast<graph *>(handle);
    if (!graphs.erase(which)) return INVALID_HANDLE;
    delete which;
    return OK;
}

const char *text_of(int result) {
    switch (result) {
    case OK: return "no error";
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case INVALID_CONTEXT: return "invalid device context";
    case NOT_INITIALIZED: return "initialization error";
    case LAUNCH_FAILED: return last_failure.empty() ? "unspecified launch failure" : last_failure.c_str();
    default: return "emulated error";
    }
}

// All resources must be released before the device.
void require_nothing_left() {
    if (allocations.empty() && streams.empty() && graphs.empty() && modules.empty()) return;
    if (sticky != OK) return; // an unusable context refuses to free
    fprintf(stderr, "emulated driver: left behind: %zu allocations, %zu streams, %zu graphs, %zu modules\n",
            allocations.size(), streams.size(), graphs.size(), modules.size());
    abort();
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
// For tests.
EXPORT int gk_emulated_graphs_launched() { return graphs_launched; }
#define ALIAS(name, parameters, call) \
    EXPORT int name parameters { return call; }

#if GK_HIP

// The release of the last device is not visible in HIP, so leaks are checked at the end of the process.
namespace {
struct at_end {
    ~at_end() { require_nothing_left(); }
} check_at_end;
} // namespace

ALIAS(hipInit, (unsigned flags), emulate_init(flags))
ALIAS(hipDriverGetVersion, (int *version), (*version = 60443482, 0))
ALIAS(hipRuntimeGetVersion, (int *version), (*version = 60443482, 0))
ALIAS(hipGetDeviceCount, (int *count), emulate_device_count(count))
ALIAS(hipDeviceGet, (int *device, int ordinal), emulate_device_get(device, ordinal))
ALIAS(hipDeviceGetName, (char *name, int capacity, int device), emulate_device_name(name, capacity, device))
ALIAS(hipDeviceTotalMem, (size_t *bytes, int device), emulate_device_memory(bytes, device))
ALIAS(hipDeviceGetPCIBusId, (char *text, int capacity, int device), emulate_device_pci(text, capacity, device))
ALIAS(hipDeviceGetAttribute, (int *value, int number, int), number == 63 ? (*value = 2, 0) : INVALID_VALUE) // multiprocessors: few, so that blocks loop
ALIAS(hipDeviceGetUuid, (void *bytes, int device), emulate_device_uuid(bytes, device))
ALIAS(hipGetDevice, (int *device), (*device = current_device, 0))
ALIAS(hipSetDevice, (int device), (device < 0 || device >= device_total()) ? INVALID_DEVICE : (current_device = device, 0))
ALIAS(hipMemGetInfo, (size_t *free_bytes, size_t *total), emulate_memory_info(free_bytes, total))
ALIAS(hipMalloc, (uint64_t *address, size_t bytes), emulate_memory_alloc(address, bytes))
ALIAS(hipFree, (uint64_t address), emulate_memory_free(address))
ALIAS(hipMemsetD8Async, (uint64_t to, unsigned char value, size_t bytes, void *on), emulate_memory_zero(to, value, bytes, on))
ALIAS(hipMemcpyHtoDAsync, (uint64_t to, const void *from, size_t bytes, void *on), emulate_copy_up(to, from, bytes, on))
ALIAS(hipMemcpyDtoHAsync, (void *to, uint64_t from, size_t bytes, void *on), emulate_copy_down(to, from, bytes, on))
ALIAS(hipStreamCreateWithFlags, (void **out, unsigned flags), emulate_stream_create(out, flags))
ALIAS(hipStreamDestroy, (void *on), emulate_stream_destroy(on))
ALIAS(hipStreamSynchronize, (void *on), emulate_stream_wait(on))
ALIAS(hipModuleLoadData, (void **out, const void *image), emulate_module_load(out, image))
ALIAS(hipModuleUnload, (void *module), emulate_module_unload(module))
ALIAS(hipModuleGetFunction, (void **out, void *module, const char *name), emulate_module_function(out, module, name))
ALIAS(hipModuleLaunchKernel, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                              void *on, void **parameters, void **extra),
      emulate_launch(f, gx, gy, gz, bx, by, bz, shared, on, parameters, extra))
ALIAS(hipStreamBeginCapture, (void *on, int mode), emulate_capture_begin(on, mode))
ALIAS(hipStreamEndCapture, (void *on, void **out), emulate_capture_end(on, out))
ALIAS(hipGraphGetNodes, (void *from, void **nodes, size_t *count), emulate_graph_nodes(from, nodes, count))
ALIAS(hipGraphInstantiateWithFlags, (void **out, void *from, unsigned long long flags), emulate_graph_instantiate(out, from, flags))
ALIAS(hipGraphLaunch, (void *executable, void *on), emulate_graph_launch(executable, on))
ALIAS(hipGraphExecDestroy, (void *executable), emulate_graph_destroy(executable))
ALIAS(hipGraphDestroy, (void *which), emulate_graph_destroy(which))
EXPORT const char *hipGetErrorString(int result) { return text_of(result); }

#else

namespace {
int context_retain(void **out, int device) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (!initialized) return NOT_INITIALIZED;
    if (device < 0 || device >= device_total()) return INVALID_DEVICE;
    if (getpid() != started_in) return NOT_INITIALIZED;
    ++context_counts[device];
    *out = &context_places[device];
    return OK;
}

int context_release(int device) {
    std::lock_guard<std::recursive_mutex> guard(lock);
    if (getpid() != started_in) return NOT_INITIALIZED;
    if (device < 0 || device >= device_total() || context_counts[device] == 0) return INVALID_CONTEXT;
    --context_counts[device];
    for (const int count : context_counts)
        if (count > 0) return OK;
    require_nothing_left();
    sticky = OK;
    return OK;
}

int context_push(void *context) {
    if (getpid() != started_in) return NOT_INITIALIZED;
    if (context < context_places || context >= context_places + MOST_DEVICES) return INVALID_CONTEXT;
    context_stack.push_back(context);
    return OK;
}

int context_pop(void **out) {
    if (context_stack.empty()) return INVALID_CONTEXT;
    *out = context_stack.back();
    context_stack.pop_back();
    return OK;
}

int attribute(int *value, int number, int) {
    switch (number) {
    case 16: *value = 2; return OK; // multiprocessors: few, so that blocks loop
    case 18: *value = 0; return OK;
    case 75: *value = 9; return OK;
    case 76: *value = 0; return OK;
    default: return INVALID_VALUE;
    }
}

int error_text(int result, const char **text) {
    *text = text_of(result);
    return OK;
}
} // namespace

ALIAS(cuInit, (unsigned flags), emulate_init(flags))
EXPORT int gk_emulated_contexts() { return static_cast<int>(context_stack.size()); } // contexts current on this thread
ALIAS(cuDriverGetVersion, (int *version), (*version = number_from("GK_EMULATE_VERSION", 13000), 0))
ALIAS(cuDeviceGetCount, (int *count), emulate_device_count(count))
ALIAS(cuDeviceGet, (int *device, int ordinal), emulate_device_get(device, ordinal))
ALIAS(cuDeviceGetName, (char *name, int capacity, int device), emulate_device_name(name, capacity, device))
ALIAS(cuDeviceTotalMem_v2, (size_t *bytes, int device), emulate_device_memory(bytes, device))
ALIAS(cuDeviceGetPCIBusId, (char *text, int capacity, int device), emulate_device_pci(text, capacity, device))
ALIAS(cuDeviceGetUuid_v2, (void *bytes, int device), emulate_device_uuid(bytes, device))
ALIAS(cuDeviceGetAttribute, (int *value, int number, int device), attribute(value, number, device))
ALIAS(cuDevicePrimaryCtxRetain, (void **out, int device), context_retain(out, device))
ALIAS(cuDevicePrimaryCtxRelease_v2, (int device), context_release(device))
ALIAS(cuCtxPushCurrent_v2, (void *context), context_push(context))
ALIAS(cuCtxPopCurrent_v2, (void **out), context_pop(out))
ALIAS(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total), emulate_memory_info(free_bytes, total))
ALIAS(cuMemAlloc_v2, (uint64_t *address, size_t bytes), emulate_memory_alloc(address, bytes))
ALIAS(cuMemFree_v2, (uint64_t address), emulate_memory_free(address))
ALIAS(cuMemsetD8Async, (uint64_t to, unsigned char value, size_t bytes, void *on), emulate_memory_zero(to, value, bytes, on))
ALIAS(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *on), emulate_copy_up(to, from, bytes, on))
ALIAS(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *on), emulate_copy_down(to, from, bytes, on))
ALIAS(cuStreamCreate, (void **out, unsigned flags), emulate_stream_create(out, flags))
ALIAS(cuStreamDestroy_v2, (void *on), emulate_stream_destroy(on))
ALIAS(cuStreamSynchronize, (void *on), emulate_stream_wait(on))
ALIAS(cuModuleLoadData, (void **out, const void *image), emulate_module_load(out, image))
ALIAS(cuModuleUnload, (void *module), emulate_module_unload(module))
ALIAS(cuModuleGetFunction, (void **out, void *module, const char *name), emulate_module_function(out, module, name))
ALIAS(cuLaunchKernel, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void *on, void **parameters, void **extra),
      emulate_launch(f, gx, gy, gz, bx, by, bz, shared, on, parameters, extra))
// CUlaunchConfig up to the attributes; a launch that may start early starts in order here.
struct launch_config {
    unsigned gx, gy, gz, bx, by, bz, shared;
    void *on;
};
ALIAS(cuLaunchKernelEx, (const launch_config *c, void *f, void **parameters, void **extra),
      emulate_launch(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->on, parameters, extra))
ALIAS(cuStreamBeginCapture_v2, (void *on, int mode), emulate_capture_begin(on, mode))
ALIAS(cuStreamEndCapture, (void *on, void **out), emulate_capture_end(on, out))
ALIAS(cuGraphGetNodes, (void *from, void **nodes, size_t *count), emulate_graph_nodes(from, nodes, count))
ALIAS(cuGraphInstantiateWithFlags, (void **out, void *from, unsigned long long flags), emulate_graph_instantiate(out, from, flags))
ALIAS(cuGraphLaunch, (void *executable, void *on), emulate_graph_launch(executable, on))
ALIAS(cuGraphExecDestroy, (void *executable), emulate_graph_destroy(executable))
ALIAS(cuGraphDestroy, (void *which), emulate_graph_destroy(which))
ALIAS(cuGetErrorString, (int result, const char **text), error_text(result, text))

#endif
