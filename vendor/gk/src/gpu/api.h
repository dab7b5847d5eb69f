/* The driver as a table of functions, filled at run time from the vendor's library. CUDA's driver API and HIP have
 * the same shape, so one table with two columns of names serves both; nothing of a vendor's headers is needed.
 * Included once, by cuda.c or rocm.c, like every header of this folder with functions in it. */
#ifndef GK_GPU_API_H
#define GK_GPU_API_H

#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "gk_internal.h"

/* Results that need an answer of their own; the numbers are the same in CUresult and hipError_t. */
enum {
    GPU_SUCCESS = 0,
    GPU_INVALID_VALUE = 1,
    GPU_OUT_OF_MEMORY = 2,
    GPU_NOT_INITIALIZED = 3,
    GPU_STUB_LIBRARY = 34,
    GPU_NO_DRIVER_INSTALLED = 35, /* hipErrorInsufficientDriver */
    GPU_DEVICE_UNAVAILABLE = 46,
    GPU_NO_DEVICE = 100,
    GPU_INVALID_DEVICE = 101,
    GPU_NO_LICENCE = 102,
    GPU_INVALID_IMAGE = 200,
    GPU_NO_BINARY = 209,
    GPU_ECC = 214,
    GPU_INVALID_PTX = 218, /* hipErrorInvalidKernelFile */
    GPU_NVLINK = 220,
    GPU_NO_JIT = 221, /* the part of the driver that compiles PTX is missing */
    GPU_UNSUPPORTED_PTX = 222,
    GPU_INVALID_SOURCE = 300,
    GPU_ILLEGAL_ADDRESS = 700,
    GPU_LAUNCH_TIMEOUT = 702,
    GPU_ASSERT = 710,
    GPU_HARDWARE_STACK = 714,
    GPU_ILLEGAL_INSTRUCTION = 715,
    GPU_MISALIGNED_ADDRESS = 716,
    GPU_INVALID_ADDRESS_SPACE = 717,
    GPU_INVALID_COUNTER = 718,
    GPU_LAUNCH_FAILED = 719,
    GPU_SYSTEM_NOT_READY = 802,
    GPU_DRIVER_MISMATCH = 803,
    GPU_COMPAT_NOT_SUPPORTED = 804,
    GPU_UNKNOWN = 999
};

enum { GPU_ATTRIBUTE_INTEGRATED = 18, GPU_ATTRIBUTE_MAJOR = 75, GPU_ATTRIBUTE_MINOR = 76 }; /* CUdevice_attribute */
/* Relaxed: the driver may load a kernel's code at its first launch, which the stricter modes forbid in a capture. */
enum { GPU_STREAM_NON_BLOCKING = 1, GPU_CAPTURE_RELAXED = 2 };

/* X(field, parameters, name in CUDA, name in HIP, needed). An empty name: that vendor has no such function.
 * Device addresses are 64-bit numbers, handles are pointers; a result is an int. */
