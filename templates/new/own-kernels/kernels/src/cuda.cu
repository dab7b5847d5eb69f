#include "kernels.h"

#include <cuda_runtime.h>

namespace {

// Works for any number of values with any number of blocks.
__global__ void axpy(size_t count, float a, const float *x, float *y) {
    size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step) {
        y[i] += a * x[i];
    }
}

constexpr unsigned THREADS = 256;
constexpr size_t MOST_BLOCKS = 65535;

// Device memory, freed at the end of its scope.
struct Memory {
    float *values = nullptr;
    ~Memory() { cudaFree(values); }
};

cudaError_t run(size_t count, float a, const float *x, float *y) {
    size_t bytes = count * sizeof(float);
    size_t blocks = (count + THREADS - 1) / THREADS;
    Memory there_x, there_y;
    cudaError_t error = cudaMalloc(&there_x.values, bytes);
    if (error == cudaSuccess) {
        error = cudaMalloc(&there_y.values, bytes);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpy(there_x.values, x, bytes, cudaMemcpyHostToDevice);
    }
    if (error == cudaSuccess) {
        error = cudaMemcpy(there_y.values, y, bytes, cudaMemcpyHostToDevice);
    }
    if (error == cudaSuccess) {
        unsigned grid = static_cast<unsigned>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
        axpy<<<grid, THREADS>>>(count, a, there_x.values, there_y.values);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess) {
        error = cudaMemcpy(y, there_y.values, bytes, cudaMemcpyDeviceToHost);
    }
    return error;
}

} // namespace

const char *@ident@_axpy_cuda(size_t count, float a, const float *x, float *y) {
    cudaError_t error = count == 0 ? cudaSuccess : run(count, a, x, y);
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
