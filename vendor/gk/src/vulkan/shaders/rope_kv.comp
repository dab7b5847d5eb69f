#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "cache.glsl"
// rope.comp and kv_write.comp in one: stores rotated rows of a (keys) and unchanged rows of b (values) into the caches
// dst and c. extra: the rope table. One item is a pair of both, or one element of each. n: n_head_kv, d_head, n_rot,
// rows, n_ctx, row stride of the table.
layout(constant_id = 2) const uint CACHE_TYPE = 1;
layout(constant_id = 3) const uint VECTOR = 4;

void put(uint64_t base, uint index, float value) {
    if (CACHE_TYPE == TYPE_F16) Halves(base).v[index] = uint16_t(float_to_half(value));
    else Floats(base).v[index] = value;
}

void main() {
    uint d_head = p.n[1];
    uint n_rot = p.n[2];
    uint n_ctx = p.n[4];
    uint pairs = n_rot / 2u;
    uint items = pairs + (d_head - n_rot);
    uint rows = live_rows(p.n[3]);
    const uint64_t size = CACHE_TYPE == TYPE_F16 ? 2 : 4;
    bool neox = (p.flags & NEOX) != 0u;
    for (uint row = gl_WorkGroupID.y; row < rows; row += gl_NumWorkGroups.y) {
        uint position = Step(p.step).pos + row;
        Floats keys = floats(p.a, uint64_t(row) * p.a_stride);
        Floats values = floats(p.b, uint64_t(row) * p.b_stride);
        Floats table = floats(p.extra, uint64_t(position) * p.n[5]);
        uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        for (uint i = gl_GlobalInvocationID.x; i < p.n[0] * items; i += step) {
            uint head = i / items;
            uint item = i - head * items;
            uint base = head * d_head;
            uint64_t plane = uint64_t(head) * n_ctx * d_head * size;
            bool rotated = item < pairs;
            uint k0 = rotated ? (neox ? item : item * 2u) : n_rot + (item - pairs);
            uint k1 = k0 + (neox ? pairs : 1u);
            float x0 = keys.v[base + k0];
            put(p.c + plane, position * d_head + k0, values.v[base + k0]);
            if (rotated) {
                float cosine = table.v[item * 2u];
                float sine = table.v[item * 2u + 1u];
                float x1 = keys.v[base + k1];
                put(p.dst + plane, key_index(position, k1, n_ctx, d_head, VECTOR), x0 * sine + x1 * cosine);
                put(p.c + plane, position * d_head + k1, values.v[base + k1]);
                x0 = x0 * cosine - x1 * sine;
            }
            put(p.dst + plane, key_index(position, k0, n_ctx, d_head, VECTOR), x0);
        }
    }
}
