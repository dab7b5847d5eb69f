// kernels.cu, compiled for the CPU.
#define GK_GPU_EMULATE 1
#include "kernels.cu"

extern "C" char __start_gk_shared[], __stop_gk_shared[]; // made by the linker for the section of __shared__ variables

namespace {
const struct shared_range {
    shared_range() { emulator::shared_memory(__start_gk_shared, __stop_gk_shared); }
} registered_shared_range;
} // namespace
