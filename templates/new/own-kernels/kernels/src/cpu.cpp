#include "kernels.h"

// Compilers vectorise a simple loop like this.
const char *@ident@_axpy_cpu(size_t count, float a, const float *x, float *y) {
    for (size_t i = 0; i < count; ++i) {
        y[i] += a * x[i];
    }
    return nullptr;
}
