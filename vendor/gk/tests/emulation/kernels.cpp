// kernels.cu, compiled for the CPU.
#define GK_GPU_EMULATE 1
#include "kernels.cu"

extern "C" char __start_gk_shared[], __stop_gk_shared[]; // defined by the linker, see CMakeLists.txt

namespace {
struct shared_range {
    shared_range() : set(1) { emulator::shared_memory(__start_gk_shared, __stop_gk_shared); }
    int set;
};
__attribute__((section("gk_kernels"), used)) shared_range registered_shared_range;
} // namespace
