#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// One workgroup normalises one group. n: group, groups of a row, rows. f: eps.
void main() {
    uint size = p.n[0];
    uint per_row = p.n[1];
    uint rows = live_rows(p.n[2]);
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        for (uint group = gl_WorkGroupID.x; group < per_row; group += gl_NumWorkGroups.x) {
            Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride + group * size);
            Floats a = floats(p.a, uint64_t(row) * p.a_stride + group * size);
            float sum = 0.0;
            for (uint i = gl_LocalInvocationID.x; i < size; i += gl_WorkGroupSize.x) sum += a.v[i] * a.v[i];
            float scale = 1.0 / sqrt(group_sum(sum) / float(size) + p.f[0]);
            for (uint i = gl_LocalInvocationID.x; i < size; i += gl_WorkGroupSize.x)
                dst.v[i] = a.v[i] * scale * Floats(p.b).v[i];
        }
    }
}
