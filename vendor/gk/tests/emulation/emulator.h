// Runs a kernel on the CPU: every thread of a block is a fiber, blocks run one after another. It behaves like hardware,
// and reports what hardware leaves undefined: a barrier that some threads miss, a shuffle without its partner, a block
// larger than its kernel was compiled for. Shared memory is filled with NaN before each launch.
#ifndef GK_EMULATOR_H
#define GK_EMULATOR_H

#include "args.h"

namespace emulator {

struct index3 {
    unsigned int x, y, z;
};

typedef void (*kernel_function)(const gk_gpu_args &);

// One kernel, registered by its definition.
struct kernel {
    kernel(const char *kernel_name, unsigned int most_threads, kernel_function kernel_body);
    const char *name;
    unsigned int threads; // the launch bound
    kernel_function body;
    kernel *next;
};

const kernel *find(const char *name);

// NULL, or an error text that is valid until the next launch.
const char *launch(const kernel &what, index3 grid, index3 block, const gk_gpu_args &args);

// Called by kernels.
void barrier(int line);
unsigned int exchange(unsigned int value, unsigned int other_lane_mask);
// Matrix instructions of a whole warp: sum += a * b, with 16 elements of k. NVIDIA's has 16 rows and 8 columns, AMD's 16 and 16.
enum matrix_instruction { MMA, MFMA, WMMA_GFX11, WMMA_GFX12 };
struct operands {
    float a[16], b[16], sum[8];
};
// With the elements of this lane.
template <matrix_instruction WHICH> void multiply_add(float *sum, const float *a, const float *b);
unsigned int add(unsigned int *to, unsigned int value); // atomic: fibers do not preempt each other

// The range that is filled before each launch; set by kernels.cpp.
void shared_memory(void *begin, void *end);

// Callbacks of watch.cpp, if enabled (GK_WATCH).
#if GK_WATCH
void watch_memory(uint64_t begin, uint64_t bytes);
void watch_shared(void *begin, void *end);
void watch_stacks(void *begin, void *end);
void forget_memory(uint64_t begin);
void watch_launch();
void watch_block();
void watch_barrier(); // the block has passed one
const char *watch_end(); // NULL, or the first error of this launch
void watch_atomic(const void *, unsigned int size);
// Callbacks of count.cpp. `where` is a place in the code of the kernel.
extern bool counting; // without it, count_access is not called
void count_launch();
void count_barrier();
void count_access(bool shared, bool writes, uint64_t address, unsigned long size, const void *where);
void count_block(); // the block has ended
void count_end(const char *kernel, index3 grid);
#else
inline void watch_memory(uint64_t, uint64_t) {}
inline void watch_shared(void *, void *) {}
inline void watch_stacks(void *, void *) {}
inline void forget_memory(uint64_t) {}
inline void watch_launch() {}
inline void watch_block() {}
inline void watch_barrier() {}
inline const char *watch_end() { return nullptr; }
inline void watch_atomic(const void *, unsigned int) {}
inline void count_end(const char *, index3) {}
#endif

} // namespace emulator

extern emulator::index3 threadIdx, blockIdx, blockDim, gridDim;

#endif
