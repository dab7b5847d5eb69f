// The differences between CUDA, HIP, SYCL and the emulation of the tests: lanes of a warp, shuffles, shared memory, f16
// conversion, 16-byte loads. Kernels use nothing else from vendor headers.
#ifndef GK_GPU_PLATFORM_CUH
#define GK_GPU_PLATFORM_CUH

// Values of GK_MMA, the kind of matrix units, of which fragments.cuh has the registers; 0 if there are none.
#define GK_MMA_NVIDIA 1 // mma.m16n8k16, from compute capability 8.0 on
#define GK_MMA_CDNA 2   // AMD's MFMA: CDNA 2 and newer, waves of 64
#define GK_MMA_RDNA3 3  // AMD's WMMA: gfx11, waves of 32
#define GK_MMA_RDNA4 4  // the same with other registers: gfx12

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
#if !GK_HIP && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GK_OVERLAP 1
// A kernel may start before the one before it has ended, and has to wait before it touches anything which that one
// reads or writes.
GK_DEVICE void wait_for_kernel_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
GK_DEVICE void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }
#else
#define GK_OVERLAP 0
GK_DEVICE void wait_for_kernel_before() {}
GK_DEVICE void let_next_kernel_start() {}
#endif
#define GK_EARLY_KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) name(const gk_gpu_args g)
#define GK_KERNEL(name, ...) \
    static __device__ __forceinline__ void name##_body(const gk_gpu_args &g); \
    GK_EARLY_KERNEL(name, __VA_ARGS__) { \
        let_next_kernel_start(); \
        wait_for_kernel_before(); \
        name##_body(g); \
    } \
    static __device__ __forceinline__ void name##_body(const gk_gpu_args &g)

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
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
        : "l"(address));
#else
    value = __ldg(static_cast<const uint4 *>(address));
#endif
    return value;
}

#if GK_HIP
#include "amd.cuh"
#else
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610
#define GK_DOT 1
// The sum of four products of signed bytes, added to `sum`.
GK_DEVICE int dot4(unsigned int x, unsigned int y, int sum) { return __dp4a(static_cast<int>(x), static_cast<int>(y), sum); }
#else
#define GK_DOT 0
#endif
// Each nibble of `selector` picks a byte of y:x.
GK_DEVICE unsigned int select_bytes(unsigned int x, unsigned int y, unsigned int selector) { return __byte_perm(x, y, selector); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GK_MMA GK_MMA_NVIDIA
// Two f16 in each word.
GK_DEVICE unsigned int add_two(unsigned int x, unsigned int y) {
    unsigned int result;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
    return result;
}
GK_DEVICE unsigned int multiply_two(unsigned int x, unsigned int y) {
    unsigned int result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(y));
    return result;
}
GK_DEVICE unsigned int multiply_add_two(unsigned int x, unsigned int y, unsigned int z) {
    unsigned int result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(y), "r"(z));
    return result;
}

GK_DEVICE void load_matrix_of(const unsigned short *row, unsigned int (&out)[4]) {
    const unsigned int place = static_cast<unsigned int>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(place)
                 : "memory");
}

// Lane l receives, in out[0] to out[3], elements (l / 4, l % 4 * 2), and the next, of the four 8 x 8 matrices of a
// 16 x 16 one in shared memory: the upper left, lower left, upper right and lower right one.
GK_DEVICE void load_matrix(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    load_matrix_of(at + lane % 16 * pitch + lane / 16 * 8, out);
}

// The same, with the upper right matrix second and the lower left one third: the right factor of multiply_add.
GK_DEVICE void load_matrix_right(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    load_matrix_of(at + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8, out);
}

// The same, of rows `row` and on, and pieces `piece` and on, of a matrix in the order of GK_GPU_EXCHANGED.
GK_DEVICE void load_matrix_exchanged(const unsigned short *matrix, unsigned int row, unsigned int piece, unsigned int lane, unsigned int (&out)[4]) {
    load_matrix_of(matrix + GK_GPU_EXCHANGED(row + lane % 8 + lane / 16 * 8, piece + lane / 8 % 2), out);
}

