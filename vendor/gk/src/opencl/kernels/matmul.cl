// dst[t][r] = sum a[r][k] b[t][k] for many t. A work-group of 256 computes 64 rows x 16 * COLUMNS tokens; slices of
// 16 k go through local memory. n: k, n_out, rows of b. S2: tokens of one work-item, 2 or 4.
#define COLUMNS S2
#define BLOCK_ROWS 64
#define BLOCK_K 16
#define BLOCK_COLUMNS (16 * COLUMNS)

KERNEL(matmul) {
    __local float4 weights[BLOCK_K][BLOCK_ROWS / 4 + 1]; // four rows side by side; padded against bank conflicts
    __local float tokens[BLOCK_K][BLOCK_COLUMNS + 4];
    uint k = n.s0;
    uint n_out = n.s1;
    uint live = LIVE_ROWS(n.s2);
    uint first_column = (uint)get_group_id(1) * BLOCK_COLUMNS;
    if (first_column >= live) return;
    uint self = SELF;
    uint row_quad = self % 16u;         // rows row_quad * 4 .. + 3 of the tile
    uint column = self / 16u * COLUMNS; // tokens column .. + COLUMNS - 1 of the tile
    uint load_row = self / 4u;          // 64 rows x 4 quads of k
    uint at_k = self % 4u * 4u;
    uint first_row = (uint)get_group_id(0) * BLOCK_ROWS;
    float4 sum[COLUMNS];
#pragma unroll
    for (uint c = 0u; c < COLUMNS; c++) sum[c] = (float4)(0.0f);
    for (uint base = 0u; base < k; base += BLOCK_K) {
        uint element = base + at_k;
        float4 w = (float4)(0.0f);
        if (first_row + load_row < n_out && element < k) w = load_weight_quad(A, n, first_row + load_row, element);
        __local float *to = (__local float *)&weights[at_k][0] + load_row;
        to[0] = w.s0;
        to[BLOCK_ROWS + 4] = w.s1;
        to[2 * (BLOCK_ROWS + 4)] = w.s2;
        to[3 * (BLOCK_ROWS + 4)] = w.s3;
        if (load_row < BLOCK_COLUMNS) {
            float4 x = (float4)(0.0f);
            uint token = first_column + load_row;
            if (token < live && element < k) x = load_quad(ROW(B, token, B_STRIDE), element, k);
            tokens[at_k][load_row] = x.s0;
            tokens[at_k + 1u][load_row] = x.s1;
            tokens[at_k + 2u][load_row] = x.s2;
            tokens[at_k + 3u][load_row] = x.s3;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint i = 0u; i < BLOCK_K; i++) {
            float4 four = weights[i][row_quad];
#pragma unroll
            for (uint c = 0u; c < COLUMNS; c++) sum[c] = mad(four, (float4)(tokens[i][column + c]), sum[c]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#pragma unroll
    for (uint c = 0u; c < COLUMNS; c++) {
        uint token = first_column + column + c;
        if (token < live) {
            floats dst = ROW(DST, token, DST_STRIDE);
            float value[4] = {sum[c].s0, sum[c].s1, sum[c].s2, sum[c].s3};
#pragma unroll
            for (uint i = 0u; i < 4u; i++) {
                uint row = first_row + row_quad * 4u + i;
                if (row < n_out) {
                    float x = value[i];
                    if ((flags & BIAS) != 0u) x += ((const_floats)C)[row];
                    if ((flags & ACCUMULATE) != 0u) x += dst[row];
                    dst[row] = x;
                }
            }
        }
    }
}
