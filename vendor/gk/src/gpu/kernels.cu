// All kernels of the CUDA and ROCm backends: one translation unit, compiled by nvcc, by hipcc, and by a plain C++
// compiler for the emulation in tests/emulation.
#include <math.h>

#include "args.h"

#include "kernels/platform.cuh"

#include "kernels/weight.cuh"

#include "kernels/rows.cuh"
#include "kernels/select.cuh"

#include "kernels/matmul.cuh"

#include "kernels/dot.cuh"

#include "kernels/fragments.cuh"

#include "kernels/mma.cuh"

#include "kernels/attention.cuh"

#include "kernels/attention_mma.cuh"
#include "kernels/split_mma.cuh"
