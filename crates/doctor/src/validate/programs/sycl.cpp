// Adds two arrays on the GPU that SYCL selects.
#include <cstdio>
#include <exception>
#include <sycl/sycl.hpp>

int main() {
    constexpr int count = 1024;
    try {
        sycl::queue queue{sycl::gpu_selector_v};
        float *a = sycl::malloc_shared<float>(count, queue), *b = sycl::malloc_shared<float>(count, queue);
        for (int i = 0; i < count; i++) a[i] = float(i), b[i] = 2.0f * float(i);
        queue.parallel_for(sycl::range<1>(count), [=](sycl::id<1> i) { a[i] += b[i]; }).wait_and_throw();
        for (int i = 0; i < count; i++)
            if (a[i] != 3.0f * float(i)) {
                std::fprintf(stderr, "result: element %d is %g\n", i, double(a[i]));
                return 1;
            }
        std::printf("ok: %s\n", queue.get_device().get_info<sycl::info::device::name>().c_str());
        sycl::free(a, queue), sycl::free(b, queue);
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "sycl: %s\n", error.what());
        return 1;
    }
}
