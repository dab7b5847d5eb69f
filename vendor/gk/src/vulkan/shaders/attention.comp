#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "cache.glsl"
// Causal attention with online softmax. The queries that read one kv head are rows (t, q head of the group). A
// workgroup processes QUERIES of them and one split of the positions, so keys and values are read once for all of them.
// n: n_head, n_head_kv, rows (T), n_ctx, positions of a split, splits. f: scale. With one split, dst gets the result;
// with several, extra gets D sums, the maximum and the weight for each (t, head, split).
layout(constant_id = 2) const uint CACHE_TYPE = 1;
layout(constant_id = 3) const uint VECTOR = 4; // elements per load: 4, or 1 if d_head is not a multiple of 4
layout(constant_id = 4) const uint D = 64;     // d_head
layout(constant_id = 5) const uint QUERIES = 4;
layout(constant_id = 6) const uint THREADS = 128; // the workgroup size again, as an array size

const uint D_VECTORS = D / VECTOR;
const float LOWEST = -3.0e38;

shared float query[QUERIES * D]; // and at the end the sums of all groups
shared float score[QUERIES * THREADS];
shared float row_max[QUERIES];
shared float row_sum[QUERIES];
shared float row_factor[QUERIES];

vec4 load_cache(uint64_t base, uint index) {
    if (VECTOR == 4u) {
        if (CACHE_TYPE == TYPE_F16) {
            uvec2 words = load_8_bytes(base, index / 4u);
            return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
        }
        return uintBitsToFloat(load_16_bytes(base, index / 4u));
    }
    return vec4(CACHE_TYPE == TYPE_F16 ? load_half(base, index) : Floats(base).v[index], 0.0, 0.0, 0.0);
}

// Four (or one) elements of a row in shared memory.
vec4 load_query(uint index) {
    if (VECTOR == 4u) return vec4(query[index], query[index + 1u], query[index + 2u], query[index + 3u]);
    return vec4(query[index], 0.0, 0.0, 0.0);
}

// Turns the scores of a block of positions into weights and updates the running maximum and sum of each row.
void softmax_rows() {
    for (uint r = gl_SubgroupID; r < QUERIES; r += gl_NumSubgroups) {
        float largest = LOWEST;
        for (uint i = lane(); i < THREADS; i += SUBGROUP) largest = max(largest, score[r * THREADS + i]);
        float before = row_max[r];
        largest = max(subgroupMax(largest), before);
        float sum = 0.0;
        for (uint i = lane(); i < THREADS; i += SUBGROUP) {
            float s = score[r * THREADS + i];
            float weight = s <= LOWEST ? 0.0 : exp(s - largest);
            score[r * THREADS + i] = weight;
            sum += weight;
        }
        sum = subgroupAdd(sum);
        subgroupBarrier();
        if (subgroupElect()) {
            float factor = exp(before - largest);
            row_factor[r] = factor;
            row_sum[r] = row_sum[r] * factor + sum;
            row_max[r] = largest;
        }
    }
}

void main() {
    uint self = gl_LocalInvocationID.x;
    uint group = p.n[0] / p.n[1];
    uint n_ctx = p.n[3];
    uint rows = live_rows(p.n[2]) * group;
    uint first_row = gl_WorkGroupID.x * QUERIES;
    if (first_row >= rows) return;
    uint kv_head = gl_WorkGroupID.y;
    uint split = gl_WorkGroupID.z;
    uint splits = p.n[5];
    uint pos = Step(p.step).pos;
    uint visible = pos + (min(first_row + QUERIES, rows) - 1u) / group + 1u; // positions visible to the last row
    uint begin = split * p.n[4];
    if (begin >= visible) return;
    uint end = min(visible, begin + p.n[4]);

    for (uint i = self; i < QUERIES * D; i += THREADS) {
        uint row = min(first_row + i / D, rows - 1u);
        uint head = kv_head * group + row % group;
        query[i] = p.f[0] * floats(p.a, uint64_t(row / group) * p.a_stride).v[head * D + i % D];
    }
    if (self < QUERIES) {
        row_max[self] = LOWEST;
        row_sum[self] = 0.0;
    }
    barrier();

    uint64_t plane = uint64_t(kv_head) * n_ctx * D * (CACHE_TYPE == TYPE_F16 ? 2 : 4);
    uint64_t keys = p.b + plane;
    uint64_t values = p.c + plane;
    const uint value_groups = THREADS / D_VECTORS; // invocations that share a vector of the sums
    uint my_vector = self % D_VECTORS;
    uint my_group = self / D_VECTORS;
    vec4 sum[QUERIES];
    [[unroll]] for (uint r = 0u; r < QUERIES; r++) sum[r] = vec4(0.0);

    for (uint base = begin; base < end; base += THREADS) {
        uint position = base + self;
        float dots[QUERIES];
        [[unroll]] for (uint r = 0u; r < QUERIES; r++) dots[r] = 0.0;
        if (position < end) {
            for (uint v = 0u; v < D_VECTORS; v++) {
                vec4 key = load_cache(keys, key_index(position, v * VECTOR, n_ctx, D, VECTOR));
                [[unroll]] for (uint r = 0u; r < QUERIES; r++) dots[r] += dot(key, load_query(r * D + v * VECTOR));
            }
        }
        [[unroll]] for (uint r = 0u; r < QUERIES; r++) {
            bool seen = position < end && position <= pos + (first_row + r) / group;
            score[r * THREADS + self] = seen ? dots[r] : LOWEST;
        }
        barrier();
        softmax_rows();
        barrier();
        if (my_group < value_groups) {
            [[unroll]] for (uint r = 0u; r < QUERIES; r++) sum[r] *= row_factor[r];
            uint count = min(THREADS, end - base);
            for (uint i = my_group; i < count; i += value_groups) {
                vec4 value = load_cache(values, (base + i) * D + my_vector * VECTOR);
                [[unroll]] for (uint r = 0u; r < QUERIES; r++) sum[r] += score[r * THREADS + i] * value;
            }
        }
        barrier();
    }

    // Add the groups one after the other, in a fixed order.
    for (uint g = 0u; g < value_groups; g++) {
        if (g == my_group) {
            [[unroll]] for (uint r = 0u; r < QUERIES; r++) {
                [[unroll]] for (uint i = 0u; i < VECTOR; i++) {
                    uint index = r * D + my_vector * VECTOR + i;
                    query[index] = g == 0u ? sum[r][i] : query[index] + sum[r][i];
                }
            }
        }
        barrier();
    }
    for (uint i = self; i < QUERIES * D; i += THREADS) {
        uint r = i / D;
        uint row = first_row + r;
        if (row >= rows) continue;
        uint head = kv_head * group + row % group;
        if (splits == 1u) {
            floats(p.dst, uint64_t(row / group) * p.dst_stride).v[head * D + i % D] = query[i] / row_sum[r];
        } else {
            Floats part = floats(p.extra, (uint64_t(row / group * p.n[0] + head) * splits + split) * (D + 2u));
            part.v[i % D] = query[i];
            if (i % D == 0u) {
                part.v[D] = row_max[r];
                part.v[D + 1u] = row_sum[r];
            }
        }
    }
}
