// attention.cl for CPUs: one work-item processes one query and one split of the positions, independently of others.
// With VECTOR = 1 a tile of the keys has the same element of 32 positions side by side, so their scores are four
// vectors. Numbers, S0 .. S2 and results as in attention.cl.
#define D S2
#define LOWEST -3.0e38f

#if CACHE_TYPE == TYPE_F16
float load_cache(const_bytes base, uint index) { return load_half(base, index); }
float8 load_cache8(const_bytes base, uint index) { return vload_half8(0, (__global const half *)base + index); }
#else
float load_cache(const_bytes base, uint index) { return ((const_floats)base)[index]; }
float8 load_cache8(const_bytes base, uint index) { return vload8(0, (const_floats)base + index); }
#endif

// The scores of the positions first .. first + 31; those at `end` and above are LOWEST.
void tile_scores(const_bytes keys, const float *query, uint first, uint end, uint n_ctx, float *score) {
    if (first + TILE <= n_ctx) {
        float8 s0 = (float8)(0.0f), s1 = s0, s2 = s0, s3 = s0;
        for (uint d = 0u; d < D; d++) {
            uint at = (first * D) + d * TILE;
            float8 q = (float8)(query[d]);
            s0 = mad(q, load_cache8(keys, at), s0);
            s1 = mad(q, load_cache8(keys, at + 8u), s1);
            s2 = mad(q, load_cache8(keys, at + 16u), s2);
            s3 = mad(q, load_cache8(keys, at + 24u), s3);
        }
        vstore8(s0, 0, score);
        vstore8(s1, 1, score);
        vstore8(s2, 2, score);
        vstore8(s3, 3, score);
        for (uint i = end - first; i < TILE; i++) score[i] = LOWEST;
        return;
    }
    for (uint i = 0u; i < TILE; i++) {
        float sum = LOWEST;
        if (first + i < end) {
            sum = 0.0f;
            for (uint d = 0u; d < D; d++) sum += query[d] * load_cache(keys, key_index(first + i, d, n_ctx, D));
        }
        score[i] = sum;
    }
}

KERNEL(attention_cpu) {
    uint head = get_group_id(0);
    uint t = get_group_id(1);
    uint split = get_group_id(2);
    uint n_ctx = n.s3;
    uint visible = POS + t + 1u;
    uint begin = split * n.s4;
    if (t >= LIVE_ROWS(n.s2) || begin >= visible) return;
    uint end = min(visible, begin + n.s4);
    float query[D];
    float sum[D];
    const_floats a = ROW(A, t, A_STRIDE) + head * D;
    for (uint d = 0u; d < D; d++) {
        query[d] = f.s0 * a[d];
        sum[d] = 0.0f;
    }
    ulong plane = (ulong)(head / (n.s0 / n.s1)) * n_ctx * D * CACHE_BYTES;
    const_bytes keys = B + plane;
    const_bytes values = C + plane;
    float largest = LOWEST;
    float weights = 0.0f;
    for (uint first = begin; first < end; first += TILE) {
        float score[TILE];
        tile_scores(keys, query, first, end, n_ctx, score);
        float before = largest;
        for (uint i = 0u; i < TILE; i++) largest = fmax(largest, score[i]);
        float factor = exp(before - largest);
        weights *= factor;
        for (uint d = 0u; d < D; d++) sum[d] *= factor;
        uint count = min(TILE, end - first);
        for (uint i = 0u; i < count; i++) {
            float weight = exp(score[i] - largest);
            weights += weight;
            uint at = (first + i) * D;
            for (uint d = 0u; d + 8u <= D; d += 8u) {
                vstore8(mad((float8)(weight), load_cache8(values, at + d), vload8(0, sum + d)), 0, sum + d);
            }
            for (uint d = D & ~7u; d < D; d++) sum[d] += weight * load_cache(values, at + d);
        }
    }
    if (n.s5 == 1u) {
        floats dst = ROW(DST, t, DST_STRIDE) + head * D;
        for (uint d = 0u; d < D; d++) dst[d] = sum[d] / weights;
    } else {
        floats part = (floats)EXTRA + ((ulong)(t * n.s0 + head) * n.s5 + split) * (D + 2u);
        for (uint d = 0u; d < D; d++) part[d] = sum[d];
        part[D] = largest;
        part[D + 1u] = weights;
    }
}
