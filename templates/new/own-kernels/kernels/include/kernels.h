// The interface of all kernels. Every backend defines the functions that end in its name.
#ifndef @NAME@_KERNELS_H
#define @NAME@_KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// y[i] += a * x[i] for `count` values in host memory. Returns NULL, or an error message in static memory; `y` is
// unchanged on failure.
const char *@ident@_axpy_cpu(size_t count, float a, const float *x, float *y);
const char *@ident@_axpy_cuda(size_t count, float a, const float *x, float *y);
const char *@ident@_axpy_vulkan(size_t count, float a, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