// As load_matrix, with rows and columns of each of the four matrices exchanged.
GK_DEVICE void load_matrix_transposed(const unsigned short *at, unsigned int pitch, unsigned int lane, unsigned int (&out)[4]) {
    const unsigned int place = static_cast<unsigned int>(__cvta_generic_to_shared(at + lane % 16 * pitch + lane / 16 * 8));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(place)
                 : "memory");
}

// Copies of tiles to shared memory. Each of two gates belongs to one place: all threads call open_gates(), copy_tile() and, for
// every tile, wait_for_tile() with the lowest bit of its number.
#define GK_TILE_COPIES 1
#if __CUDA_ARCH__ >= 900
GK_DEVICE unsigned int shared_place(const void *at) { return static_cast<unsigned int>(__cvta_generic_to_shared(at)); }
template <int GATES> GK_DEVICE void open_gates(unsigned long long *gates) {
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < GATES; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(shared_place(gates + i)) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); // the unit that copies sees them
    }
    __syncthreads();
}
template <int COUNT, int THREADS> GK_DEVICE void copy_tile(unsigned short *to, const unsigned short *from, bool any, unsigned long long *gate) {
    if (threadIdx.x != 0 || !any) return;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(shared_place(gate)), "n"(COUNT * 2) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(shared_place(to)), "l"(from), "n"(COUNT * 2), "r"(shared_place(gate)) : "memory");
}
GK_DEVICE void wait_for_tile(unsigned long long *gate, unsigned int number) {
    unsigned int arrived;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(arrived) : "r"(shared_place(gate)), "r"(number) : "memory");
    } while (!arrived);
}
#else
template <int GATES> GK_DEVICE void open_gates(unsigned long long *) {}
template <int COUNT, int THREADS> GK_DEVICE void copy_tile(unsigned short *to, const unsigned short *from, bool any, unsigned long long *) {
    if (any)
#pragma unroll
        for (int i = 0; i < COUNT / 8 / THREADS; ++i) {
            const unsigned int item = (threadIdx.x + i * THREADS) * 8;
            const unsigned int place = static_cast<unsigned int>(__cvta_generic_to_shared(to + item));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(place), "l"(from + item) : "memory");
        }
    asm volatile("cp.async.commit_group;" : : : "memory");
}
GK_DEVICE void wait_for_tile(unsigned long long *, unsigned int) {
    asm volatile("cp.async.wait_group 1;" : : : "memory"); // the newest group is that of the other gate
    __syncthreads();
}
#endif

