// Shared by all kernels: arguments (must match gkmtl_arguments in metal.h), the step block, f16, reductions. The host
// prepends `#define WG <threads of a threadgroup>`, a multiple of 32, and `#define S0` .. `S5` for each kernel.
// Simdgroups have 32 threads: the host refuses pipelines with other sizes.
#include <metal_stdlib>
using namespace metal;

// Threadgroup memory in a variable declaration; the tests, which run these files on a CPU, define it differently.
#ifndef SHARED
#define SHARED threadgroup
#endif

struct arguments {
    uint stride[4]; // elements from row to row of dst, a, b, c
    uint n[8];
    float f[2];
    uint flags;
    uint unused;
};

// Every kernel has these parameters. `self`: the thread in its threadgroup; `lane`: the thread in its simdgroup, which
// has number `team`.
#define KERNEL(name) \
    [[max_total_threads_per_threadgroup(WG)]] kernel void gk_##name(device uchar *dst_base [[buffer(0)]], device uchar *a_base [[buffer(1)]], \
                          device uchar *b_base [[buffer(2)]], device uchar *c_base [[buffer(3)]], \
                          device uchar *extra [[buffer(4)]], device uint *step_block [[buffer(5)]], \
                          constant arguments &args [[buffer(6)]], uint3 group [[threadgroup_position_in_grid]], \
                          uint self [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], \
                          uint team [[simdgroup_index_in_threadgroup]])
#define DST_STRIDE args.stride[0]
#define A_STRIDE args.stride[1]
#define B_STRIDE args.stride[2]
#define C_STRIDE args.stride[3]
// The item of a thread, for kernels whose threads are independent.
#define ITEM (group.x * WG + self)

// The step block.
#define N_TOK step_block[0]
#define POS step_block[1]
#define RUN step_block[2]
// Rows of this run for an operand of `rows` rows.
#define LIVE_ROWS(rows) min(uint(rows), N_TOK)

// gk.h
#define ACCUMULATE 1u
#define BIAS 2u
#define NEOX 4u
#define LAST_ROW 8u
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_Q4_0 2
#define TYPE_Q8_0 8
#define TYPE_Q4_K 12
#define TYPE_Q6_K 14
#define TYPE_BF16 30

// Row `row` of f32 elements, `stride` apart.
#define ROW(base, row, stride) ((device float *)((base) + ulong(row) * (stride) * 4))
#define BARRIER threadgroup_barrier(mem_flags::mem_threadgroup)

inline float load_half(device const uchar *base, ulong index) {
    half value = ((device const half *)base)[index];
    return float(value);
}

// To nearest, ties to even, in integer arithmetic: the same bits on every device.
inline ushort float_to_half(float value) {
    uint bits = as_type<uint>(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return ushort(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return ushort(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
        uint exponent = magnitude >> 23;
        if (exponent < 102u) return ushort(sign);
        uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint shift = 126u - exponent; // 14 .. 24
        uint result = mantissa >> shift;
        uint rest = mantissa & ((1u << shift) - 1u);
        uint middle = 1u << (shift - 1u);
        if (rest > middle || (rest == middle && (result & 1u) != 0u)) result++;
        return ushort(sign | result);
    }
    uint odd = (magnitude >> 13) & 1u;
    return ushort(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

// Exact for every bit pattern, however the device handles denormals.
inline uint half_to_float_bits(uint h) {
    uint sign = (h & 0x8000u) << 16;
    uint exponent = (h >> 10) & 31u;
    uint mantissa = h & 1023u;
    if (exponent == 0u) return sign | as_type<uint>(float(mantissa) * 5.9604644775390625e-8f);
    if (exponent == 31u) return sign | 0x7f800000u | (mantissa << 13);
    return sign | ((exponent + 112u) << 23) | (mantissa << 13);
}

// Reductions over the threadgroup. Every thread gets the result, and the order is fixed. All threads must call these.
// partial: WG / 32 floats.
inline float group_sum(float value, threadgroup float *partial, uint lane, uint team) {
    value = simd_sum(value);
    if (lane == 0u) partial[team] = value;
    BARRIER;
    float total = partial[0];
    for (uint i = 1u; i < WG / 32u; i++) total += partial[i];
    BARRIER;
    return total;
}

inline float group_max(float value, threadgroup float *partial, uint lane, uint team) {
    value = simd_max(value);
    if (lane == 0u) partial[team] = value;
    BARRIER;
    float largest = partial[0];
    for (uint i = 1u; i < WG / 32u; i++) largest = fmax(largest, partial[i]);
    BARRIER;
    return largest;
}

// A key that orders floats as unsigned numbers: NaN lowest, then -inf .. +inf, with -0 = +0.
inline uint order_key(float value) {
    uint bits = as_type<uint>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
    if ((bits & 0x7fffffffu) == 0u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
