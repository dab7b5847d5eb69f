#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
// dst = f(a, b) for each element. n: columns, rows, rows of b.
layout(constant_id = 2) const uint FUNCTION = 0;
const uint ADD = 0, MUL = 1, SILU = 2, SWIGLU = 3;

float silu(float x) { return x / (1.0 + exp(-x)); }

void main() {
    uint columns = p.n[0];
    uint rows = live_rows(p.n[1]);
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        Floats dst = floats(p.dst, uint64_t(row) * p.dst_stride);
        Floats a = floats(p.a, uint64_t(row) * p.a_stride);
        Floats b = floats(p.b, p.n[2] == 1u ? 0ul : uint64_t(row) * p.b_stride);
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < columns; i += step) {
            float x = a.v[i];
            if (FUNCTION == ADD) x += b.v[i];
            if (FUNCTION == MUL) x *= b.v[i];
            if (FUNCTION == SILU) x = silu(x);
            if (FUNCTION == SWIGLU) x = silu(x) * b.v[i];
            dst.v[i] = x;
        }
    }
}
