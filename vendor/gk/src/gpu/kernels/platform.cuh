// The differences between CUDA, HIP, SYCL and the emulation of the tests: lanes of a warp, shuffles, shared memory, f16
// conversion, 16-byte loads. Kernels use nothing else from vendor headers.
#ifndef GK_GPU_PLATFORM_CUH
#define GK_GPU_PLATFORM_CUH

#if defined(GK_GPU_EMULATE)
#include "emulate.h" // tests/emulation: the vendor's language and intrinsics in plain C++
#elif defined(GK_GPU_SYCL)
#include "platform.hpp" // src/sycl
#else

#if defined(__HIP__) || defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define GK_HIP 1
// wave64 on GCN and CDNA, wave32 on RDNA. The compiler's own constant was renamed and later removed.
#if defined(__GFX8__) || defined(__GFX9__)
#define GK_WARP 64
#else
#define GK_WARP 32
#endif
#else
#define GK_HIP 0
#define GK_WARP 32
#endif

#define GK_DEVICE static __device__ __forceinline__
#define GK_KERNEL(name, threads) extern "C" __global__ void __launch_bounds__(threads) name(const gk_gpu_args g)

GK_DEVICE float half_to_float(unsigned short bits) {
#if GK_HIP
    return static_cast<float>(__builtin_bit_cast(_Float16, bits));
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
}

GK_DEVICE unsigned short float_to_half(float value) {
#if GK_HIP
    return __builtin_bit_cast(unsigned short, static_cast<_Float16>(value));
#else
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#endif
}

// 16 bytes that are read once: weights must not evict activations from the cache.
GK_DEVICE uint4 load_stream(const void *address) {
    uint4 value;
#if GK_HIP
    typedef unsigned int vector4 __attribute__((ext_vector_type(4)));
    const vector4 loaded = __builtin_nontemporal_load(static_cast<const vector4 *>(address));
    value.x = loaded.x;
    value.y = loaded.y;
    value.z = loaded.z;
    value.w = loaded.w;
#else
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
        : "l"(address));
#endif
    return value;
}
#endif

#ifndef GK_SHARED
#define GK_SHARED(type, name, count) alignas(16) __shared__ type name[count]
#define GK_SHARED_ONE(type, name) __shared__ type name
#endif

// Common to all platforms from here on.

template <class T> GK_DEVICE T shuffle_xor(T value, int mask) {
#if GK_HIP
    return __shfl_xor(value, mask, GK_WARP);
#else
    return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

GK_DEVICE float bits_to_float(unsigned int bits) { return __uint_as_float(bits); }
GK_DEVICE unsigned int float_to_bits(float value) { return __float_as_uint(value); }

// Byte `index` of `word`, minus `offset`. On CUDA built as the float 2^23 + byte, because conversion instructions run
// at a quarter of the rate; AMD has a full-rate one.
GK_DEVICE float quant_to_float(unsigned int word, int index, int offset) {
#if GK_HIP
    return static_cast<float>((word >> (8 * index)) & 0xffu) - static_cast<float>(offset);
#else
    return bits_to_float(__byte_perm(word, 0x4b000000u, 0x7650u + static_cast<unsigned int>(index))) -
           static_cast<float>(8388608 + offset);
#endif
}

template <class T> GK_DEVICE T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

GK_DEVICE unsigned int tokens(const gk_gpu_args &g) { return pointer<const gk_step>(g.step)->n_tok; }
GK_DEVICE unsigned int position(const gk_gpu_args &g) { return pointer<const gk_step>(g.step)->pos; }

// Rows to compute: those of this run, at most those of the plan.
GK_DEVICE unsigned int active_rows(const gk_gpu_args &g) {
    const unsigned int used = tokens(g);
    return used < g.rows ? used : g.rows;
}

GK_DEVICE float warp_sum(float value) {
    for (int mask = GK_WARP / 2; mask > 0; mask >>= 1) value += shuffle_xor(value, mask);
    return value;
}

GK_DEVICE float warp_max(float value) {
    for (int mask = GK_WARP / 2; mask > 0; mask >>= 1) value = fmaxf(value, shuffle_xor(value, mask));
    return value;
}

// Sum (or maximum) over the block, with the same bits in every thread. `shared` has one element per warp; the barrier
// at the beginning allows a kernel to call this twice.
GK_DEVICE float block_sum(float value, float *shared) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % GK_WARP == 0) shared[threadIdx.x / GK_WARP] = value;
    __syncthreads();
    float total = 0.0f;
    for (unsigned int warp = 0; warp < (blockDim.x + GK_WARP - 1) / GK_WARP; ++warp) total += shared[warp];
    return total;
}

GK_DEVICE float block_max(float value, float *shared) {
    value = warp_max(value);
    __syncthreads();
    if (threadIdx.x % GK_WARP == 0) shared[threadIdx.x / GK_WARP] = value;
    __syncthreads();
    float most = shared[0];
    for (unsigned int warp = 1; warp < (blockDim.x + GK_WARP - 1) / GK_WARP; ++warp) most = fmaxf(most, shared[warp]);
    return most;
}

#endif
