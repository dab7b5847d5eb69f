// Causal attention with online softmax. The queries that read one kv head are rows (t, q head of the group). A
// threadgroup processes QUERIES of them and one split of the positions, so keys and values are read once for all of
// them. args.n: n_head, n_head_kv, rows (T), n_ctx, positions of a split, splits. args.f: scale. With one split, dst
// gets the result; with several, extra gets D sums, the maximum and the weight for each (t, head, split).
#define D S2 // d_head
#define QUERIES S3
#define D_VECTORS (D / VECTOR)
#define VALUE_GROUPS (WG / D_VECTORS) // threads that share a vector of the sums
#define TEAM S4                       // threads that reduce the scores of one row
#define LOWEST -3.0e38f

#if VECTOR == 4
typedef float4 cells;
#if CACHE_TYPE == TYPE_F16
inline cells load_cache(device const uchar *base, uint index) { return float4(*(device const half4 *)((device const half *)base + index)); }
#else
inline cells load_cache(device const uchar *base, uint index) { return *(device const float4 *)((device const float *)base + index); }
#endif
inline cells load_query(threadgroup const float *from) { return float4(from[0], from[1], from[2], from[3]); }
inline void store_cells(cells value, threadgroup float *to) {
    to[0] = value.x;
    to[1] = value.y;
    to[2] = value.z;
    to[3] = value.w;
}
inline float product(cells x, cells y) { return dot(x, y); }
#else
typedef float cells;
#if CACHE_TYPE == TYPE_F16
inline cells load_cache(device const uchar *base, uint index) { return load_half(base, index); }
#else
inline cells load_cache(device const uchar *base, uint index) { return ((device const float *)base)[index]; }
#endif
inline cells load_query(threadgroup const float *from) { return from[0]; }
inline void store_cells(cells value, threadgroup float *to) { to[0] = value; }
inline float product(cells x, cells y) { return x * y; }
#endif

KERNEL(attention) {
    SHARED float query[QUERIES * D]; // and at the end the sums of all groups
    SHARED float score[QUERIES * WG];
    SHARED float partial[QUERIES * TEAM];
    SHARED float row_max[QUERIES];
    SHARED float row_sum[QUERIES];
    SHARED float row_factor[QUERIES];
    uint heads = args.n[0] / args.n[1]; // heads that read one kv head
    uint n_ctx = args.n[3];
    uint rows = LIVE_ROWS(args.n[2]) * heads;
    uint first_row = group.x * QUERIES;
    if (first_row >= rows) return;
    uint kv_head = group.y;
    uint split = group.z;
    uint splits = args.n[5];
    uint pos = POS;
    uint visible = pos + (min(first_row + QUERIES, rows) - 1u) / heads + 1u; // positions visible to the last row
    uint begin = split * args.n[4];
    if (begin >= visible) return;
    uint end = min(visible, begin + args.n[4]);

    for (uint i = self; i < QUERIES * D; i += WG) {
        uint row = min(first_row + i / D, rows - 1u);
        uint head = kv_head * heads + row % heads;
        query[i] = args.f[0] * ROW(a_base, row / heads, A_STRIDE)[head * D + i % D];
    }
    if (self < QUERIES) {
        row_max[self] = LOWEST;
        row_sum[self] = 0.0f;
    }
    BARRIER;

    ulong plane = ulong(kv_head) * n_ctx * D * CACHE_BYTES;
    device const uchar *keys = b_base + plane;
    device const uchar *values = c_base + plane;
    uint my_vector = self % D_VECTORS;
    uint my_group = self / D_VECTORS;
    uint my_row = self / TEAM; // the row whose scores this thread reduces
    uint my_place = self % TEAM;
    cells sum[QUERIES];
    for (uint r = 0u; r < QUERIES; r++) sum[r] = cells(0.0f);

    for (uint base = begin; base < end; base += WG) {
        uint position = base + self;
        float dots[QUERIES];
        for (uint r = 0u; r < QUERIES; r++) dots[r] = 0.0f;
        if (position < end) {
            for (uint v = 0u; v < D_VECTORS; v++) {
                cells key = load_cache(keys, key_index(position, v * VECTOR, n_ctx, D));
                for (uint r = 0u; r < QUERIES; r++) dots[r] += product(key, load_query(query + r * D + v * VECTOR));
            }
        }
        for (uint r = 0u; r < QUERIES; r++) {
            bool seen = position < end && position <= pos + (first_row + r) / heads;
            score[r * WG + self] = seen ? dots[r] : LOWEST;
        }
        BARRIER;
        // Turns scores into weights and updates the running maximum and sum of each row. A team of threads has one row.
        if (my_row < QUERIES) {
            float largest = LOWEST;
            for (uint i = my_place; i < WG; i += TEAM) largest = fmax(largest, score[my_row * WG + i]);
            partial[self] = largest;
        }
        BARRIER;
        float before = 0.0f, largest = 0.0f, weights = 0.0f;
        if (my_row < QUERIES) {
            before = row_max[my_row];
            largest = before;
            for (uint i = 0u; i < TEAM; i++) largest = fmax(largest, partial[my_row * TEAM + i]);
            for (uint i = my_place; i < WG; i += TEAM) {
                float s = score[my_row * WG + i];
                float weight = s <= LOWEST ? 0.0f : precise::exp(s - largest);
                score[my_row * WG + i] = weight;
                weights += weight;
            }
        }
        BARRIER;
        if (my_row < QUERIES) partial[self] = weights;
        BARRIER;
        if (my_row < QUERIES && my_place == 0u) {
            float total = 0.0f;
            for (uint i = 0u; i < TEAM; i++) total += partial[my_row * TEAM + i];
            float factor = precise::exp(before - largest);
            row_factor[my_row] = factor;
            row_sum[my_row] = row_sum[my_row] * factor + total;
            row_max[my_row] = largest;
        }
        BARRIER;
        if (my_group < VALUE_GROUPS) {
            for (uint r = 0u; r < QUERIES; r++) sum[r] = sum[r] * row_factor[r];
            uint count = min(uint(WG), end - base);
            for (uint i = my_group; i < count; i += VALUE_GROUPS) {
                cells value = load_cache(values, (base + i) * D + my_vector * VECTOR);
                for (uint r = 0u; r < QUERIES; r++) sum[r] += score[r * WG + i] * value;
            }
        }
        BARRIER;
    }

    // Add the groups one after the other, in a fixed order.
    for (uint g = 0u; g < VALUE_GROUPS; g++) {
        if (g == my_group) {
            for (uint r = 0u; r < QUERIES; r++) {
                threadgroup float *to = query + r * D + my_vector * VECTOR;
                store_cells(g == 0u ? sum[r] : load_query(to) + sum[r], to);
            }
        }
        BARRIER;
    }
    for (uint i = self; i < QUERIES * D; i += WG) {
        uint r = i / D;
        uint row = first_row + r;
        if (row < rows) {
            uint head = kv_head * heads + row % heads;
            if (splits == 1u) {
                ROW(dst_base, row / heads, DST_STRIDE)[head * D + i % D] = query[i] / row_sum[r];
            } else {
                device float *part = (device float *)extra + (ulong(row / heads * args.n[0] + head) * splits + split) * (D + 2u);
                part[i % D] = query[i];
                if (i % D == 0u) {
                    part[D] = row_max[r];
                    part[D + 1u] = row_sum[r];
                }
            }
        }
    }
}
