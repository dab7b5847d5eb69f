# Shared by src/cuda and src/rocm: the sources of the device code.
include_guard()

set(GK_GPU_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(GK_GPU_KERNELS "${GK_GPU_DIR}/kernels.cu")
# An explicit list: nvcc and hipcc can write dependency files, but not every generator reads them.
set(GK_GPU_KERNEL_DEPENDS
  "${GK_GPU_DIR}/kernels.cu"
  "${GK_GPU_DIR}/args.h"
  "${GK_GPU_DIR}/kernels/platform.cuh"
  "${GK_GPU_DIR}/kernels/amd.cuh"
  "${GK_GPU_DIR}/kernels/weight.cuh"
  "${GK_GPU_DIR}/kernels/rows.cuh"
  "${GK_GPU_DIR}/kernels/select.cuh"
  "${GK_GPU_DIR}/kernels/matmul.cuh"
  "${GK_GPU_DIR}/kernels/dot.cuh"
  "${GK_GPU_DIR}/kernels/fragments.cuh"
  "${GK_GPU_DIR}/kernels/mma.cuh"
  "${GK_GPU_DIR}/kernels/attention.cuh"
  "${GK_GPU_DIR}/kernels/attention_mma.cuh"
  "${GK_GPU_DIR}/kernels/split_mma.cuh"
  "${PROJECT_SOURCE_DIR}/include/gk.h")
set(GK_GPU_KERNEL_FLAGS -O3 -std=c++17 "-I${PROJECT_SOURCE_DIR}/include" "-I${GK_GPU_DIR}")
