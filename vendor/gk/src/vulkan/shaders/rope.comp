#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// Rotates pairs of each head and copies the rest. One item is a pair or one copied element. n: n_head, d_head, n_rot,
// rows.
void main() {
    uint d_head = p.n[1];
    uint n_rot = p.n[2];
    uint pairs = n_rot / 2u;
    uint items = pairs + (d_head - n_rot);
    uint total = p.n[0] * items;
    uint rows = live_rows(p.n[3]);
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride);
        Floats a = floats(p.a, uint64_t(row) * p.a_stride);
        Floats table = floats(p.b, uint64_t(Step(p.step).pos + row) * p.b_stride);
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < total; i += step) {
            uint head = i / items;
            uint item = i - head * items;
            uint base = head * d_head;
            if (item >= pairs) {
                uint k = base + n_rot + (item - pairs);
                dst.v[k] = a.v[k];
                continue;
            }
            bool neox = (p.flags & NEOX) != 0u;
            uint k0 = base + (neox ? item : item * 2u);
            uint k1 = k0 + (neox ? pairs : 1u);
            float cosine = table.v[item * 2u];
            float sine = table.v[item * 2u + 1u];
            float x0 = a.v[k0];
            float x1 = a.v[k1];
            dst.v[k0] = x0 * cosine - x1 * sine;
            dst.v[k1] = x0 * sine + x1 * cosine;
        }
    }
}
