// Defines the CUDA and HIP names that kernels.cu uses, in plain C++. Included by platform.cuh under GK_GPU_EMULATE.
#ifndef GK_EMULATE_H
#define GK_EMULATE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

extern "C" {
#include "gk_internal.h"
}

// GK_HIP and GK_WARP are given on the command line: 0 and 32, or 1 and 64.
#define __device__
#define __forceinline__ inline
#define __shared__ static // everything in .bss of kernels.cpp is shared memory: see CMakeLists.txt
#define __syncthreads() emulator::barrier(__LINE__)

#define GK_DEVICE static inline
#define GK_KERNEL(name, threads) \
    static void name(gk_gpu_args g); \
    static __attribute__((section("gk_kernels"))) emulator::kernel registered_##name(#name, threads, name); \
    static void name(gk_gpu_args g)

struct alignas(8) uint2 {
    unsigned int x, y;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

GK_DEVICE unsigned int __float_as_uint(float value) { return gk_bits_of_float(value); }
GK_DEVICE float __uint_as_float(unsigned int bits) { return gk_float_of_bits(bits); }

GK_DEVICE float half_to_float(unsigned short bits) { return gk_f32_of_f16(bits); }
GK_DEVICE unsigned short float_to_half(float value) { return gk_f16_of_f32(value); }

#if GK_HIP
GK_DEVICE float __shfl_xor(float value, int mask, int) {
    return __uint_as_float(emulator::exchange(__float_as_uint(value), static_cast<unsigned int>(mask)));
}
#else
GK_DEVICE float __shfl_xor_sync(unsigned int lanes, float value, int mask) {
    if (lanes != 0xffffffffu) abort(); // the emulator supports only full warps
    return __uint_as_float(emulator::exchange(__float_as_uint(value), static_cast<unsigned int>(mask)));
}
#endif

// PRMT: each nibble of `selector` picks a byte of y:x.
GK_DEVICE unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    const uint64_t bytes = (static_cast<uint64_t>(y) << 32) | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned int from = (selector >> (4 * i)) & 7u;
        result |= static_cast<unsigned int>((bytes >> (8 * from)) & 0xffu) << (8 * i);
    }
    return result;
}

// A device faults on a misaligned vector load; here it aborts the test.
GK_DEVICE uint4 load_stream(const void *address) {
    uint4 value;
    if (reinterpret_cast<uintptr_t>(address) % 16 != 0) abort();
    memcpy(&value, address, sizeof value);
    return value;
}

GK_DEVICE unsigned int atomicAdd(unsigned int *to, unsigned int value) { return emulator::add(to, value); }

#endif
