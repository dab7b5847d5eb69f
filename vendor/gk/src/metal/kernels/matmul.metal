// dst[t][r] = sum a[r][k] b[t][k] for many t. A threadgroup of 256 computes 64 rows x 16 * COLUMNS tokens; slices of 16 k
// go through threadgroup memory. args.n: k, n_out, rows of b. S2: tokens of one thread, 2 or 4.
#define COLUMNS S2
#define BLOCK_ROWS 64u
#define BLOCK_K 16u
#define BLOCK_COLUMNS (16u * COLUMNS)

KERNEL(matmul) {
    SHARED float weights[BLOCK_K][BLOCK_ROWS + 4u]; // padded against bank conflicts
    SHARED float tokens[BLOCK_K][BLOCK_COLUMNS + 4u];
    uint k = args.n[0];
    uint n_out = args.n[1];
    uint live = LIVE_ROWS(args.n[2]);
    uint first_column = group.y * BLOCK_COLUMNS;
    if (first_column >= live) return;
    uint row_quad = self % 16u * 4u;    // rows row_quad .. + 3 of the tile
    uint column = self / 16u * COLUMNS; // tokens column .. + COLUMNS - 1 of the tile
    uint load_row = self / 4u;          // 64 rows x 4 quads of k
    uint at_k = self % 4u * 4u;
    uint first_row = group.x * BLOCK_ROWS;
    float4 sum[COLUMNS];
    for (uint c = 0u; c < COLUMNS; c++) sum[c] = float4(0.0f);
    for (uint base = 0u; base < k; base += BLOCK_K) {
        uint element = base + at_k;
        float4 w = float4(0.0f);
        if (first_row + load_row < n_out && element < k) w = load_weight_quad(a_base, args, first_row + load_row, element);
        weights[at_k][load_row] = w.x;
        weights[at_k + 1u][load_row] = w.y;
        weights[at_k + 2u][load_row] = w.z;
        weights[at_k + 3u][load_row] = w.w;
        if (load_row < BLOCK_COLUMNS) {
            float4 x = float4(0.0f);
            uint token = first_column + load_row;
            if (token < live && element < k) x = load_quad(ROW(b_base, token, B_STRIDE), element, k);
            tokens[at_k][load_row] = x.x;
            tokens[at_k + 1u][load_row] = x.y;
            tokens[at_k + 2u][load_row] = x.z;
            tokens[at_k + 3u][load_row] = x.w;
        }
        BARRIER;
        for (uint i = 0u; i < BLOCK_K; i++) {
            threadgroup const float *at = &weights[i][row_quad];
            float4 four = float4(at[0], at[1], at[2], at[3]);
            for (uint c = 0u; c < COLUMNS; c++) sum[c] = fma(four, float4(tokens[i][column + c]), sum[c]);
        }
        BARRIER;
    }
    for (uint c = 0u; c < COLUMNS; c++) {
        uint token = first_column + column + c;
        if (token >= live) continue;
        device float *dst = ROW(dst_base, token, DST_STRIDE);
        float value[4] = {sum[c].x, sum[c].y, sum[c].z, sum[c].w};
        for (uint i = 0u; i < 4u; i++) {
            uint row = first_row + row_quad + i;
            if (row >= n_out) continue;
            float x = value[i];
            if ((args.flags & BIAS) != 0u) x += ((device const float *)c_base)[row];
            if ((args.flags & ACCUMULATE) != 0u) x += dst[row];
            dst[row] = x;
        }
    }
}
