/* The part of OpenCL 1.2 that the backend uses, declared here so that the build needs neither headers nor a library
 * of OpenCL. Names and values are those of the Khronos registry. */
#ifndef GKCL_CL_H
#define GKCL_CL_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define CL_API_CALL __stdcall
#else
#define CL_API_CALL
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint32_t cl_bool;
typedef uint64_t cl_ulong;
typedef cl_ulong cl_bitfield;

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_COMPILER_NOT_AVAILABLE = -3,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
    CL_INVALID_VALUE = -30,
    CL_INVALID_DEVICE = -33,
    CL_INVALID_CONTEXT = -34,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_BINARY = -42,
    CL_INVALID_PROGRAM_EXECUTABLE = -45,
    CL_INVALID_WORK_GROUP_SIZE = -54,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND_KHR = -1001
};

enum { CL_FALSE = 0, CL_TRUE = 1 };

enum {
    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,

    CL_DEVICE_TYPE_CPU = 1 << 1,
    CL_DEVICE_TYPE_GPU = 1 << 2,
    CL_DEVICE_TYPE_ACCELERATOR = 1 << 3,

    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_ENDIAN_LITTLE = 0x1026,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102b,
    CL_DRIVER_VERSION = 0x102d,
    CL_DEVICE_PROFILE = 0x102e,
    CL_DEVICE_VERSION = 0x102f,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_OPENCL_C_VERSION = 0x103d,

    CL_DEVICE_UUID_KHR = 0x106a,                    /* cl_khr_device_uuid: 16 bytes */
    CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000, /* cl_nv_device_attribute_query */
    CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
    CL_DEVICE_GLOBAL_FREE_MEMORY_AMD = 0x4039,      /* cl_amd_device_attribute_query: size_t[2], KiB */
    CL_DEVICE_PCI_BUS_INFO_KHR = 0x410f,            /* cl_khr_pci_bus_info: domain, bus, device, function */

    CL_CONTEXT_PLATFORM = 0x1084,
    CL_MEM_READ_WRITE = 1 << 0,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183
};

/* X(result, name, arguments) for every function that the loader must have. */
#define GKCL_FUNCTIONS(X) \
    X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *)) \
    X(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, GetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *)) \
    X(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_context, CreateContext, (const intptr_t *, cl_uint, const cl_device_id *, \
                                  void (CL_API_CALL *)(const char *, const void *, size_t, void *), void *, cl_int *)) \
    X(cl_int, ReleaseContext, (cl_context)) \
    X(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *)) \
    X(cl_int, ReleaseCommandQueue, (cl_command_queue)) \
    X(cl_mem, CreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *)) \
    X(cl_int, ReleaseMemObject, (cl_mem)) \
    X(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *)) \
    X(cl_program, CreateProgramWithBinary, (cl_context, cl_uint, const cl_device_id *, const size_t *, \
                                            const unsigned char **, cl_int *, cl_int *)) \
    X(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, \
                             void (CL_API_CALL *)(cl_program, void *), void *)) \
    X(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, ReleaseProgram, (cl_program)) \
    X(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *)) \
    X(cl_int, ReleaseKernel, (cl_kernel)) \
    X(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *)) \
    X(cl_int, EnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, \
                                     const size_t *, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, EnqueueReadBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, \
                                  const cl_event *, cl_event *)) \
    X(cl_int, EnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, \
                                   const cl_event *, cl_event *)) \
    X(cl_int, EnqueueFillBuffer, (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, \
                                  const cl_event *, cl_event *)) \
    X(cl_int, Flush, (cl_command_queue)) \
    X(cl_int, Finish, (cl_command_queue))

#define GKCL_TYPE(result, name, arguments) typedef result(CL_API_CALL *gkcl_fn_##name) arguments;
GKCL_FUNCTIONS(GKCL_TYPE)
#undef GKCL_TYPE

#endif
