// The interface of the kernels.
#ifndef @NAME@_KERNELS_H
#define @NAME@_KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// The sum of x[i] * y[i] over `count` values.
double @ident@_dot_cpu(size_t count, const float *x, const float *y);

#ifdef __cplusplus
}
#endif

#endif