#define GPU_FUNCTIONS(X) \
    X(init, (unsigned flags), "cuInit", "hipInit", 1) \
    X(driver_version, (int *version), "cuDriverGetVersion", "hipDriverGetVersion", 1) \
    X(runtime_version, (int *version), "", "hipRuntimeGetVersion", 0) \
    X(device_count, (int *count), "cuDeviceGetCount", "hipGetDeviceCount", 1) \
    X(device_get, (int *device, int ordinal), "cuDeviceGet", "hipDeviceGet", 1) \
    X(device_name, (char *name, int capacity, int device), "cuDeviceGetName", "hipDeviceGetName", 1) \
    X(device_memory, (size_t *bytes, int device), "cuDeviceTotalMem_v2", "hipDeviceTotalMem", 1) \
    X(device_pci, (char *text, int capacity, int device), "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", 1) \
    X(device_uuid, (void *bytes16, int device), "cuDeviceGetUuid_v2", "hipDeviceGetUuid", 0) \
    X(device_uuid_old, (void *bytes16, int device), "cuDeviceGetUuid", "", 0) \
    X(device_attribute, (int *value, int attribute, int device), "cuDeviceGetAttribute", "", 1) \
    X(context_retain, (void **context, int device), "cuDevicePrimaryCtxRetain", "", 1) \
    X(context_release, (int device), "cuDevicePrimaryCtxRelease_v2", "", 1) \
    X(context_push, (void *context), "cuCtxPushCurrent_v2", "", 1) \
    X(context_pop, (void **context), "cuCtxPopCurrent_v2", "", 1) \
    X(device_current, (int *device), "", "hipGetDevice", 1) \
    X(device_select, (int device), "", "hipSetDevice", 1) \
    X(memory_info, (size_t *free_bytes, size_t *total), "cuMemGetInfo_v2", "hipMemGetInfo", 1) \
    X(memory_alloc, (uint64_t *address, size_t bytes), "cuMemAlloc_v2", "hipMalloc", 1) \
    X(memory_free, (uint64_t address), "cuMemFree_v2", "hipFree", 1) \
    X(memory_zero, (uint64_t address, unsigned char value, size_t bytes, void *stream), \
      "cuMemsetD8Async", "hipMemsetD8Async", 1) \
    X(copy_up, (uint64_t to, const void *from, size_t bytes, void *stream), \
      "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", 1) \
    X(copy_down, (void *to, uint64_t from, size_t bytes, void *stream), \
      "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", 1) \
    X(stream_create, (void **stream, unsigned flags), "cuStreamCreate", "hipStreamCreateWithFlags", 1) \
    X(stream_destroy, (void *stream), "cuStreamDestroy_v2", "hipStreamDestroy", 1) \
    X(stream_wait, (void *stream), "cuStreamSynchronize", "hipStreamSynchronize", 1) \
    X(module_load, (void **module, const void *image), "cuModuleLoadData", "hipModuleLoadData", 1) \
    X(module_unload, (void *module), "cuModuleUnload", "hipModuleUnload", 1) \
    X(module_function, (void **function, void *module, const char *name), \
      "cuModuleGetFunction", "hipModuleGetFunction", 1) \
    X(launch, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
               unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra), \
      "cuLaunchKernel", "hipModuleLaunchKernel", 1) \
    X(capture_begin, (void *stream, int mode), "cuStreamBeginCapture_v2", "hipStreamBeginCapture", 0) \
    X(capture_end, (void *stream, void **graph), "cuStreamEndCapture", "hipStreamEndCapture", 0) \
    X(graph_nodes, (void *graph, void **nodes, size_t *count), "cuGraphGetNodes", "hipGraphGetNodes", 0) \
    X(graph_instantiate, (void **executable, void *graph, unsigned long long flags), \
      "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", 0) \
    X(graph_launch, (void *executable, void *stream), "cuGraphLaunch", "hipGraphLaunch", 0) \
    X(graph_executable_destroy, (void *executable), "cuGraphExecDestroy", "hipGraphExecDestroy", 0) \
    X(graph_destroy, (void *graph), "cuGraphDestroy", "hipGraphDestroy", 0)

typedef struct gpu_api {
#define X(field, parameters, cuda, hip, needed) int(*field) parameters;
    GPU_FUNCTIONS(X)
#undef X
    int (*cuda_error_text)(int result, const char **text); /* cuGetErrorString */
    const char *(*hip_error_text)(int result);             /* hipGetErrorString */
    char library[96];                                      /* the name that was opened */
} gpu_api;

/* What cuda.c and rocm.c say about themselves. */
typedef struct gpu_vendor {
    const char *driver;         /* "the CUDA driver" */
    const char *const *libraries; /* names in order, then NULL */
    int hip;                    /* which column of GPU_FUNCTIONS */
    const char *toolkit;        /* what compiled the image: "CUDA 13.0"; empty if not known */
    const char *architectures;  /* what the image was compiled for */
    const unsigned char *image;
    /* Fills arch, driver and kind of one device. */
    void (*describe)(const gpu_api *, int device, gk_device_info *);
    /* Status and text for a result of init or device_count, or GK_OK to use the common ones. */
    gk_status (*explain)(const gpu_api *, int result, char *why, size_t capacity);
    /* What to do where the image cannot be loaded on a device; empty if that is not known. */
    void (*advise)(const gpu_api *, int device, int result, char *advice, size_t capacity);
} gpu_vendor;

typedef void (*gpu_symbol)(void);

static gpu_symbol gpu_find_symbol(void *library, const char *name) {
#ifdef _WIN32
    return (gpu_symbol)GetProcAddress((HMODULE)library, name);
#else
    /* POSIX lets an object pointer from dlsym hold a function; ISO C has no cast for it. */
    gpu_symbol function = NULL;
    void *object = dlsym(library, name);
    memcpy(&function, &object, sizeof function);
    return function;
#endif
}

/* Drivers stay loaded: they start threads and handlers that do not survive being unloaded. */
static void *gpu_open_library(const char *name, char *why, size_t capacity) {
#ifdef _WIN32
    /* A name is looked for in the system's folders, a path is taken as it is; never the current folder. */
    void *library = (void *)LoadLibraryExA(name, NULL, strchr(name, '\\') ? LOAD_WITH_ALTERED_SEARCH_PATH
                                                                           : LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    if (!library) gk_text(why, capacity, "`%s`: error %lu", name, (unsigned long)GetLastError());
#else
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        gk_text(why, capacity, "%s", text ? text : name);
    }
#endif
    return library;
}

