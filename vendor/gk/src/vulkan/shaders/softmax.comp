#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// One workgroup per row. n: columns, rows. f: scale.
void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[1]);
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride);
        Floats a = floats(p.a, uint64_t(row) * p.a_stride);
        float largest = uintBitsToFloat(0xff800000u);
        for (uint i = gl_LocalInvocationID.x; i < columns; i += gl_WorkGroupSize.x)
            largest = max(largest, p.f[0] * a.v[i]);
        largest = group_max(largest);
        float sum = 0.0;
        for (uint i = gl_LocalInvocationID.x; i < columns; i += gl_WorkGroupSize.x) {
            float e = exp(p.f[0] * a.v[i] - largest);
            dst.v[i] = e;
            sum += e;
        }
        float scale = 1.0 / group_sum(sum);
        // Each invocation reads back only what it wrote itself.
        for (uint i = gl_LocalInvocationID.x; i < columns; i += gl_WorkGroupSize.x) dst.v[i] *= scale;
    }
}
