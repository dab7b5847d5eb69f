#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// dst[t] = row b[t] of the weight a. n: n_embd, n_vocab, T. extra: plane of q8_0 scales.
layout(constant_id = 2) const uint WEIGHT_TYPE = 0;

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[2]);
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        uint id = Uints(p.b).v[row];
        Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride);
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < columns; i += step) {
            float value = 0.0;
            if (id < p.n[1]) {
                uint64_t first = uint64_t(id) * columns;
                if (WEIGHT_TYPE == TYPE_F32) value = floats(p.a, first).v[i];
                if (WEIGHT_TYPE == TYPE_F16) value = load_half(p.a + first * 2, i);
                if (WEIGHT_TYPE == TYPE_Q8_0) {
                    int word = int(Uints(p.a + first).v[i / 4u]);
                    float scale = load_half(p.extra + first / 16, i / 32u);
                    value = scale * float(bitfieldExtract(word, int(i % 4u) * 8, 8));
                }
            }
            dst.v[i] = value;
        }
    }
}
