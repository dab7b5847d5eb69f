// dst[t][r] = sum a[r][k] b[t][k] for few t: a work-group processes ROWS rows of the weight and COLUMNS tokens, its
// work-items stride over k, and each weight is read once for all of these tokens. n: k, n_out, rows of b.
#define ROWS S2
#define COLUMNS S3
#define SUMS (ROWS * COLUMNS)

// Sums over the whole work-group, in partial[i * WG] (with sub-groups: in partial[i * WG + sub-group]).
void reduce_sums(float *sum, __local float *partial) {
#if SUBGROUPS
#pragma unroll
    for (uint i = 0u; i < SUMS; i++) {
        float value = sub_group_reduce_add(sum[i]);
        if (get_sub_group_local_id() == 0u) partial[i * WG + get_sub_group_id()] = value;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (SELF < SUMS) {
        float total = 0.0f;
        for (uint s = 0u; s < get_num_sub_groups(); s++) total += partial[SELF * WG + s];
        partial[SELF * WG] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    uint self = SELF;
#pragma unroll
    for (uint i = 0u; i < SUMS; i++) partial[i * WG + self] = sum[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint part = WG / 2; part != 0u; part /= 2u) {
        if (self < part) {
#pragma unroll
            for (uint i = 0u; i < SUMS; i++) partial[i * WG + self] += partial[i * WG + self + part];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
}

KERNEL(matvec) {
    __local float partial[SUMS * WG];
    uint k = n.s0;
    uint n_out = n.s1;
    uint live = LIVE_ROWS(n.s2);
    bool last_row = (flags & LAST_ROW) != 0u;
    uint first_column = last_row ? live - 1u : (uint)get_group_id(1) * COLUMNS;
    if (first_column >= live) return;
    uint chunks = (k + CHUNK - 1u) / CHUNK;
    uint first_row = (uint)get_group_id(0) * ROWS;
    float sum[SUMS];
#pragma unroll
    for (uint i = 0u; i < SUMS; i++) sum[i] = 0.0f;
    for (uint chunk = SELF; chunk < chunks; chunk += WG) {
        piece pieces[ROWS];
#pragma unroll
        for (uint r = 0u; r < ROWS; r++) load_piece(A, n, min(first_row + r, n_out - 1u), chunk, &pieces[r]);
#pragma unroll
        for (uint q = 0u; q < QUADS; q++) {
            float4 w[ROWS];
#pragma unroll
            for (uint r = 0u; r < ROWS; r++) w[r] = piece_quad(&pieces[r], q);
#pragma unroll
            for (uint c = 0u; c < COLUMNS; c++) {
                float4 x = load_quad(ROW(B, min(first_column + c, live - 1u), B_STRIDE), chunk * CHUNK + q * 4u, k);
#pragma unroll
                for (uint r = 0u; r < ROWS; r++) sum[r * COLUMNS + c] += dot(w[r], x);
            }
        }
    }
    reduce_sums(sum, partial);
    if (SELF < SUMS) {
        uint row = first_row + SELF / COLUMNS;
        uint column = first_column + SELF % COLUMNS;
        if (row < n_out && column < live) {
            floats dst = ROW(DST, last_row ? 0u : column, DST_STRIDE);
            float value = partial[SELF * WG];
            if ((flags & BIAS) != 0u) value += ((const_floats)C)[row];
            if ((flags & ACCUMULATE) != 0u) value += dst[row];
            dst[row] = value;
        }
    }
}
