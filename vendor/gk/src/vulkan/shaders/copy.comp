#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// dst = a, each of them f32 or f16; equal types keep every bit. n: columns, rows.
layout(constant_id = 2) const uint DST_TYPE = 0;
layout(constant_id = 3) const uint SRC_TYPE = 0;

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[1]);
    const uint64_t dst_size = DST_TYPE == TYPE_F16 ? 2 : 4;
    const uint64_t src_size = SRC_TYPE == TYPE_F16 ? 2 : 4;
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        uint64_t dst = p.dst + uint64_t(row) * p.dst_stride * dst_size;
        uint64_t src = p.a + uint64_t(row) * p.a_stride * src_size;
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < columns; i += step) {
            if (DST_TYPE == TYPE_F16) {
                uint half_bits = SRC_TYPE == TYPE_F16 ? uint(Halves(src).v[i]) : float_to_half(Floats(src).v[i]);
                Halves(dst).v[i] = uint16_t(half_bits);
            } else {
                // As integers: a float load may flush a denormal.
                Uints(dst).v[i] = SRC_TYPE == TYPE_F16 ? floatBitsToUint(load_half(src, i)) : Uints(src).v[i];
            }
        }
    }
}
