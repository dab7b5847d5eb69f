// matmul: dst[t][r] = sum_k weight[r][k] * x[t][k], in f32. `matvec` reads every weight once and keeps a few tokens in
// registers: for decoding and short prompts, which are memory-bound. `matmul_tile` computes 64 x 64 outputs per block
// from shared memory: for longer prompts.
#ifndef GK_GPU_MATMUL_CUH
#define GK_GPU_MATMUL_CUH

// Adds the bias and the old value if requested, and stores the output.
GK_DEVICE void store_output(const gk_gpu_args &g, unsigned int r, unsigned int t, float value) {
    if (g.flags & GK_BIAS) value += pointer<const float>(g.c)[r];
    float *out = pointer<float>(g.dst) + static_cast<size_t>(t) * g.dst_stride + r;
    *out = (g.flags & GK_ACCUMULATE) ? *out + value : value;
}

// The arguments of the product that computes `group`, which becomes its number there. A group has `rows` rows.
GK_DEVICE gk_gpu_args product_of(const gk_gpu_args &g, unsigned int rows, unsigned int &group) {
    gk_gpu_args own = g;
#pragma unroll
    for (int n = 0; n < GK_GPU_BESIDE; ++n) {
        const unsigned int groups = (own.width + rows - 1) / rows;
        if (g.beside[n].width == 0 || group < groups) break;
        group -= groups;
        own.dst = g.beside[n].dst;
        own.a = g.beside[n].a;
        own.c = g.beside[n].c;
        own.dst_stride = g.beside[n].dst_stride;
        own.width = g.beside[n].width;
#pragma unroll
        for (int p = 0; p < 3; ++p) own.plane[p] = g.beside[n].plane[p];
    }
    return own;
}

// Loads PIECES pieces of each of LINES rows, the first of them from element k on: its own, or those of two weights.
template <class W, int LINES, int PIECES, bool GATED>
GK_DEVICE void load_pieces(const gk_gpu_args &g, unsigned int first, unsigned int k, unsigned int end, typename W::piece (&piece)[PIECES][LINES]) {
    enum { ROWS = GATED ? LINES / 2 : LINES };
    const weight_place weights[2] = {place_of(g, g.a), place_of(g, GATED ? g.d : g.a)};
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        const unsigned int at = k + i * GK_WARP * W::QUADS * 4;
        if (at >= end) continue;
#pragma unroll
        for (int r = 0; r < LINES; ++r) { // rows past the end repeat the last one: their sums are not stored
            const unsigned int row = first + r % ROWS < g.width ? first + r % ROWS : g.width - 1;
            W::load(weights[r / ROWS], static_cast<size_t>(row) * g.depth + at, piece[i][r]);
        }
    }
}

// A warp reads LINES rows of the weight and computes as many outputs for COLUMNS tokens; lanes split k. GATED: half of
// the lines are of a second weight, and the output is silu(first) * second.
template <class W, int LINES, int COLUMNS, bool GATED> GK_DEVICE void matvec(const gk_gpu_args &shared) {
    enum {
        ROWS = GATED ? LINES / 2 : LINES,
        STEP = W::QUADS * 4,         // elements of a piece
        PART = W::QUADS / W::SCALES, // quads with one scale
        PIECES = COLUMNS == 1 && LINES == 1 ? 2 : 1 // that are on their way
    };
    const unsigned int warps = blockDim.x / GK_WARP, lane = threadIdx.x % GK_WARP;
    unsigned int group = blockIdx.x;
    const gk_gpu_args g = product_of(shared, warps * ROWS, group);
    const unsigned int first = (group * warps + threadIdx.x / GK_WARP) * ROWS;
    const unsigned int whole = g.vector ? g.depth - g.depth % STEP : 0;
    typename W::piece piece[PIECES][LINES];
    let_next_kernel_start();
    load_pieces<W, LINES, PIECES, GATED>(g, first, lane * STEP, whole, piece); // no kernel writes weights
    wait_for_kernel_before();
    const bool last = (g.flags & GK_LAST_ROW) != 0;
    const unsigned int column = last ? tokens(g) - 1 : blockIdx.y * COLUMNS;
    const unsigned int end = last ? tokens(g) : active_rows(g);
    if (column >= end || first >= g.width) return; // the same for all lanes of a warp

    const float *x[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const unsigned int t = column + c < end ? column + c : end - 1;
        x[c] = pointer<const float>(g.b) + static_cast<size_t>(t) * g.b_stride;
    }
    float sum[LINES][COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
        for (int r = 0; r < LINES; ++r) sum[r][c] = 0.0f;

    for (unsigned int k0 = lane * STEP; k0 < whole; k0 += GK_WARP * STEP * PIECES) {
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const unsigned int k = k0 + i * GK_WARP * STEP;
            if (k >= whole) continue;
#pragma unroll
            for (int s = 0; s < W::SCALES; ++s) {
                float part[LINES][COLUMNS];
#pragma unroll
                for (int r = 0; r < LINES; ++r)
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) part[r][c] = 0.0f;
#pragma unroll
                for (int q = s * PART; q < (s + 1) * PART; ++q) {
                    float weight[LINES][4];
#pragma unroll
                    for (int r = 0; r < LINES; ++r) W::quad(piece[i][r], q, weight[r]);
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) {
                        const float4 v = *reinterpret_cast<const float4 *>(x[c] + k + 4 * q);
#pragma unroll
                        for (int r = 0; r < LINES; ++r) {
                            part[r][c] += weight[r][0] * v.x;
                            part[r][c] += weight[r][1] * v.y;
                            part[r][c] += weight[r][2] * v.z;
                            part[r][c] += weight[r][3] * v.w;
                        }
                    }
                }
#pragma unroll
                for (int r = 0; r < LINES; ++r)
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) sum[r][c] += W::scale(piece[i][r], s) * part[r][c];
            }
        }
        load_pieces<W, LINES, PIECES, GATED>(g, first, k0 + GK_WARP * STEP * PIECES, whole, piece);
    }
    for (unsigned int k = whole + lane; k < g.depth; k += GK_WARP) {
        const weight_place weights[2] = {place_of(g, g.a), place_of(g, GATED ? g.d : g.a)};
#pragma unroll
        for (int r = 0; r < LINES; ++r) {
            const unsigned int row = first + r % ROWS < g.width ? first + r % ROWS : g.width - 1;
            const float weight = W::one(weights[r / ROWS], static_cast<size_t>(row) * g.depth + k);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) sum[r][c] += weight * x[c][k];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            float value = warp_sum(sum[r][c]);
            if (GATED) value = silu_of(value) * warp_sum(sum[r + LINES - ROWS][c]);
            if (lane == 0 && first + r < g.width && column + c < end)
                store_output(g, first + r, last ? 0 : column + c, value);
        }
    }
}

