// Adds two arrays on the first device: tests the driver, the runtime, machine code for this GPU and its memory.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(float *a, const float *b, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) a[i] += b[i];
}

static bool failed(const char *what, cudaError_t error) {
    if (error == cudaSuccess) return false;
    std::fprintf(stderr, "%s: %s (%d)\n", what, cudaGetErrorString(error), static_cast<int>(error));
    return true;
}

int main() {
    const int count = 1024;
    float host[count], other[count], *a = nullptr, *b = nullptr;
    int devices = 0;
    if (failed("cudaGetDeviceCount", cudaGetDeviceCount(&devices))) return 1;
    cudaDeviceProp properties;
    if (failed("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0))) return 1;
    for (int i = 0; i < count; i++) host[i] = float(i), other[i] = 2.0f * float(i);
    if (failed("cudaMalloc", cudaMalloc(&a, sizeof host)) || failed("cudaMalloc", cudaMalloc(&b, sizeof host))) return 1;
    if (failed("cudaMemcpy", cudaMemcpy(a, host, sizeof host, cudaMemcpyHostToDevice))) return 1;
    if (failed("cudaMemcpy", cudaMemcpy(b, other, sizeof host, cudaMemcpyHostToDevice))) return 1;
    add<<<count / 256, 256>>>(a, b, count);
    if (failed("kernel launch", cudaGetLastError())) return 1;
    if (failed("cudaDeviceSynchronize", cudaDeviceSynchronize())) return 1;
    if (failed("cudaMemcpy", cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost))) return 1;
    for (int i = 0; i < count; i++)
        if (host[i] != 3.0f * float(i)) {
            std::fprintf(stderr, "result: element %d is %g\n", i, double(host[i]));
            return 1;
        }
    std::printf("ok: %s\n", properties.name);
    return 0;
}
