/* Constants shared by the hosts and the drivers. */
#ifndef GK_GPU_RESULTS_H
#define GK_GPU_RESULTS_H

/* Results with special handling; the numbers are the same in CUresult and hipError_t, and src/sycl uses them too. */
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

/* CUdevice_attribute; the last one exists for SYCL only. Of hipDeviceAttribute_t, whose first numbers are the same since
 * HIP 5, only the multiprocessors are used. */
enum { GPU_ATTRIBUTE_PROCESSORS = 16, GPU_HIP_ATTRIBUTE_PROCESSORS = 63, GPU_ATTRIBUTE_INTEGRATED = 18, GPU_ATTRIBUTE_MAJOR = 75, GPU_ATTRIBUTE_MINOR = 76, GPU_ATTRIBUTE_PROCESSOR = 100000 };
/* Relaxed: the driver may load a kernel's code at its first launch, which the stricter modes forbid during a
 * capture. */
enum { GPU_STREAM_NON_BLOCKING = 1, GPU_CAPTURE_RELAXED = 2 };

#endif
