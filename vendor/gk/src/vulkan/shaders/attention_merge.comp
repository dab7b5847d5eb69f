#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// Combines the splits of attention.comp; one workgroup per (t, head). n: n_head, d_head, rows, positions of a split,
// splits.
void main() {
    uint n_head = p.n[0];
    uint d = p.n[1];
    uint rows = live_rows(p.n[2]) * n_head;
    for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
        uint t = row / n_head;
        uint used = (Step(p.step).pos + t) / p.n[3] + 1u;
        Floats part = floats(p.extra, uint64_t(row) * p.n[4] * (d + 2u));
        uint size = d + 2u;
        float largest = part.v[d];
        for (uint s = 1u; s < used; s++) largest = max(largest, part.v[s * size + d]);
        float weight = 0.0;
        for (uint s = 0u; s < used; s++) weight += exp(part.v[s * size + d] - largest) * part.v[s * size + d + 1u];
        for (uint i = gl_LocalInvocationID.x; i < d; i += gl_WorkGroupSize.x) {
            float sum = 0.0;
            for (uint s = 0u; s < used; s++) sum += exp(part.v[s * size + d] - largest) * part.v[s * size + i];
            floats(p.dst, uint64_t(t) * p.dst_stride).v[(row - t * n_head) * d + i] = sum / weight;
        }
    }
}