#define GK_MATVEC(name, type, is_block, columns, gated) \
    GK_EARLY_KERNEL(name##_##type##_##columns, GK_WAVES(GK_GPU_MATVEC_THREADS, 2)) { \
        matvec<weight_of_##type, GK_GPU_MATVEC_LINES(is_block, columns, gated), columns, gated>(g); \
    }
#define GK_MATVECS(type, is_block) \
    GK_MATVEC(matvec, type, is_block, 1, false) GK_MATVEC(matvec, type, is_block, 8, false) \
    GK_MATVEC(gate_up, type, is_block, 1, true) GK_MATVEC(gate_up, type, is_block, 8, true)
GK_GPU_WEIGHTS(GK_MATVECS)

// 256 threads as 16 x 16, each with 4 x 4 outputs; 16 elements of k at a time. Thread x walks n_out, so that
// neighbouring threads store neighbouring elements.
template <class W> GK_DEVICE void matmul_tile(const gk_gpu_args &g) {
    enum { TILE = GK_GPU_TILE, DEPTH = 16, PITCH = TILE + 4 };
    GK_SHARED(float, weights, DEPTH * PITCH); // read as float4
    GK_SHARED(float, inputs, DEPTH * PITCH);
    const unsigned int used = active_rows(g);
    const unsigned int row0 = blockIdx.x * TILE, token0 = blockIdx.y * TILE;
    if (token0 >= used) return; // applies to the whole block
    const unsigned int load_line = threadIdx.x / 4, load_k = (threadIdx.x % 4) * 4;
    const unsigned int out_row = (threadIdx.x % 16) * 4, out_token = (threadIdx.x / 16) * 4;
    const weight_place place = place_of(g, g.a);
    const bool row_there = row0 + load_line < g.width, token_there = token0 + load_line < used;
    const size_t row = row_there ? static_cast<size_t>(row0 + load_line) * g.depth : 0; // its first element
    const float *x = pointer<const float>(g.b) + static_cast<size_t>(token_there ? token0 + load_line : 0) * g.b_stride;

    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = 0.0f;

    for (unsigned int k0 = 0; k0 < g.depth; k0 += DEPTH) {
        const unsigned int k1 = k0 + load_k; // this thread loads four elements of a weight row and of a token
        float weight[4], input[4];
        if (g.vector && k1 < g.depth) {
            const float4 values = *reinterpret_cast<const float4 *>(x + k1);
            W::load4(place, row + k1, weight);
            input[0] = values.x;
            input[1] = values.y;
            input[2] = values.z;
            input[3] = values.w;
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                weight[i] = k1 + i < g.depth ? W::one(place, row + k1 + i) : 0.0f;
                input[i] = k1 + i < g.depth ? x[k1 + i] : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            weights[(load_k + i) * PITCH + load_line] = row_there ? weight[i] : 0.0f;
            inputs[(load_k + i) * PITCH + load_line] = token_there ? input[i] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const float4 w = *reinterpret_cast<const float4 *>(&weights[k * PITCH + out_row]);
            const float4 v = *reinterpret_cast<const float4 *>(&inputs[k * PITCH + out_token]);
            const float wide[4] = {w.x, w.y, w.z, w.w}, tall[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += tall[i] * wide[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned int t = token0 + out_token + i, r = row0 + out_row + j;
            if (t < used && r < g.width) store_output(g, r, t, sum[i][j]);
        }
    }
}
#define GK_MATMUL_TILE(type, is_block) \
    GK_KERNEL(matmul_tile_##type, GK_GPU_THREADS) { matmul_tile<weight_of_##type>(g); }
GK_GPU_WEIGHTS(GK_MATMUL_TILE)

#endif
