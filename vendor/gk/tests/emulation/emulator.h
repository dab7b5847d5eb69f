// Runs a kernel on the CPU: every thread of a block is a fiber, blocks run one after another. It does what hardware
// does, and reports what hardware leaves undefined: a barrier that some threads miss, a shuffle without its partner,
// a block larger than its kernel was compiled for. Shared memory is filled with NaN before each block.
#ifndef GK_EMULATOR_H
#define GK_EMULATOR_H

#include "args.h"

namespace emulator {

struct index3 {
    unsigned int x, y, z;
};

typedef void (*kernel_function)(gk_gpu_args);

// One kernel, registered by its definition.
struct kernel {
    kernel(const char *kernel_name, unsigned int most_threads, kernel_function kernel_body);
    const char *name;
    unsigned int threads; // the launch bound
    kernel_function body;
    kernel *next;
};

const kernel *find(const char *name);

// NULL, or what went wrong. The text lives until the next launch.
const char *launch(const kernel &what, index3 grid, index3 block, const gk_gpu_args &args);

// Called by kernels.
void barrier(int line);
unsigned int exchange(unsigned int value, unsigned int other_lane_mask);

// Range that is filled before each block; set by kernels.cpp.
void shared_memory(void *begin, void *end);

} // namespace emulator

extern emulator::index3 threadIdx, blockIdx, blockDim, gridDim;

#endif