// sum += a 16 x 16 matrix times a 16 x 8 one. Element (row, column) of the sum is in lane row % 8 * 4 + column / 2.
template <bool BF16> GK_DEVICE void multiply_add(float (&sum)[4], const unsigned int (&a)[4], unsigned int b0, unsigned int b1) {
    if (BF16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Matrix units of compute capability 9.0: four warps multiply at once, with the right factor in shared memory.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GK_GROUP_MMA 1
// Keeps the compiler from moving the computation of these registers to another place.
GK_DEVICE void keep_all(unsigned int &value) { asm volatile("" : "+r"(value) : : "memory"); }
GK_DEVICE void keep_all(float &value) { asm volatile("" : "+f"(value) : : "memory"); }
template <class T, int N> GK_DEVICE void keep_all(T (&values)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) keep_all(values[i]);
}

// Between the two, only multiply_add_group() may use the registers of left factors and sums.
template <class L, class S> GK_DEVICE void begin_products(L &left, S &sum) {
    keep_all(left);
    keep_all(sum);
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
template <class L, class S> GK_DEVICE void end_products(L &left, S &sum) {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
    keep_all(left);
    keep_all(sum);
}

// `right`: an element of the first of N rows in the order of GK_GPU_EXCHANGED, which begins at a multiple of 1024 bytes.
GK_DEVICE unsigned long long matrix_description(const unsigned short *right) {
    const unsigned long long groups = 1024 >> 4, exchanged = 1; // bytes from eight rows to the next eight; pieces of 128 bytes
    return exchanged << 62 | groups << 32 | 1ull << 16 | (__cvta_generic_to_shared(right) & 0x3ffff) >> 4;
}

#define GK_FOUR(x) "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])
#define GK_THIRTY_TWO(x, n) \
    GK_FOUR(x[n]), GK_FOUR(x[n + 1]), GK_FOUR(x[n + 2]), GK_FOUR(x[n + 3]), GK_FOUR(x[n + 4]), GK_FOUR(x[n + 5]), GK_FOUR(x[n + 6]), GK_FOUR(x[n + 7])
#define GK_GROUP_64(type) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0; }" \
                 : GK_THIRTY_TWO(sum, 0) \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(1))
#define GK_GROUP_128(type) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0; }" \
                 : GK_THIRTY_TWO(sum, 0), GK_THIRTY_TWO(sum, 8) \
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right), "r"(1))
// sum += 64 rows, of which each warp has 16 as in multiply_add(), times 16 elements of 64 or 128 rows in shared memory.
template <bool BF16> GK_DEVICE void multiply_add_group(float (&sum)[8][4], const unsigned int (&left)[4], unsigned long long right) {
    if (BF16) GK_GROUP_64("bf16");
    else GK_GROUP_64("f16");
}
template <bool BF16> GK_DEVICE void multiply_add_group(float (&sum)[16][4], const unsigned int (&left)[4], unsigned long long right) {
    if (BF16) GK_GROUP_128("bf16");
    else GK_GROUP_128("f16");
}
#endif
#else
#define GK_MMA 0
#endif
#endif
#endif

#ifndef GK_SHARED
#define GK_SHARED(type, name, count) alignas(16) __shared__ type name[count]
#define GK_SHARED_MATRIX(name, count) alignas(1024) __shared__ unsigned short name[count] // see matrix_description()
#endif

// Only CUDA has kernels that may start early.
#ifndef GK_EARLY_KERNEL
#define GK_EARLY_KERNEL GK_KERNEL
#define GK_OVERLAP 0
GK_DEVICE void wait_for_kernel_before() {}
GK_DEVICE void let_next_kernel_start() {}
#endif

// Threads of a kernel, and how many of its blocks a multiprocessor of CUDA has to hold: a limit for registers.
#if defined(__CUDACC__) && !GK_HIP
#define GK_BLOCKS(threads, blocks) threads, blocks
#else
#define GK_BLOCKS(threads, blocks) threads
#endif

// Threads of a kernel without matrix products, and how many of its waves each SIMD of CDNA has to hold. Without that limit, a kernel may use
// the registers of the matrix units, and LLVM 21 crashes on one that does (`AMDGPU Rewrite AGPR-Copy-MFMA`).
#if !defined(GK_GPU_EMULATE) && GK_MMA == GK_MMA_CDNA
#define GK_WAVES(threads, waves) threads, waves
#else
#define GK_WAVES(threads, waves) threads
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

// Two floats as f16 or bf16, rounded to the nearest, the first in the lower half.
template <bool BF16> GK_DEVICE unsigned int pack_sixteen(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned int packed;
    if (BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#else
    if (!BF16) return float_to_half(low) | static_cast<unsigned int>(float_to_half(high)) << 16;
    const unsigned int x = float_to_bits(low), y = float_to_bits(high);
    return (x + 0x7fffu + (x >> 16 & 1u)) >> 16 | ((y + 0x7fffu + (y >> 16 & 1u)) & 0xffff0000u);
#endif
}

template <class T> GK_DEVICE T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

// A plan of one row runs for one token: reading that from memory would delay every kernel of a token.
GK_DEVICE unsigned int tokens(const gk_gpu_args &g) { return g.rows == 1 ? 1 : pointer<const gk_step>(g.step)->n_tok; }
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
