/* The driver as a table of functions, filled at run time from the vendor's library. CUDA's driver API, HIP and
 * src/sycl/driver.cpp have the same shape, so one table with a column of names for each is enough; no vendor headers
 * are needed. Included once, by cuda.c, rocm.c or sycl.c, like every header of this folder that defines functions. */
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
#include "results.h"

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct gpu_launch_attribute {
    int id;
    int unused;
    union {
        char pad[64];
        int flag;
    } value;
} gpu_launch_attribute;
enum { GPU_LAUNCH_MAY_START_EARLY = 6 }; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */

typedef struct gpu_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    gpu_launch_attribute *attributes;
    unsigned attribute_count;
} gpu_launch_config;

/* X(field, parameters, name in CUDA, in HIP, in gk's SYCL driver, required). An empty name: that driver has no such
 * function. Device addresses are 64-bit numbers, handles are pointers; a result is an int. */
#define GPU_FUNCTIONS(X) \
    X(init, (unsigned flags), "cuInit", "hipInit", "gk_sycl_init", 1) \
    X(driver_version, (int *version), "cuDriverGetVersion", "hipDriverGetVersion", "gk_sycl_driver_version", 1) \
    X(runtime_version, (int *version), "", "hipRuntimeGetVersion", "", 0) \
    X(device_count, (int *count), "cuDeviceGetCount", "hipGetDeviceCount", "gk_sycl_device_count", 1) \
    X(device_get, (int *device, int ordinal), "cuDeviceGet", "hipDeviceGet", "gk_sycl_device_get", 1) \
    X(device_name, (char *name, int capacity, int device), "cuDeviceGetName", "hipDeviceGetName", "gk_sycl_device_name", 1) \
    X(device_memory, (size_t *bytes, int device), "cuDeviceTotalMem_v2", "hipDeviceTotalMem", "gk_sycl_device_memory", 1) \
    X(device_pci, (char *text, int capacity, int device), \
      "cuDeviceGetPCIBusId", "hipDeviceGetPCIBusId", "gk_sycl_device_pci", 1) \
    X(device_uuid, (void *bytes16, int device), "cuDeviceGetUuid_v2", "hipDeviceGetUuid", "gk_sycl_device_uuid", 0) \
    X(device_uuid_old, (void *bytes16, int device), "cuDeviceGetUuid", "", "", 0) \
    X(device_driver, (char *text, int capacity, int device), "", "", "gk_sycl_device_driver", 1) \
    X(device_attribute, (int *value, int attribute, int device), "cuDeviceGetAttribute", "hipDeviceGetAttribute", "gk_sycl_device_attribute", 1) \
    X(context_retain, (void **context, int device), "cuDevicePrimaryCtxRetain", "", "", 1) \
    X(context_release, (int device), "cuDevicePrimaryCtxRelease_v2", "", "", 1) \
    X(context_push, (void *context), "cuCtxPushCurrent_v2", "", "", 1) \
    X(context_pop, (void **context), "cuCtxPopCurrent_v2", "", "", 1) \
    X(device_current, (int *device), "", "hipGetDevice", "gk_sycl_device_current", 1) \
    X(device_select, (int device), "", "hipSetDevice", "gk_sycl_device_select", 1) \
    X(memory_info, (size_t *free_bytes, size_t *total), "cuMemGetInfo_v2", "hipMemGetInfo", "gk_sycl_memory_info", 1) \
    X(memory_alloc, (uint64_t *address, size_t bytes), "cuMemAlloc_v2", "hipMalloc", "gk_sycl_memory_alloc", 1) \
    X(memory_free, (uint64_t address), "cuMemFree_v2", "hipFree", "gk_sycl_memory_free", 1) \
    X(memory_zero, (uint64_t address, unsigned char value, size_t bytes, void *stream), \
      "cuMemsetD8Async", "hipMemsetD8Async", "gk_sycl_memory_zero", 1) \
    X(copy_up, (uint64_t to, const void *from, size_t bytes, void *stream), \
      "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync", "gk_sycl_copy_up", 1) \
    X(copy_down, (void *to, uint64_t from, size_t bytes, void *stream), \
      "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync", "gk_sycl_copy_down", 1) \
    X(stream_create, (void **stream, unsigned flags), \
      "cuStreamCreate", "hipStreamCreateWithFlags", "gk_sycl_stream_create", 1) \
    X(stream_destroy, (void *stream), "cuStreamDestroy_v2", "hipStreamDestroy", "gk_sycl_stream_destroy", 1) \
    X(stream_wait, (void *stream), "cuStreamSynchronize", "hipStreamSynchronize", "gk_sycl_stream_wait", 1) \
    X(module_load, (void **module, const void *image), "cuModuleLoadData", "hipModuleLoadData", "gk_sycl_module_load", 1) \
    X(module_unload, (void *module), "cuModuleUnload", "hipModuleUnload", "gk_sycl_module_unload", 1) \
    X(module_function, (void **function, void *module, const char *name), \
      "cuModuleGetFunction", "hipModuleGetFunction", "gk_sycl_module_function", 1) \
    X(launch, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
               unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra), \
      "cuLaunchKernel", "hipModuleLaunchKernel", "gk_sycl_launch", 1) \
    X(launch_with, (const gpu_launch_config *config, void *function, void **parameters, void **extra), "cuLaunchKernelEx", "", "", 0) \
    X(capture_begin, (void *stream, int mode), "cuStreamBeginCapture_v2", "hipStreamBeginCapture", "gk_sycl_capture_begin", 0) \
    X(capture_end, (void *stream, void **graph), "cuStreamEndCapture", "hipStreamEndCapture", "gk_sycl_capture_end", 0) \
    X(graph_nodes, (void *graph, void **nodes, size_t *count), \
      "cuGraphGetNodes", "hipGraphGetNodes", "gk_sycl_graph_nodes", 0) \
    X(graph_instantiate, (void **executable, void *graph, unsigned long long flags), \
      "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags", "gk_sycl_graph_instantiate", 0) \
    X(graph_launch, (void *executable, void *stream), "cuGraphLaunch", "hipGraphLaunch", "gk_sycl_graph_launch", 0) \
    X(graph_executable_destroy, (void *executable), \
      "cuGraphExecDestroy", "hipGraphExecDestroy", "gk_sycl_graph_executable_destroy", 0) \
    X(graph_destroy, (void *graph), "cuGraphDestroy", "hipGraphDestroy", "gk_sycl_graph_destroy", 0)

