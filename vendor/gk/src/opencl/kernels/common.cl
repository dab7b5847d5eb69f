// Shared by all kernels: arguments (must match gkcl_arguments in opencl.h), the step block, f16, reductions. Compiled
// with -DWG=<work-items of a work-group>, -DSUBGROUPS=<0 or 1> and -DS0=.. -DS5=.. for each kernel.
#if SUBGROUPS
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef cl_intel_subgroups
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#endif
#endif

#define KERNEL(name) __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void gk_##name(ARGUMENTS)

// Buffers, then the offsets of the operands in them. Every kernel has these parameters.
#define ARGUMENTS \
    __global uchar *dst_buffer, __global uchar *a_buffer, __global uchar *b_buffer, __global uchar *c_buffer, \
    __global uchar *extra_buffer, __global uint *step_block, ulong8 at, uint4 stride, uint8 n, float2 f, uint flags
#define DST (dst_buffer + at.s0)
#define A (a_buffer + at.s1)
#define B (b_buffer + at.s2)
#define C (c_buffer + at.s3)
#define EXTRA (extra_buffer + at.s4)
#define DST_STRIDE stride.s0
#define A_STRIDE stride.s1
#define B_STRIDE stride.s2
#define C_STRIDE stride.s3

// The step block.
#define N_TOK step_block[0]
#define POS step_block[1]
#define RUN step_block[2]
// Rows of this run for an operand of `rows` rows.
#define LIVE_ROWS(rows) min((uint)(rows), N_TOK)

// gk.h
#define ACCUMULATE 1
#define BIAS 2
#define NEOX 4
#define LAST_ROW 8
#define TYPE_F32 0
#define TYPE_F16 1
#define TYPE_Q4_0 2
#define TYPE_Q8_0 8
#define TYPE_Q4_K 12
#define TYPE_Q6_K 14
#define TYPE_BF16 30

typedef __global float *floats;
typedef __global const float *const_floats;
typedef __global ushort *halves;
typedef __global const ushort *const_halves;
typedef __global const uchar *const_bytes;

#define SELF ((uint)get_local_id(0))

// Row `row` of f32 elements, `stride` apart.
#define ROW(base, row, stride) ((floats)((base) + (ulong)(row) * (stride) * 4))

float load_half(const_bytes base, ulong index) { return vload_half(index, (__global const half *)base); }

// To nearest, ties to even, in integer arithmetic: the same bits on every device.
ushort float_to_half(float value) {
    uint bits = as_uint(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (ushort)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (ushort)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
        uint exponent = magnitude >> 23;
        if (exponent < 102u) return (ushort)sign;
        uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint shift = 126u - exponent; // 14 .. 24
        uint result = mantissa >> shift;
        uint rest = mantissa & ((1u << shift) - 1u);
        uint middle = 1u << (shift - 1u);
        if (rest > middle || (rest == middle && (result & 1u) != 0u)) result++;
        return (ushort)(sign | result);
    }
    uint odd = (magnitude >> 13) & 1u;
    return (ushort)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

// Exact for every bit pattern, however the device handles denormals.
uint half_to_float_bits(uint h) {
    uint sign = (h & 0x8000u) << 16;
    uint exponent = (h >> 10) & 31u;
    uint mantissa = h & 1023u;
    if (exponent == 0u) return sign | as_uint((float)mantissa * 5.9604644775390625e-8f);
    if (exponent == 31u) return sign | 0x7f800000u | (mantissa << 13);
    return sign | ((exponent + 112u) << 23) | (mantissa << 13);
}

// Reductions over the work-group. Every work-item gets the result, and the order is fixed. All work-items must call
// these. partial: WG floats.
#if SUBGROUPS
#define REDUCE(name, of_subgroup, join) \
    float name(float value, __local float *partial) { \
        value = of_subgroup(value); \
        uint count = get_num_sub_groups(); \
        if (count == 1u) return value; \
        if (get_sub_group_local_id() == 0u) partial[get_sub_group_id()] = value; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        float x = partial[0]; \
        for (uint i = 1u; i < count; i++) { \
            float y = partial[i]; \
            x = join; \
        } \
        barrier(CLK_LOCAL_MEM_FENCE); \
        return x; \
    }
REDUCE(group_sum, sub_group_reduce_add, x + y)
REDUCE(group_max, sub_group_reduce_max, fmax(x, y))
#else
#define REDUCE(name, join) \
    float name(float value, __local float *partial) { \
        uint self = SELF; \
        partial[self] = value; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        for (uint part = WG / 2; part != 0u; part /= 2u) { \
            if (self < part) { \
                float x = partial[self]; \
                float y = partial[self + part]; \
                partial[self] = join; \
            } \
            barrier(CLK_LOCAL_MEM_FENCE); \
        } \
        value = partial[0]; \
        barrier(CLK_LOCAL_MEM_FENCE); \
        return value; \
    }
REDUCE(group_sum, x + y)
REDUCE(group_max, fmax(x, y))
#endif

// A key that orders floats as unsigned numbers: NaN lowest, then -inf .. +inf, with -0 = +0.
uint order_key(float value) {
    uint bits = as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
    if ((bits & 0x7fffffffu) == 0u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
