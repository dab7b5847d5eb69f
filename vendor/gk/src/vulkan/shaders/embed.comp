#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
// dst[t] = row b[t] of the weight a; an invocation computes four elements at a time. n: n_embd, n_vocab, T.

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[2]);
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        uint id = Uints(p.b).v[row];
        Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride);
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x * 4u;
        for (uint first = gl_GlobalInvocationID.x * 4u; first < columns; first += step) {
            vec4 value = vec4(0.0);
            if (id < p.n[1]) value = load_weight_quad(id, first, columns);
            [[unroll]] for (uint i = 0u; i < 4u; i++)
                if (first + i < columns) dst.v[first + i] = value[i];
        }
    }
}
