// Defines the HIP names that kernels.cu uses, in SYCL (DPC++). Included by platform.cuh under GK_GPU_SYCL.
#ifndef GK_SYCL_PLATFORM_HPP
#define GK_SYCL_PLATFORM_HPP

#include <sycl/sycl.hpp>

#include "image.h"

#define GK_HIP 1
#define GK_DOT 0
#define GK_MMA 0
#define GK_WARP GK_SYCL_SUB_GROUP // each kernel requires this size
#define GK_DEVICE static inline __attribute__((always_inline))
// Functions instead of lambdas: they keep their names in SPIR-V, and the argument is passed by value without changes.
#define GK_KERNEL(name, threads) \
    extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<3>)) \
        SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::sub_group_size<GK_WARP>)) void name(const gk_gpu_args g)

// Work-group memory has its own class; a reference makes it look like a variable.
#define GK_SHARED(type, name, count) \
    alignas(16) static sycl::ext::oneapi::experimental::work_group_static<type[count]> name##_of_group; \
    type(&name)[count] = name##_of_group

// Dimension 2 varies fastest in SYCL, x in CUDA.
struct gk_three {
    unsigned int x, y, z;
};
GK_DEVICE sycl::nd_item<3> gk_item() { return sycl::ext::oneapi::this_work_item::get_nd_item<3>(); }
GK_DEVICE gk_three gk_three_of(const sycl::id<3> &id) {
    return {static_cast<unsigned int>(id[2]), static_cast<unsigned int>(id[1]), static_cast<unsigned int>(id[0])};
}
GK_DEVICE gk_three gk_three_of(const sycl::range<3> &range) { return gk_three_of(sycl::id<3>(range)); }
#define threadIdx gk_three_of(gk_item().get_local_id())
#define blockIdx gk_three_of(gk_item().get_group().get_group_id())
#define blockDim gk_three_of(gk_item().get_local_range())
#define gridDim gk_three_of(gk_item().get_group_range())
#define __syncthreads() sycl::group_barrier(gk_item().get_group())

struct alignas(8) uint2 {
    unsigned int x, y;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

GK_DEVICE unsigned int __float_as_uint(float value) { return sycl::bit_cast<unsigned int>(value); }
GK_DEVICE float __uint_as_float(unsigned int bits) { return sycl::bit_cast<float>(bits); }
GK_DEVICE float half_to_float(unsigned short bits) { return static_cast<float>(sycl::bit_cast<sycl::half>(bits)); }
GK_DEVICE unsigned short float_to_half(float value) { return sycl::bit_cast<unsigned short>(static_cast<sycl::half>(value)); }

template <class T> GK_DEVICE T __shfl_xor(T value, int mask, int) {
    return sycl::permute_group_by_xor(sycl::ext::oneapi::this_work_item::get_sub_group(), value, static_cast<unsigned int>(mask));
}

GK_DEVICE uint4 load_stream(const void *address) { return *static_cast<const uint4 *>(address); }

#endif
