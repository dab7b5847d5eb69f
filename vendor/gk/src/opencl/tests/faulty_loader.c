/* A libOpenCL.so.1 for tests: forwards everything to the real loader (GK_OPENCL_REAL_LOADER) except for the fault
 * that GK_OPENCL_FAULT names, which fails like a broken or old driver. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../cl.h"

#define EXPORT __attribute__((visibility("default")))

static int fault(const char *name) {
    const char *wanted = getenv("GK_OPENCL_FAULT");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

/* Faults of a device that already runs. */
static int fault_now(const char *name) { return getenv("GK_OPENCL_FAULT_NOW") != NULL && fault(name); }

static void *real(const char *name) {
    static void *library;
    const char *path = getenv("GK_OPENCL_REAL_LOADER");
    if (library == NULL && path != NULL) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    if (symbol == NULL) abort(); /* an error of the test, which then fails */
    return symbol;
}

/* Declares `function`, the real function of this name. */
#define REAL(name) \
    gkcl_fn_##name function; \
    void *symbol = real("cl" #name); \
    memcpy(&function, &symbol, sizeof function);
#define FORWARD(result, name, parameters, arguments) \
    EXPORT result cl##name parameters; \
    EXPORT result cl##name parameters { \
        REAL(name) \
        return function arguments; \
    }
/* The same with a fault injected before the call: `statement` may return. */
#define FAULTY(result, name, parameters, arguments, statement) \
    EXPORT result cl##name parameters; \
    EXPORT result cl##name parameters { \
        statement \
        REAL(name) \
        return function arguments; \
    }

FAULTY(cl_int, GetPlatformIDs, (cl_uint room, cl_platform_id *out, cl_uint *count), (room, out, count),
       if (fault("no-icd")) return CL_PLATFORM_NOT_FOUND_KHR;
       if (fault("out-of-memory")) return CL_OUT_OF_HOST_MEMORY;
       if (fault("no-platform")) {
           *count = 0;
           return CL_SUCCESS;
       })
FORWARD(cl_int, GetPlatformInfo, (cl_platform_id p, cl_uint what, size_t room, void *out, size_t *bytes), (p, what, room, out, bytes))
FAULTY(cl_int, GetDeviceIDs, (cl_platform_id p, cl_bitfield type, cl_uint room, cl_device_id *out, cl_uint *count),
       (p, type, room, out, count), if (fault("no-device")) return CL_DEVICE_NOT_FOUND;)

static cl_int give(const void *value, size_t size, size_t room, void *out, size_t *bytes) {
    if (bytes != NULL) *bytes = size;
    if (out == NULL) return CL_SUCCESS;
    if (room < size) return CL_INVALID_VALUE;
    memcpy(out, value, size);
    return CL_SUCCESS;
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t room, void *out, size_t *bytes);
EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t room, void *out, size_t *bytes) {
    static const char old[] = "OpenCL 1.1 of long ago", embedded[] = "EMBEDDED_PROFILE";
    static const char subgroups[] = "cl_khr_fp64 cl_khr_subgroups";
    const cl_uint no = 0;
    const cl_ulong little = 8192;
    if (fault("speechless")) return CL_INVALID_VALUE;
    if (what == CL_DEVICE_VERSION && fault("old")) return give(old, sizeof old, room, out, bytes);
    if (what == CL_DEVICE_PROFILE && fault("embedded")) return give(embedded, sizeof embedded, room, out, bytes);
    if (what == CL_DEVICE_EXTENSIONS && fault("subgroups-in-words")) return give(subgroups, sizeof subgroups, room, out, bytes);
    if (what == CL_DEVICE_AVAILABLE && fault("unavailable")) return give(&no, sizeof no, room, out, bytes);
    if (what == CL_DEVICE_COMPILER_AVAILABLE && fault("no-compiler")) return give(&no, sizeof no, room, out, bytes);
    if (what == CL_DEVICE_LOCAL_MEM_SIZE && fault("no-local")) return give(&little, sizeof little, room, out, bytes);
    REAL(GetDeviceInfo)
    return function(device, what, room, out, bytes);
}

#define GIVE(name, code) \
    if (fault(name)) { \
        *result = code; \
        return NULL; \
    }
#define GIVE_NOW(name, code) \
    if (fault_now(name)) { \
        *result = code; \
        return NULL; \
    }
