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

// GK_HIP, GK_WARP and GK_MMA are given on the command line.
#define __device__
#define __forceinline__ inline
#define __shared__ static // everything in .bss of kernels.cpp is shared memory: see CMakeLists.txt
#define __syncthreads() emulator::barrier(__LINE__)

#define GK_DEVICE static inline
#define GK_KERNEL(name, threads) \
    static void name(const gk_gpu_args &g); \
    static __attribute__((section("gk_kernels"))) emulator::kernel registered_##name(#name, threads, name); \
    static void name(const gk_gpu_args &g)

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

#if !GK_HIP
// Launches may start early; here they never do.
#define GK_OVERLAP 1
#define GK_EARLY_KERNEL GK_KERNEL
GK_DEVICE void wait_for_kernel_before() {}
GK_DEVICE void let_next_kernel_start() {}
#endif

#define GK_DOT 1
GK_DEVICE unsigned int select_bytes(unsigned int x, unsigned int y, unsigned int selector) { return __byte_perm(x, y, selector); }
GK_DEVICE int dot4(unsigned int x, unsigned int y, int sum) {
    for (int i = 0; i < 4; ++i) sum += static_cast<signed char>(x >> (8 * i)) * static_cast<signed char>(y >> (8 * i));
    return sum;
}

// Two f16 in each word.
GK_DEVICE unsigned int multiply_add_two(unsigned int x, unsigned int y, unsigned int z) {
    unsigned int result = 0;
    for (int shift = 0; shift < 32; shift += 16) {
        const float product = half_to_float(static_cast<unsigned short>(x >> shift)) * half_to_float(static_cast<unsigned short>(y >> shift));
        result |= static_cast<unsigned int>(float_to_half(product + half_to_float(static_cast<unsigned short>(z >> shift)))) << shift;
    }
    return result;
}
GK_DEVICE unsigned int add_two(unsigned int x, unsigned int y) { return multiply_add_two(x, 0x3c003c00u, y); }
GK_DEVICE unsigned int multiply_two(unsigned int x, unsigned int y) { return multiply_add_two(x, y, 0x80008000u); }

template <bool BF16> GK_DEVICE float widen_sixteen(unsigned int word, unsigned int which) {
    const unsigned short bits = static_cast<unsigned short>(word >> (16 * which));
    return BF16 ? __uint_as_float(static_cast<unsigned int>(bits) << 16) : gk_f32_of_f16(bits);
}

#if GK_HIP
// V_MFMA_F32_16X16X16 or V_WMMA_F32_16X16X16 with f16 or bf16, except that CDNA 2 reads denormal f16 as zero. The emulator has
// the places of the elements.
template <bool BF16, int SUMS, int WORDS> GK_DEVICE void amd_matrix(float (&sum)[SUMS], const unsigned int (&a)[WORDS], const unsigned int (&b)[WORDS]) {
    static_assert(SUMS == 256 / GK_WARP && WORDS == (GK_MMA == GK_MMA_RDNA3 ? 8 : 128 / GK_WARP), "registers of the instruction");
    float of_a[2 * WORDS], of_b[2 * WORDS];
    for (int i = 0; i < 2 * WORDS; ++i) {
        of_a[i] = widen_sixteen<BF16>(a[i / 2], i % 2);
        of_b[i] = widen_sixteen<BF16>(b[i / 2], i % 2);
    }
    emulator::multiply_add<GK_MMA == GK_MMA_CDNA ? emulator::MFMA : GK_MMA == GK_MMA_RDNA3 ? emulator::WMMA_GFX11 : emulator::WMMA_GFX12>(sum, of_a, of_b);
}
#else
// LDMATRIX: each lane reads its own elements here; on a device, it reads a row of 16 bytes for the others.
GK_DEVICE void load_matrix(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    if (reinterpret_cast<uintptr_t>(at) % 16 != 0 || pitch % 8 != 0) abort();
    for (unsigned int i = 0; i < 4; ++i)
        out[i] = *reinterpret_cast<const unsigned int *>(at + (i % 2 * 8 + lane / 4) * pitch + i / 2 * 8 + lane % 4 * 2);
}

GK_DEVICE void load_matrix_right(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    if (reinterpret_cast<uintptr_t>(at) % 16 != 0 || pitch % 8 != 0) abort();
    for (unsigned int i = 0; i < 4; ++i)
        out[i] = *reinterpret_cast<const unsigned int *>(at + (i / 2 * 8 + lane / 4) * pitch + i % 2 * 8 + lane % 4 * 2);
}
GK_DEVICE void load_matrix_exchanged(const unsigned short *matrix, unsigned int row, unsigned int piece, unsigned int lane, unsigned int (&out)[4]) {
    if (reinterpret_cast<uintptr_t>(matrix) % 1024 != 0) abort();
    for (unsigned int i = 0; i < 4; ++i)
        out[i] = *reinterpret_cast<const unsigned int *>(matrix + GK_GPU_EXCHANGED(row + i / 2 * 8 + lane / 4, piece + i % 2) + lane % 4 * 2);
}
GK_DEVICE void load_matrix_transposed(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    if (reinterpret_cast<uintptr_t>(at) % 16 != 0 || pitch % 8 != 0) abort();
    for (unsigned int i = 0; i < 4; ++i) {
        const unsigned short *two = at + (i % 2 * 8 + lane % 4 * 2) * pitch + i / 2 * 8 + lane / 4;
        out[i] = two[0] | static_cast<unsigned int>(two[pitch]) << 16;
    }
}

// MMA of 16 x 16 and 16 x 8 elements.
template <bool BF16> GK_DEVICE void multiply_add(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    const unsigned int b[2] = {b0, b1};
    float of_a[8], of_b[4];
    for (unsigned int i = 0; i < 8; ++i) of_a[i] = widen_sixteen<BF16>(a[i / 2], i % 2);
    for (unsigned int i = 0; i < 4; ++i) of_b[i] = widen_sixteen<BF16>(b[i / 2], i % 2);
    emulator::multiply_add<emulator::MMA>(sum, of_a, of_b);
}
#endif

#endif
