#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "narrowed.glsl"
// Rounds b to f16. A workgroup scales a row by a power of two so that its largest element is in 2^14 .. 2^15: nothing
// exceeds the range of f16, and values are lost only below 2^-28 of the largest.

const uint NOT_FINITE = 0x7f800000u, NOT_A_NUMBER = 0x7fc00000u;

float largest_of(uint64_t source, uint k) {
    uvec4 all = uvec4(0u); // as bits, magnitudes are ordered; NaN counts as infinity
    for (uint i = gl_LocalInvocationID.x * 4u; i < k; i += gl_WorkGroupSize.x * 4u)
        all = max(all, min(floatBitsToUint(load_vec4(source, i, k)) & 0x7fffffffu, uvec4(NOT_FINITE)));
    return group_max(uintBitsToFloat(max(max(all.x, all.y), max(all.z, all.w))));
}

void narrow_row(uint row, uint k) {
    uint64_t source = p.b + uint64_t(row) * p.b_stride * 4;
    uint largest = floatBitsToUint(largest_of(source, k));
    uint exponent = clamp(largest >> 23, 15u, 254u);
    float scale = uintBitsToFloat((268u - exponent) << 23);
    WordPairs halves = WordPairs(narrowed_row(row));
    for (uint i = gl_LocalInvocationID.x * 4u; i < narrowed_width(); i += gl_WorkGroupSize.x * 4u) {
        vec4 x = vec4(0.0);
        if (i < k) x = load_vec4(source, i, k) * scale;
        halves.v[i / 4u] = uvec2(float_to_half(x.x) | float_to_half(x.y) << 16, float_to_half(x.z) | float_to_half(x.w) << 16);
    }
    /* A row with a value that is not finite becomes NaN. */
    if (gl_LocalInvocationID.x == 0u) Uints(p.extra).v[row] = largest >= NOT_FINITE ? NOT_A_NUMBER : (exponent - 14u) << 23;
}

void main() {
    uint live = live_rows(p.n[2]);
    for (uint row = gl_WorkGroupID.x; row < live; row += gl_NumWorkGroups.x) narrow_row(row, p.n[0]);
}
