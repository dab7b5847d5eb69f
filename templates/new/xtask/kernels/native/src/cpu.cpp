#include "kernels.h"

double @ident@_dot_cpu(size_t count, const float *x, const float *y) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
        sum += static_cast<double>(x[i]) * y[i];
    }
    return sum;
}
