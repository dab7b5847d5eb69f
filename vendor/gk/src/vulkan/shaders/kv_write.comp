#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "cache.glsl"
// Stores rows of a (keys) and b (values) into the caches dst and c. n: n_head_kv, d_head, rows, n_ctx.
layout(constant_id = 2) const uint CACHE_TYPE = 1;
layout(constant_id = 3) const uint VECTOR = 4;

void put(uint64_t base, uint index, float value) {
    if (CACHE_TYPE == TYPE_F16) Halves(base).v[index] = uint16_t(float_to_half(value));
    else Floats(base).v[index] = value;
}

void main() {
    uint d_head = p.n[1];
    uint n_ctx = p.n[3];
    uint rows = live_rows(p.n[2]);
    const uint64_t size = CACHE_TYPE == TYPE_F16 ? 2 : 4;
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        uint position = Step(p.step).pos + row;
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < p.n[0] * d_head; i += step) {
            uint head = i / d_head;
            uint k = i - head * d_head;
            uint64_t plane = uint64_t(head) * n_ctx * d_head * size;
            put(p.dst + plane, key_index(position, k, n_ctx, d_head, VECTOR),
                floats(p.a, uint64_t(row) * p.a_stride).v[i]);
            put(p.c + plane, position * d_head + k, floats(p.b, uint64_t(row) * p.b_stride).v[i]);
        }
    }
}
