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

// NULL, or an error text that is valid until the next launch.
const char *launch(const kernel &what, index3 grid, index3 block, const gk_gpu_args &args);

// Called by kernels.
void barrier(int line);
unsigned int exchange(unsigned int value, unsigned int other_lane_mask);
// What every lane of the warp offers: for instructions of a whole warp.
struct offer {
    float values[12];
};
const offer *gather(const float (&values)[12]);
unsigned int add(unsigned int *to, unsigned int value); // atomic: fibers do not preempt each other

// The range that is filled before each launch; set by kernels.cpp.
void shared_memory(void *begin, void *end);

// For the running thread: barriers that its block has passed; is the address internal to the emulator?
unsigned int barriers_passed();
bool is_private(const void *);

// Callbacks of watch.cpp, if enabled (GK_WATCH).
#if GK_WATCH
void watch_memory(uint64_t begin, uint64_t bytes);
void watch_shared(void *begin, void *end);
void forget_memory(uint64_t begin);
void watch_launch();
void watch_block(uint64_t number);
const char *watch_end(); // NULL, or the first error of this launch
void watch_atomic(const void *, unsigned int size);
#else
inline void watch_memory(uint64_t, uint64_t) {}
inline void watch_shared(void *, void *) {}
inline void forget_memory(uint64_t) {}
inline void watch_launch() {}
inline void watch_block(uint64_t) {}
inline const char *watch_end() { return nullptr; }
inline void watch_atomic(const void *, unsigned int) {}
#endif

} // namespace emulator

extern emulator::index3 threadIdx, blockIdx, blockDim, gridDim;

#endif
