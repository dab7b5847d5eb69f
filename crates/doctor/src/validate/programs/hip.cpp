// Adds two arrays on the first device: tests the driver, the runtime, machine code for this GPU and its memory.
#include <cstdio>
#include <hip/hip_runtime.h>

__global__ void add(float *a, const float *b, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) a[i] += b[i];
}

static bool failed(const char *what, hipError_t error) {
    if (error == hipSuccess) return false;
    std::fprintf(stderr, "%s: %s (%d)\n", what, hipGetErrorString(error), static_cast<int>(error));
    return true;
}

int main() {
    const int count = 1024;
    float host[count], other[count], *a = nullptr, *b = nullptr;
    int devices = 0;
    if (failed("hipGetDeviceCount", hipGetDeviceCount(&devices))) return 1;
    hipDeviceProp_t properties;
    if (failed("hipGetDeviceProperties", hipGetDeviceProperties(&properties, 0))) return 1;
    for (int i = 0; i < count; i++) host[i] = float(i), other[i] = 2.0f * float(i);
    if (failed("hipMalloc", hipMalloc(&a, sizeof host)) || failed("hipMalloc", hipMalloc(&b, sizeof host))) return 1;
    if (failed("hipMemcpy", hipMemcpy(a, host, sizeof host, hipMemcpyHostToDevice))) return 1;
    if (failed("hipMemcpy", hipMemcpy(b, other, sizeof host, hipMemcpyHostToDevice))) return 1;
    add<<<count / 256, 256>>>(a, b, count);
    if (failed("kernel launch", hipGetLastError())) return 1;
    if (failed("hipDeviceSynchronize", hipDeviceSynchronize())) return 1;
    if (failed("hipMemcpy", hipMemcpy(host, a, sizeof host, hipMemcpyDeviceToHost))) return 1;
    for (int i = 0; i < count; i++)
        if (host[i] != 3.0f * float(i)) {
            std::fprintf(stderr, "result: element %d is %g\n", i, double(host[i]));
            return 1;
        }
    std::printf("ok: %s\n", properties.name);
    return 0;
}
