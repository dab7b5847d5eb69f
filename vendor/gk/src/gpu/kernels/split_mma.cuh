// Attention of few tokens over an f16 cache on matrix units: split_* of attention.cuh for up to 16 queries of a kv head,
// which are the rows of a matrix. Keys and values go from memory to the registers of the lane that multiplies them: the
// elements of a head are taken in the order in which lanes read 16 bytes each, as the sums do not depend on it.
#ifndef GK_GPU_SPLIT_MMA_CUH
#define GK_GPU_SPLIT_MMA_CUH

#if GK_MMA == GK_MMA_NVIDIA
// Eight elements of a position; zero past the end of the head.
GK_DEVICE uint4 eight_of(const gk_gpu_args &g, const unsigned short *position, unsigned int element) {
    uint4 eight = {0u, 0u, 0u, 0u};
    if (element < g.d_head) eight = *reinterpret_cast<const uint4 *>(position + element);
    return eight;
}

// grid: kv heads, splits, tokens x groups of 16 queries. SIZE: d_head <= SIZE.
template <int SIZE> GK_DEVICE void split_mma(const gk_gpu_args &g) {
    enum { WARPS = GK_GPU_ATTENTION_THREADS / GK_WARP, QUERIES = 16, PARTS = SIZE / 32, SIDES = SIZE / 64 };
    GK_SHARED(float, shared_value, WARPS * QUERIES * SIZE);
    GK_SHARED(float, shared_most, WARPS * QUERIES);
    GK_SHARED(float, shared_sum, WARPS * QUERIES);
    const unsigned int group = g.n_head / g.n_head_kv;
    const unsigned int parts = (group + QUERIES - 1) / QUERIES;
    const unsigned int token = blockIdx.z / parts, query0 = (blockIdx.z % parts) * QUERIES;
    if (token >= active_rows(g)) return; // applies to the whole block, as below
    const unsigned int positions = position(g) + token + 1;
    const unsigned int length = split_length(g, positions);
    const unsigned int begin = blockIdx.y * length;
    if (begin >= positions) return;
    const unsigned int end = begin + length < positions ? begin + length : positions;
    const unsigned int lane = threadIdx.x % GK_WARP, warp = threadIdx.x / GK_WARP, row = lane / 4, column = lane % 4;
    const unsigned int head0 = blockIdx.x * group + query0;
    unsigned int queries = group - query0;
    if (queries > QUERIES) queries = QUERIES;
    const unsigned short *keys = pointer<const unsigned short>(g.b) + static_cast<size_t>(blockIdx.x) * g.n_ctx * g.d_head;
    const unsigned short *values = pointer<const unsigned short>(g.c) + static_cast<size_t>(blockIdx.x) * g.n_ctx * g.d_head;

    // Queries of rows `row` and `row + 8`: four elements of each for every half of a lane's eight. As the sum of two f16,
    // because rounding changes large scores by more than the softmax can bear.
    unsigned int query[2][PARTS][2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned int q = row + half * 8;
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(token) * g.a_stride + static_cast<size_t>(head0 + q) * g.d_head;
#pragma unroll
        for (int j = 0; j < PARTS; ++j)
#pragma unroll
            for (int four = 0; four < 2; ++four) {
                const unsigned int element = (j * 4 + column) * 8 + four * 4;
                const bool there = q < queries && element < g.d_head; // d_head is a multiple of 8
#pragma unroll
                for (int two = 0; two < 2; ++two) {
                    const float x = there ? in[element + two * 2] * g.scale : 0.0f, y = there ? in[element + two * 2 + 1] * g.scale : 0.0f;
                    const unsigned int high = pack_sixteen<false>(x, y);
                    query[0][j][four][half + two * 2] = high;
                    query[1][j][four][half + two * 2] = pack_sixteen<false>(x - half_to_float(static_cast<unsigned short>(high)),
                                                                            y - half_to_float(static_cast<unsigned short>(high >> 16)));
                }
            }
    }
    float most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f}, value[SIDES * 8][4];
