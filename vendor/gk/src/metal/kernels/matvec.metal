// dst[t][r] = sum a[r][k] b[t][k] for few t: a simdgroup processes ROWS rows of the weight and COLUMNS tokens, its
// lanes stride over k, and each weight is read once for all of these tokens. Simdgroups are independent. args.n: k,
// n_out, rows of b.
#define ROWS S2
#define COLUMNS S3
#define SUMS (ROWS * COLUMNS) // at most 32: one per lane

KERNEL(matvec) {
    uint k = args.n[0];
    uint n_out = args.n[1];
    uint live = LIVE_ROWS(args.n[2]);
    bool last_row = (args.flags & LAST_ROW) != 0u;
    uint first_column = last_row ? live - 1u : group.y * COLUMNS;
    uint first_row = (group.x * (WG / 32u) + team) * ROWS;
    if (first_column >= live || first_row >= n_out) return;
    uint chunks = (k + CHUNK - 1u) / CHUNK;
    float sum[SUMS];
    for (uint i = 0u; i < SUMS; i++) sum[i] = 0.0f;
    for (uint chunk = lane; chunk < chunks; chunk += 32u) {
        piece pieces[ROWS];
        for (uint r = 0u; r < ROWS; r++) load_piece(a_base, args, min(first_row + r, n_out - 1u), chunk, pieces[r]);
        for (uint q = 0u; q < QUADS; q++) {
            float4 w[ROWS];
            for (uint r = 0u; r < ROWS; r++) w[r] = piece_quad(pieces[r], q);
            for (uint c = 0u; c < COLUMNS; c++) {
                float4 x = load_quad(ROW(b_base, min(first_column + c, live - 1u), B_STRIDE), chunk * CHUNK + q * 4u, k);
                for (uint r = 0u; r < ROWS; r++) sum[r * COLUMNS + c] += dot(w[r], x);
            }
        }
    }
    float mine = 0.0f;
    for (uint i = 0u; i < SUMS; i++) {
        float total = simd_sum(sum[i]);
        if (lane == i) mine = total;
    }
    uint row = first_row + lane / COLUMNS;
    uint column = first_column + lane % COLUMNS;
    if (lane < SUMS && row < n_out && column < live) {
        device float *dst = ROW(dst_base, last_row ? 0u : column, DST_STRIDE);
        if ((args.flags & BIAS) != 0u) mine += ((device const float *)c_base)[row];
        if ((args.flags & ACCUMULATE) != 0u) mine += dst[row];
        dst[row] = mine;
    }
}
