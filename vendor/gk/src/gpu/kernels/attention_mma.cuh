// Attention of many tokens over an f16 cache on matrix units. A block has a tile of tokens of one head, each warp 16 of
// them, and walks tiles of positions: scores, softmax so far, and products with the values stay in registers.
#ifndef GK_GPU_ATTENTION_MMA_CUH
#define GK_GPU_ATTENTION_MMA_CUH

#if GK_MMA
// Eight elements of a tile in shared memory from one head of the cache; zero past its end.
GK_DEVICE void copy_eight(const gk_gpu_args &g, const unsigned short *from, unsigned int p, unsigned int positions, unsigned int element,
                          unsigned short *to) {
    const uint4 zero = {0u, 0u, 0u, 0u};
    const bool there = p < positions && element < g.d_head;
    *reinterpret_cast<uint4 *>(to) = there ? *reinterpret_cast<const uint4 *>(from + static_cast<size_t>(p) * g.d_head + element) : zero;
}

// grid: heads, tiles of 64 tokens, the last ones first because they take longest. SIZE: d_head <= SIZE.
template <int SIZE> GK_DEVICE void attention_mma(const gk_gpu_args &g) {
    enum { TILE = GK_GPU_MMA_QUERIES, THREADS = GK_GPU_MMA_WARPS * GK_WARP, PITCH = SIZE + 8, STEPS = SIZE / 16 };
    enum { PARTS = 16 / MMA_COLUMNS, EACH = MMA_SUMS / MMA_ROWS };
    GK_SHARED(unsigned short, shared_key, TILE * PITCH); // first the queries
    GK_SHARED(unsigned short, shared_value, TILE * PITCH);
    const unsigned int rows = active_rows(g);
    const unsigned int head = blockIdx.x, token0 = (gridDim.y - 1 - blockIdx.y) * TILE;
    if (token0 >= rows) return; // applies to the whole block
    const unsigned int warp = threadIdx.x / GK_WARP, lane = threadIdx.x % GK_WARP;
    const size_t kv = head / (g.n_head / g.n_head_kv);
    const unsigned short *keys = pointer<const unsigned short>(g.b) + kv * g.n_ctx * g.d_head;
    const unsigned short *values = pointer<const unsigned short>(g.c) + kv * g.n_ctx * g.d_head;
    const unsigned int last = (token0 + TILE < rows ? token0 + TILE : rows) - 1; // of this tile
    const unsigned int positions = position(g) + last + 1;
    const unsigned int first_seen = position(g) + token0 + warp * 16; // last position that the warp's first token sees

    for (unsigned int item = threadIdx.x; item < TILE * SIZE / 2; item += THREADS) {
        const unsigned int q = item / (SIZE / 2), element = item % (SIZE / 2) * 2;
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(token0 + q) * g.a_stride + static_cast<size_t>(head) * g.d_head + element;
        const bool there = token0 + q < rows && element < g.d_head; // d_head is even
        const unsigned int two = there ? pack_sixteen<false>(in[0] * g.scale, in[1] * g.scale) : 0u;
        *reinterpret_cast<unsigned int *>(shared_key + q * PITCH + element) = two;
    }
    __syncthreads();
    unsigned int query[STEPS][MMA_WORDS];
#pragma unroll
    for (int d = 0; d < STEPS; ++d) load_matrix(shared_key + warp * 16 * PITCH + d * 16, PITCH, lane, query[d]);

    float most[MMA_ROWS], sum[MMA_ROWS], value[STEPS * PARTS][MMA_SUMS]; // of the rows that the lane's sums have
#pragma unroll
    for (int n = 0; n < MMA_ROWS; ++n) most[n] = -INFINITY, sum[n] = 0.0f;
#pragma unroll
    for (int d = 0; d < STEPS * PARTS; ++d)
#pragma unroll
        for (int e = 0; e < MMA_SUMS; ++e) value[d][e] = 0.0f;

    for (unsigned int p0 = 0; p0 < positions; p0 += TILE) {
        __syncthreads(); // the tile before is no longer read
        for (unsigned int item = threadIdx.x; item < TILE * SIZE / 8; item += THREADS) {
            const unsigned int p = item / (SIZE / 8), element = item % (SIZE / 8) * 8;
            copy_eight(g, keys, p0 + p, positions, element, shared_key + p * PITCH + element);
            copy_eight(g, values, p0 + p, positions, element, shared_value + p * PITCH + element);
        }
        __syncthreads();
        if (p0 > first_seen + 15) continue; // the same for all lanes of a warp

        float score[TILE / MMA_COLUMNS][MMA_SUMS];
#pragma unroll
        for (int n = 0; n < TILE / MMA_COLUMNS; ++n)
#pragma unroll
            for (int e = 0; e < MMA_SUMS; ++e) score[n][e] = 0.0f;
#pragma unroll
        for (int d = 0; d < STEPS; ++d)
#pragma unroll
            for (int n = 0; n < TILE / 16; ++n) {
                unsigned int key[MMA_WORDS];
                load_matrix_right(shared_key + n * 16 * PITCH + d * 16, PITCH, lane, key);
                multiply_add_square<false>(score + n * PARTS, query[d], key);
            }
        float keep[MMA_ROWS];
#pragma unroll
        for (int row = 0; row < MMA_ROWS; ++row) {
            const unsigned int seen = first_seen + sum_row(lane, row);
            float now = most[row];
#pragma unroll
            for (int n = 0; n < TILE / MMA_COLUMNS; ++n)
#pragma unroll
                for (int e = 0; e < EACH; ++e) {
                    if (p0 + n * MMA_COLUMNS + sum_column(lane, e) > seen) score[n][row * EACH + e] = -INFINITY;
                    now = fmaxf(now, score[n][row * EACH + e]);
                }
            now = row_max(now);
            keep[row] = expf(most[row] - now); // finite from the first tile on: every token sees position 0
            most[row] = now;
            sum[row] *= keep[row];
#pragma unroll
            for (int n = 0; n < TILE / MMA_COLUMNS; ++n)
#pragma unroll
                for (int e = 0; e < EACH; ++e) {
                    score[n][row * EACH + e] = expf(score[n][row * EACH + e] - now);
                    sum[row] += score[n][row * EACH + e];
                }
        }
#pragma unroll
        for (int d = 0; d < STEPS * PARTS; ++d)
#pragma unroll
            for (int e = 0; e < MMA_SUMS; ++e) value[d][e] *= keep[e / EACH];
#pragma unroll
        for (int n = 0; n < TILE / 16; ++n) {
            unsigned int weight[MMA_WORDS];
            left_of_sums(score + n * PARTS, lane, weight);
#pragma unroll
            for (int d = 0; d < STEPS; ++d) {
                unsigned int add[MMA_WORDS];
                load_matrix_transposed(shared_value + n * 16 * PITCH + d * 16, PITCH, lane, add);
                multiply_add_square<false>(value + d * PARTS, weight, add);
            }
        }
    }
#pragma unroll
    for (int row = 0; row < MMA_ROWS; ++row) {
        const float total = row_sum(sum[row]);
        const unsigned int token = token0 + warp * 16 + sum_row(lane, row);
        if (token >= rows) continue;
        float *out = pointer<float>(g.dst) + static_cast<size_t>(token) * g.dst_stride + static_cast<size_t>(head) * g.d_head;
#pragma unroll
        for (int d = 0; d < STEPS * PARTS; ++d)
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const unsigned int element = d * MMA_COLUMNS + sum_column(lane, e);
                if (element < g.d_head) out[element] = value[d][row * EACH + e] / total;
            }
    }
}
#endif

GK_KERNEL(attention_mma_64, GK_GPU_MMA_WARPS * GK_WARP) { GK_MMA_BODY(attention_mma<64>(g)); }
GK_KERNEL(attention_mma_128, GK_GPU_MMA_WARPS * GK_WARP) { GK_MMA_BODY(attention_mma<128>(g)); }

#endif