#pragma unroll
    for (int d = 0; d < SIDES * 8; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) value[d][e] = 0.0f;

    for (unsigned int p0 = begin + warp * 16; p0 < end; p0 += WARPS * 16) {
        // Past the end, the last position, which then has no weight.
        uint4 key[2][PARTS], add[4][SIDES];
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const unsigned int p = p0 + n * 8 + row;
#pragma unroll
            for (int j = 0; j < PARTS; ++j) key[n][j] = eight_of(g, keys + static_cast<size_t>(p < end ? p : end - 1) * g.d_head, (j * 4 + column) * 8);
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const unsigned int p = p0 + n / 2 * 8 + column * 2 + n % 2;
#pragma unroll
            for (int j = 0; j < SIDES; ++j) add[n][j] = eight_of(g, values + static_cast<size_t>(p < end ? p : end - 1) * g.d_head, j * 64 + row * 8);
        }
        float score[2][4];
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) score[n][e] = 0.0f;
#pragma unroll
            for (int j = 0; j < PARTS; ++j)
#pragma unroll
                for (int of = 0; of < 2; ++of) {
                    multiply_add<false>(score[n], query[of][j][0], key[n][j].x, key[n][j].y);
                    multiply_add<false>(score[n], query[of][j][1], key[n][j].z, key[n][j].w);
                }
        }
        float keep[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float now = most[half];
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    if (p0 + n * 8 + column * 2 + e >= end) score[n][half * 2 + e] = -INFINITY;
                    now = fmaxf(now, score[n][half * 2 + e]);
                }
            now = fmaxf(now, shuffle_xor(now, 1));
            now = fmaxf(now, shuffle_xor(now, 2));
            keep[half] = expf(most[half] - now); // finite: the first position is before the end
            most[half] = now;
            sum[half] *= keep[half];
#pragma unroll
            for (int n = 0; n < 2; ++n)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    score[n][half * 2 + e] = expf(score[n][half * 2 + e] - now);
                    sum[half] += score[n][half * 2 + e];
                }
        }
        const unsigned int weight[4] = {pack_sixteen<false>(score[0][0], score[0][1]), pack_sixteen<false>(score[0][2], score[0][3]),
                                        pack_sixteen<false>(score[1][0], score[1][1]), pack_sixteen<false>(score[1][2], score[1][3])};
#pragma unroll
        for (int j = 0; j < SIDES; ++j) {
            const unsigned int words[4][4] = {{add[0][j].x, add[0][j].y, add[0][j].z, add[0][j].w}, {add[1][j].x, add[1][j].y, add[1][j].z, add[1][j].w},
                                              {add[2][j].x, add[2][j].y, add[2][j].z, add[2][j].w}, {add[3][j].x, add[3][j].y, add[3][j].z, add[3][j].w}};
#pragma unroll
            for (int d = 0; d < 8; ++d) { // element d of the eight of each lane, for two positions in a word
                const unsigned int selector = d % 2 == 0 ? 0x5410u : 0x7632u;
                float(&to)[4] = value[j * 8 + d];
#pragma unroll
                for (int e = 0; e < 4; ++e) to[e] *= keep[e / 2];
                multiply_add<false>(to, weight, __byte_perm(words[0][d / 2], words[1][d / 2], selector), __byte_perm(words[2][d / 2], words[3][d / 2], selector));
            }
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned int q = warp * QUERIES + row + half * 8;
        float total = sum[half] + shuffle_xor(sum[half], 1);
        total += shuffle_xor(total, 2);
        if (column == 0) {
            shared_most[q] = most[half];
            shared_sum[q] = total;
        }
#pragma unroll
        for (int d = 0; d < SIDES * 8; ++d)
#pragma unroll
            for (int e = 0; e < 2; ++e) shared_value[q * SIZE + d / 8 * 64 + (column * 2 + e) * 8 + d % 8] = value[d][half * 2 + e];
    }
    __syncthreads();
    split_store<WARPS, QUERIES, SIZE>(g, token, head0, queries, shared_value, shared_most, shared_sum);
}
#define GK_SPLIT_MMA_BODY(...) __VA_ARGS__
#else
#define GK_SPLIT_MMA_BODY(...) (void)g
#endif

GK_KERNEL(split_mma_64, GK_GPU_ATTENTION_THREADS) { GK_SPLIT_MMA_BODY(split_mma<64>(g)); }
GK_KERNEL(split_mma_128, GK_GPU_ATTENTION_THREADS) { GK_SPLIT_MMA_BODY(split_mma<128>(g)); }

#endif
