// Shared by all kernels: the push constants (must match gkv_push in vulkan.h), typed device addresses, the step block,
// reductions over a workgroup, and f16 without 16-bit arithmetic.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require

// Specialisation constants: 0 = workgroup size, 1 = subgroup size, 2.. = for each kernel. The host requests exactly
// this subgroup size if the device supports it.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SUBGROUP = 32;

layout(push_constant, std430) uniform Push {
    uint64_t dst, a, b, c, step, extra; // device addresses
    uint dst_stride, a_stride, b_stride, c_stride; // elements from row to row
    uint n[8];
    float f[2];
    uint flags;
    uint reserved;
} p;

const uint ACCUMULATE = 1, BIAS = 2, NEOX = 4, LAST_ROW = 8; // gk.h
const uint TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q8_0 = 8, TYPE_Q4_K = 12, TYPE_Q6_K = 14, TYPE_BF16 = 30; // gk.h

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { uint16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Uints { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Longs { uint64_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer LongPairs { u64vec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Step { uint n_tok, pos, run, reserved; };

// Addresses are 64-bit sums; the index inside one row stays below 2^31.
Floats floats(uint64_t base, uint64_t element) { return Floats(base + element * 4); }

// 8 and 16 bytes at once, as 64-bit words: llvmpipe loads one component of one invocation at a time, so half as many
// components are twice as fast; on a GPU the load is the same.
uvec2 load_8_bytes(uint64_t base, uint index) { return unpackUint2x32(Longs(base).v[index]); }
uvec4 load_16_bytes(uint64_t base, uint index) {
    u64vec2 words = LongPairs(base).v[index];
    return uvec4(unpackUint2x32(words.x), unpackUint2x32(words.y));
}

uint lane() { return gl_SubgroupInvocationID; }

// Rows of this run for an operand of `rows` rows.
uint live_rows(uint rows) { return min(rows, Step(p.step).n_tok); }

// ---- f16: exact for every bit pattern, however the device handles denormals ----

float half_to_float(uint h) {
    uint sign = (h & 0x8000u) << 16;
    uint exponent = (h >> 10) & 31u;
    uint mantissa = h & 1023u;
    if (exponent == 0u) return uintBitsToFloat(sign | floatBitsToUint(float(mantissa) * 5.9604644775390625e-8));
    if (exponent == 31u) return uintBitsToFloat(sign | 0x7f800000u | (mantissa << 13));
    return uintBitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

// To nearest, ties to even; NaN stays NaN. Vulkan does not define the rounding of the conversion instruction.
uint float_to_half(float value) {
    uint bits = floatBitsToUint(value);
    uint sign = (bits >> 16) & 0x8000u;
    uint magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
        uint exponent = magnitude >> 23;
        if (exponent < 102u) return sign;
        uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        uint shift = 126u - exponent; // 14 .. 24
        uint result = mantissa >> shift;
        uint rest = mantissa & ((1u << shift) - 1u);
        uint middle = 1u << (shift - 1u);
        if (rest > middle || (rest == middle && (result & 1u) != 0u)) result++;
        return sign | result;
    }
    uint odd = (magnitude >> 13) & 1u;
    return sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float load_half(uint64_t base, uint index) { return half_to_float(uint(Halves(base).v[index])); }

// The four signed bytes of a word.
vec4 bytes_to_floats(uint word) {
    int w = int(word);
    return vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8), bitfieldExtract(w, 24, 8));
}

vec4 unsigned_bytes_to_floats(uint word) {
    return vec4(word & 255u, word >> 8 & 255u, word >> 16 & 255u, word >> 24);
}

// ---- reductions over the workgroup; every invocation gets the result, and the order is fixed ----

shared float group_partial[32]; // workgroup size / subgroup size, which the host limits to 32

float group_sum(float value) {
    value = subgroupAdd(value);
    if (gl_NumSubgroups == 1u) return value;
    if (subgroupElect()) group_partial[gl_SubgroupID] = value;
    barrier();
    float total = 0.0;
    for (uint s = 0u; s < gl_NumSubgroups; s++) total += group_partial[s];
    barrier();
    return total;
}

float group_max(float value) {
    value = subgroupMax(value);
    if (gl_NumSubgroups == 1u) return value;
    if (subgroupElect()) group_partial[gl_SubgroupID] = value;
    barrier();
    float largest = group_partial[0];
    for (uint s = 1u; s < gl_NumSubgroups; s++) largest = max(largest, group_partial[s]);
    barrier();
    return largest;
}

// A key that orders floats as unsigned numbers: NaN lowest, then -inf .. +inf, with -0 = +0.
uint order_key(float value) {
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0u;
    if ((bits & 0x7fffffffu) == 0u) bits = 0u;
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}