typedef struct gpu_api {
#define X(field, parameters, cuda, hip, sycl, needed) int(*field) parameters;
    GPU_FUNCTIONS(X)
#undef X
    int (*cuda_error_text)(int result, const char **text); /* cuGetErrorString */
    const char *(*hip_error_text)(int result);             /* hipGetErrorString */
    char library[96];                                      /* the name that was opened */
} gpu_api;

/* SYCL has the shape of HIP, plus a text for the driver and attributes. */
typedef enum gpu_shape { GPU_CUDA, GPU_HIP, GPU_SYCL } gpu_shape;

/* What cuda.c, rocm.c and sycl.c define for the shared code. */
typedef struct gpu_vendor {
    const char *driver;         /* "the CUDA driver" */
    const char *const *libraries; /* names in search order, then NULL */
    gpu_shape shape;            /* which column of GPU_FUNCTIONS */
    const char *toolkit;        /* what compiled the image: "CUDA 13.0"; empty if unknown */
    const char *architectures;  /* what the image was compiled for */
    const unsigned char *image; /* NULL: the driver has its own */
    /* Fills arch, driver and kind of one device. */
    void (*describe)(const gpu_api *, int device, gk_device_info *);
    /* Status and text for a result of init or device_count, or GK_OK to use the common ones. */
    gk_status (*explain)(const gpu_api *, int result, char *why, size_t capacity);
    /* What to do if the image cannot be loaded on a device; empty if unknown. */
    void (*advise)(const gpu_api *, int device, int result, char *advice, size_t capacity);
} gpu_vendor;

typedef void (*gpu_symbol)(void);

static gpu_symbol gpu_find_symbol(void *library, const char *name) {
#ifdef _WIN32
    return (gpu_symbol)GetProcAddress((HMODULE)library, name);
#else
    /* POSIX guarantees that an object pointer from dlsym can hold a function; ISO C has no cast for it. */
    gpu_symbol function = NULL;
    void *object = dlsym(library, name);
    memcpy(&function, &object, sizeof function);
    return function;
#endif
}

/* Drivers stay loaded: they start threads and handlers that do not survive being unloaded. */
static void *gpu_open_library(const char *name, char *why, size_t capacity) {
#ifdef _WIN32
    /* A name is searched for in the system's folders, a path is used unchanged; the current folder is never
     * searched. */
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
        gk_text(why, why_capacity, "%s was not found: looked for %s (%s)", vendor->driver, names, first);
        return GK_NO_DRIVER;
    }
    static const struct {
        const char *name[3];
        size_t offset;
        int needed;
    } functions[] = {
#define X(field, parameters, cuda, hip, sycl, needed) {{cuda, hip, sycl}, offsetof(gpu_api, field), needed},
        GPU_FUNCTIONS(X)
#undef X
        {{"cuGetErrorString", "", ""}, offsetof(gpu_api, cuda_error_text), 1},
        {{"", "hipGetErrorString", "gk_sycl_error_text"}, offsetof(gpu_api, hip_error_text), 1},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const char *name = functions[i].name[vendor->shape];
        if (!name[0]) continue;
        gpu_symbol symbol = gpu_find_symbol(library, name);
        if (!symbol && functions[i].needed) {
            gk_text(why, why_capacity, "`%s` has no function `%s`: %s is too old, or this is not its library", api->library,
                    name, vendor->driver);
            return GK_TOO_OLD;
        }
        memcpy((char *)api + functions[i].offset, &symbol, sizeof symbol);
    }
    return GK_OK;
}

/* The driver's text for a result. */
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
