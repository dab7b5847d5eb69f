// Causal attention with online softmax. The queries that read one kv head are rows (t, q head of the group). A
// work-group processes QUERIES of them and one split of the positions, so keys and values are read once for all of
// them. n: n_head, n_head_kv, rows (T), n_ctx, positions of a split, splits. f: scale. With one split, dst gets the
// result; with several, EXTRA gets D sums, the maximum and the weight for each (t, head, split).
#define D S2 // d_head
#define QUERIES S3
#define D_VECTORS (D / VECTOR)
#define VALUE_GROUPS (WG / D_VECTORS) // work-items that share a vector of the sums
#define TEAM S4                       // work-items that reduce the scores of one row
#define LOWEST -3.0e38f

#if VECTOR == 4
typedef float4 vector;
#if CACHE_TYPE == TYPE_F16
vector load_cache(const_bytes base, uint index) { return vload_half4(index / 4u, (__global const half *)base); }
#else
vector load_cache(const_bytes base, uint index) { return *(__global const float4 *)((const_floats)base + index); }
#endif
vector load_query(__local const float *query) { return vload4(0, query); }
void store_vector(vector value, __local float *to) { vstore4(value, 0, to); }
#else
typedef float vector;
#if CACHE_TYPE == TYPE_F16
vector load_cache(const_bytes base, uint index) { return load_half(base, index); }
#else
vector load_cache(const_bytes base, uint index) { return ((const_floats)base)[index]; }
#endif
vector load_query(__local const float *query) { return *query; }
void store_vector(vector value, __local float *to) { *to = value; }
#endif

KERNEL(attention) {
    __local float query[QUERIES * D]; // and at the end the sums of all groups
    __local float score[QUERIES * WG];
    __local float partial[QUERIES * TEAM];
    __local float row_max[QUERIES];
    __local float row_sum[QUERIES];
    __local float row_factor[QUERIES];
    uint self = SELF;
    uint group = n.s0 / n.s1;
    uint n_ctx = n.s3;
    uint rows = LIVE_ROWS(n.s2) * group;
    uint first_row = (uint)get_group_id(0) * QUERIES;
    if (first_row >= rows) return;
    uint kv_head = get_group_id(1);
    uint split = get_group_id(2);
    uint splits = n.s5;
    uint pos = POS;
    uint visible = pos + (min(first_row + QUERIES, rows) - 1u) / group + 1u; // positions visible to the last row
    uint begin = split * n.s4;
    if (begin >= visible) return;
    uint end = min(visible, begin + n.s4);

    for (uint i = self; i < QUERIES * D; i += WG) {
        uint row = min(first_row + i / D, rows - 1u);
        uint head = kv_head * group + row % group;
        query[i] = f.s0 * ROW(A, row / group, A_STRIDE)[head * D + i % D];
    }
    if (self < QUERIES) {
        row_max[self] = LOWEST;
        row_sum[self] = 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    ulong plane = (ulong)kv_head * n_ctx * D * CACHE_BYTES;
    const_bytes keys = B + plane;
    const_bytes values = C + plane;
    uint my_vector = self % D_VECTORS;
    uint my_group = self / D_VECTORS;
    uint my_row = self / TEAM; // the row whose scores this work-item reduces
    uint my_place = self % TEAM;
    vector sum[QUERIES];
#pragma unroll
    for (uint r = 0u; r < QUERIES; r++) sum[r] = (vector)(0.0f);

    for (uint base = begin; base < end; base += WG) {
        uint position = base + self;
        float dots[QUERIES];
#pragma unroll
        for (uint r = 0u; r < QUERIES; r++) dots[r] = 0.0f;
        if (position < end) {
            for (uint v = 0u; v < D_VECTORS; v++) {
                vector key = load_cache(keys, key_index(position, v * VECTOR, n_ctx, D));
#pragma unroll
                for (uint r = 0u; r < QUERIES; r++) dots[r] += dot(key, load_query(query + r * D + v * VECTOR));
            }
        }
#pragma unroll
        for (uint r = 0u; r < QUERIES; r++) {
            bool seen = position < end && position <= pos + (first_row + r) / group;
            score[r * WG + self] = seen ? dots[r] : LOWEST;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        // Turns scores into weights and updates the running maximum and sum of each row. A team of work-items has one
        // row.
        if (my_row < QUERIES) {
            float largest = LOWEST;
            for (uint i = my_place; i < WG; i += TEAM) largest = fmax(largest, score[my_row * WG + i]);
            partial[self] = largest;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        float before = 0.0f, largest = 0.0f, weights = 0.0f;
        if (my_row < QUERIES) {
            before = row_max[my_row];
            largest = before;
            for (uint i = 0u; i < TEAM; i++) largest = fmax(largest, partial[my_row * TEAM + i]);
            for (uint i = my_place; i < WG; i += TEAM) {
                float s = score[my_row * WG + i];
                float weight = s <= LOWEST ? 0.0f : exp(s - largest);
                score[my_row * WG + i] = weight;
                weights += weight;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (my_row < QUERIES) partial[self] = weights;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (my_row < QUERIES && my_place == 0u) {
            float total = 0.0f;
            for (uint i = 0u; i < TEAM; i++) total += partial[my_row * TEAM + i];
            float factor = exp(before - largest);
            row_factor[my_row] = factor;
            row_sum[my_row] = row_sum[my_row] * factor + total;
            row_max[my_row] = largest;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (my_group < VALUE_GROUPS) {
#pragma unroll
            for (uint r = 0u; r < QUERIES; r++) sum[r] *= row_factor[r];
            uint count = min((uint)WG, end - base);
            for (uint i = my_group; i < count; i += VALUE_GROUPS) {
                vector value = load_cache(values, (base + i) * D + my_vector * VECTOR);
#pragma unroll
                for (uint r = 0u; r < QUERIES; r++) sum[r] += score[r * WG + i] * value;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    // Add the groups one after the other, in a fixed order.
    for (uint g = 0u; g < VALUE_GROUPS; g++) {
        if (g == my_group) {
#pragma unroll
            for (uint r = 0u; r < QUERIES; r++) {
                __local float *to = query + r * D + my_vector * VECTOR;
                store_vector(g == 0u ? sum[r] : load_query(to) + sum[r], to);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (uint i = self; i < QUERIES * D; i += WG) {
        uint r = i / D;
        uint row = first_row + r;
        if (row < rows) {
            uint head = kv_head * group + row % group;
            if (splits == 1u) {
                ROW(DST, row / group, DST_STRIDE)[head * D + i % D] = query[i] / row_sum[r];
            } else {
                floats part = (floats)EXTRA + ((ulong)(row / group * n.s0 + head) * splits + split) * (D + 2u);
                part[i % D] = query[i];
                if (i % D == 0u) {
                    part[D] = row_max[r];
                    part[D + 1u] = row_sum[r];
                }
            }
        }
    }
}
