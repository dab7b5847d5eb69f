// The contract of all kernels. Every backend defines the functions that end in its name.
#ifndef @NAME@_KERNELS_H
#define @NAME@_KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// y[i] += a * x[i] for `count` values in the memory of the host. Returns NULL, or why it was not done, in static text;
// `y` is then as it was.
const char *@ident@_axpy_cpu(size_t count, float a, const float *x, float *y);
const char *@ident@_axpy_cuda(size_t count, float a, const float *x, float *y);
const char *@ident@_axpy_vulkan(size_t count, float a, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