typedef void(CL_API_CALL *notify)(const char *, const void *, size_t, void *);
typedef void(CL_API_CALL *built)(cl_program, void *);
FAULTY(cl_context, CreateContext,
       (const intptr_t *properties, cl_uint count, const cl_device_id *ids, notify tell, void *data, cl_int *result),
       (properties, count, ids, tell, data, result), GIVE("no-context", CL_INVALID_DEVICE))
FORWARD(cl_int, ReleaseContext, (cl_context c), (c))
FAULTY(cl_command_queue, CreateCommandQueue, (cl_context c, cl_device_id d, cl_bitfield p, cl_int *result), (c, d, p, result),
       GIVE("no-queue", CL_OUT_OF_RESOURCES))
FORWARD(cl_int, ReleaseCommandQueue, (cl_command_queue q), (q))
FAULTY(cl_mem, CreateBuffer, (cl_context c, cl_bitfield f, size_t size, void *host, cl_int *result), (c, f, size, host, result),
       GIVE_NOW("no-memory", CL_MEM_OBJECT_ALLOCATION_FAILURE))
FORWARD(cl_int, ReleaseMemObject, (cl_mem m), (m))
FORWARD(cl_program, CreateProgramWithSource, (cl_context c, cl_uint n, const char **text, const size_t *sizes, cl_int *result),
        (c, n, text, sizes, result))
FORWARD(cl_program, CreateProgramWithBinary,
        (cl_context c, cl_uint n, const cl_device_id *ids, const size_t *sizes, const unsigned char **binaries, cl_int *each, cl_int *result),
        (c, n, ids, sizes, binaries, each, result))
FAULTY(cl_int, BuildProgram, (cl_program p, cl_uint n, const cl_device_id *ids, const char *options, built tell, void *data),
       (p, n, ids, options, tell, data), if (fault_now("no-program")) return CL_BUILD_PROGRAM_FAILURE;)
FORWARD(cl_int, GetProgramInfo, (cl_program p, cl_uint what, size_t room, void *out, size_t *bytes), (p, what, room, out, bytes))
FORWARD(cl_int, GetProgramBuildInfo, (cl_program p, cl_device_id d, cl_uint what, size_t room, void *out, size_t *bytes),
        (p, d, what, room, out, bytes))
FORWARD(cl_int, ReleaseProgram, (cl_program p), (p))
FAULTY(cl_kernel, CreateKernel, (cl_program p, const char *name, cl_int *result), (p, name, result),
       GIVE_NOW("no-kernel", CL_INVALID_PROGRAM_EXECUTABLE))
FORWARD(cl_int, ReleaseKernel, (cl_kernel k), (k))
FORWARD(cl_int, SetKernelArg, (cl_kernel k, cl_uint n, size_t size, const void *value), (k, n, size, value))
FAULTY(cl_int, EnqueueNDRangeKernel,
       (cl_command_queue q, cl_kernel k, cl_uint n, const size_t *from, const size_t *global, const size_t *local, cl_uint waits,
        const cl_event *wait, cl_event *done),
       (q, k, n, from, global, local, waits, wait, done),
       if (fault_now("lost-launch")) return CL_INVALID_COMMAND_QUEUE;)
FORWARD(cl_int, EnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t size, void *out, cl_uint waits, const cl_event *wait,
         cl_event *done),
        (q, m, blocking, at, size, out, waits, wait, done))
FORWARD(cl_int, EnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool blocking, size_t at, size_t size, const void *in, cl_uint waits, const cl_event *wait,
         cl_event *done),
        (q, m, blocking, at, size, in, waits, wait, done))
#ifndef WITHOUT_FILL
FAULTY(cl_int, EnqueueFillBuffer,
       (cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t at, size_t size, cl_uint waits,
        const cl_event *wait, cl_event *done),
       (q, m, pattern, pattern_size, at, size, waits, wait, done),
       if (fault_now("no-memory-late")) return CL_MEM_OBJECT_ALLOCATION_FAILURE;)
#endif
FORWARD(cl_int, Flush, (cl_command_queue q), (q))
FAULTY(cl_int, Finish, (cl_command_queue q), (q), if (fault_now("lost-finish")) return CL_OUT_OF_RESOURCES;)