static gk_status gpu_api_load(const gpu_vendor *vendor, gpu_api *api, char *why, size_t why_capacity) {
    char first[256] = "";
    char names[256] = "";
    void *library = NULL;
    memset(api, 0, sizeof *api);
    for (const char *const *name = vendor->libraries; *name && !library; name++) {
        char reason[256] = "";
        size_t used = strlen(names);
        library = gpu_open_library(*name, reason, sizeof reason);
        gk_text(names + used, sizeof names - used, "%s`%s`", used ? ", " : "", *name);
        gk_text(api->library, sizeof api->library, "%s", *name);
        if (!library && !first[0]) memcpy(first, reason, sizeof first);
    }
    if (!library) {
        gk_text(why, why_capacity, "%s is not here: looked for %s (%s)", vendor->driver, names, first);
        return GK_NO_DRIVER;
    }
    static const struct {
        const char *name[2];
        size_t offset;
        int needed;
    } functions[] = {
#define X(field, parameters, cuda, hip, needed) {{cuda, hip}, offsetof(gpu_api, field), needed},
        GPU_FUNCTIONS(X)
#undef X
        {{"cuGetErrorString", ""}, offsetof(gpu_api, cuda_error_text), 1},
        {{"", "hipGetErrorString"}, offsetof(gpu_api, hip_error_text), 1},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const char *name = functions[i].name[vendor->hip];
        if (!name[0]) continue;
        gpu_symbol symbol = gpu_find_symbol(library, name);
        if (!symbol && functions[i].needed) {
            gk_text(why, why_capacity, "`%s` has no function `%s`: %s is too old, or the file is not it", api->library,
                    name, vendor->driver);
            return GK_TOO_OLD;
        }
        memcpy((char *)api + functions[i].offset, &symbol, sizeof symbol);
    }
    return GK_OK;
}

/* The driver's own words for a result. */
static const char *gpu_result_text(const gpu_api *api, int result) {
    const char *text = NULL;
    if (api->hip_error_text) text = api->hip_error_text(result);
    else if (api->cuda_error_text && api->cuda_error_text(result, &text) != GPU_SUCCESS) text = NULL;
    return text ? text : "an error without a text";
}

static gk_status gpu_status_of(int result) {
    switch (result) {
    case GPU_SUCCESS: return GK_OK;
    case GPU_OUT_OF_MEMORY: return GK_OUT_OF_MEMORY;
    case GPU_NO_DEVICE:
    case GPU_INVALID_DEVICE:
    case GPU_DEVICE_UNAVAILABLE: return GK_NO_DEVICE;
    case GPU_STUB_LIBRARY: return GK_NO_DRIVER;
    case GPU_NO_DRIVER_INSTALLED:
    case GPU_INVALID_IMAGE:
    case GPU_NO_BINARY:
    case GPU_INVALID_PTX:
    case GPU_NO_JIT:
    case GPU_UNSUPPORTED_PTX:
    case GPU_INVALID_SOURCE:
    case GPU_COMPAT_NOT_SUPPORTED: return GK_TOO_OLD;
    case GPU_ECC:
    case GPU_NVLINK:
    case GPU_ILLEGAL_ADDRESS:
    case GPU_LAUNCH_TIMEOUT:
    case GPU_ASSERT:
    case GPU_HARDWARE_STACK:
    case GPU_ILLEGAL_INSTRUCTION:
    case GPU_MISALIGNED_ADDRESS:
    case GPU_INVALID_ADDRESS_SPACE:
    case GPU_INVALID_COUNTER:
    case GPU_LAUNCH_FAILED: return GK_DEVICE_LOST;
    default: return GK_FAILED;
    }
}

/* Loads the driver, starts it and counts its devices. */
static gk_status gpu_start(const gpu_vendor *vendor, gpu_api *api, int *count, char *why, size_t why_capacity) {
    gk_status status = gpu_api_load(vendor, api, why, why_capacity);
    *count = 0;
    if (status != GK_OK) return status;
    const char *function = "init";
    int result = api->init(0);
    if (result == GPU_SUCCESS) {
        function = "device count";
        result = api->device_count(count);
    }
    if (result != GPU_SUCCESS) {
        *count = 0;
        status = vendor->explain(api, result, why, why_capacity);
        if (status != GK_OK) return status;
        gk_text(why, why_capacity, "`%s` failed at %s: %s (%d)", api->library, function, gpu_result_text(api, result), result);
        return gpu_status_of(result);
    }
    if (*count <= 0) {
        *count = 0;
        gk_text(why, why_capacity, "`%s` works, but it offers no device", api->library);
        return GK_NO_DEVICE;
    }
    return GK_OK;
}

#endif
