// matmul with weights of block types for a few tokens: activations are rounded to int8 in blocks of 32 with an f32 scale,
// and multiplied in integers, four at a time: in f32, products of one token take more time than reading the weights.
#ifndef GK_GPU_DOT_CUH
#define GK_GPU_DOT_CUH

#if GK_DOT
// The rounded activations of a trip, in shared memory. The first and second 16 elements of a block are in two planes, so
// that lanes which read neighbouring blocks read neighbouring addresses; the gap keeps the planes on different banks.
enum {
    DOT_BLOCKS = GK_GPU_DOT_TRIP / 32,
    DOT_PLANE = DOT_BLOCKS * 4 + 16, // words
    DOT_WORDS = 2 * DOT_PLANE
};

// Rounds elements [k0, k0 + GK_GPU_DOT_TRIP) of one token, after multiplication by the weights of the norm if there are
// any. Eight lanes have a block, four elements each. Returns the sum of squares of this thread's elements.
GK_DEVICE float dot_round(const gk_gpu_args &g, const float *x, const float *norm, unsigned int k0, unsigned int *words, float *scales) {
    float squares = 0.0f;
    for (unsigned int at = threadIdx.x * 4; at < GK_GPU_DOT_TRIP; at += GK_GPU_DOT_THREADS * 4) { // the same count for all lanes
        const unsigned int k = k0 + at;
        float v[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (k < g.depth) {
            if (g.vector) {
                const float4 four = *reinterpret_cast<const float4 *>(x + k);
                v[0] = four.x;
                v[1] = four.y;
                v[2] = four.z;
                v[3] = four.w;
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) v[i] = x[k + i];
            }
            if (norm) {
                const float4 factor = *reinterpret_cast<const float4 *>(norm + k);
                squares += v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + v[3] * v[3];
                v[0] *= factor.x;
                v[1] *= factor.y;
                v[2] *= factor.z;
                v[3] *= factor.w;
            }
        }
        float most = fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3])));
#pragma unroll
        for (int mask = 1; mask < 8; mask *= 2) most = fmaxf(most, shuffle_xor(most, mask));
        const float inverse = most > 1e-35f ? 127.0f / most : 0.0f; // smaller ones would overflow
        unsigned int word = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) word |= (static_cast<unsigned int>(static_cast<int>(rintf(v[i] * inverse))) & 0xffu) << (8 * i);
        const unsigned int block = at / 32, inside = at % 32 / 4; // word of the block
        words[inside / 4 * DOT_PLANE + block * 4 + inside % 4] = word;
        if (inside == 0) scales[block] = most / 127.0f;
    }
    return squares;
}

// Loads the pieces of a trip, for this lane from element k on.
template <class W, int LINES, int ROWS, int PIECES>
GK_DEVICE void dot_load(const gk_gpu_args &g, const weight_place (&weights)[2], const size_t (&row)[LINES], unsigned int k,
                        typename W::piece (&piece)[PIECES][LINES]) {
#pragma unroll
    for (int i = 0; i < PIECES; ++i) {
        const unsigned int at = k + i * GK_WARP * W::QUADS * 4;
        if (at >= g.depth) continue;
#pragma unroll
        for (int r = 0; r < LINES; ++r) W::load(weights[r / ROWS], row[r] + at, piece[i][r]);
    }
}

// A warp computes LINES rows, or half as many with two weights, for COLUMNS tokens. The block rounds the activations of
// a trip while the weights of the trip are on their way.
template <class W, int LINES, int COLUMNS, int KIND> GK_DEVICE void dot_matvec(const gk_gpu_args &g) {
    enum {
        ROWS = KIND == MATVEC_GATE_UP ? LINES / 2 : LINES,
        STEP = W::QUADS * 4,
        PIECES = GK_GPU_DOT_TRIP / (GK_WARP * STEP), // per lane and trip
        PART = W::QUADS / W::SCALES,
        WARPS = GK_GPU_DOT_THREADS / GK_WARP
    };
    GK_SHARED(unsigned int, words, COLUMNS * DOT_WORDS);
    GK_SHARED(float, scales, COLUMNS * DOT_BLOCKS);
    GK_SHARED(float, shared, WARPS);
    const unsigned int lane = threadIdx.x % GK_WARP;
    const unsigned int first = (blockIdx.x * WARPS + threadIdx.x / GK_WARP) * ROWS;
    const weight_place weights[2] = {place_of(g, g.a), place_of(g, KIND == MATVEC_GATE_UP ? g.d : g.a)};
    size_t row[LINES]; // its first element
#pragma unroll
    for (int r = 0; r < LINES; ++r)
        row[r] = static_cast<size_t>(first + r % ROWS < g.width ? first + r % ROWS : g.width - 1) * g.depth;
    typename W::piece piece[PIECES][LINES];
    let_next_kernel_start();
    dot_load<W, LINES, ROWS, PIECES>(g, weights, row, lane * STEP, piece); // no kernel writes weights
    wait_for_kernel_before();
    const bool last = (g.flags & GK_LAST_ROW) != 0;
    const unsigned int column = last ? tokens(g) - 1 : blockIdx.y * COLUMNS;
    const unsigned int end = last ? tokens(g) : active_rows(g);
    if (column >= end) return; // applies to the whole block
    const float *norm = KIND == MATVEC_NORM ? pointer<const float>(g.d) : nullptr;
    float sum[LINES][COLUMNS], squares[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        squares[c] = 0.0f;
#pragma unroll
        for (int r = 0; r < LINES; ++r) sum[r][c] = 0.0f;
    }

    for (unsigned int k0 = 0; k0 < g.depth; k0 += GK_GPU_DOT_TRIP) {
        __syncthreads(); // the activations of the trip before are no longer read
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const unsigned int t = column + c < end ? column + c : end - 1;
            squares[c] += dot_round(g, pointer<const float>(g.b) + static_cast<size_t>(t) * g.b_stride, norm, k0, words + c * DOT_WORDS,
                                    scales + c * DOT_BLOCKS);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const unsigned int at = (i * GK_WARP + lane) * STEP; // in the trip
            if (k0 + at >= g.depth) continue;
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const unsigned int *half = words + c * DOT_WORDS + at % 32 / 16 * DOT_PLANE + at / 32 * 4;
                unsigned int x[W::QUADS];
#pragma unroll
                for (int q = 0; q < W::QUADS; q += 4) {
                    const uint4 four = *reinterpret_cast<const uint4 *>(half + q / 4 * DOT_PLANE);
                    x[q] = four.x;
                    x[q + 1] = four.y;
                    x[q + 2] = four.z;
                    x[q + 3] = four.w;
                }
                const float scale = scales[c * DOT_BLOCKS + at / 32];
#pragma unroll
                for (int s = 0; s < W::SCALES; ++s) {
                    int ones = 0; // the sum of the activations
#pragma unroll
                    for (int q = s * PART; q < (s + 1) * PART; ++q) ones = dot4(0x01010101u, x[q], ones);
#pragma unroll
                    for (int r = 0; r < LINES; ++r) {
                        int total = -W::DOT_OFFSET * ones;
#pragma unroll
                        for (int q = s * PART; q < (s + 1) * PART; ++q) total = dot4(W::signed_word(piece[i][r], q), x[q], total);
                        float value = piece[i][r].scale[s] * static_cast<float>(total);
                        if (W::MINIMUM) value -= piece[i][r].minimum * static_cast<float>(ones);
                        sum[r][c] += scale * value;
                    }
                }
            }
        }
        dot_load<W, LINES, ROWS, PIECES>(g, weights, row, k0 + GK_GPU_DOT_TRIP + lane * STEP, piece); // of the next trip
    }
    if (KIND == MATVEC_NORM) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) squares[c] = 1.0f / sqrtf(block_sum(squares[c], shared) / static_cast<float>(g.depth) + g.scale);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            float value = warp_sum(sum[r][c]);
            if (KIND == MATVEC_NORM) value *= squares[c];
            if (KIND == MATVEC_GATE_UP) value = silu_of(value) * warp_sum(sum[r + LINES - ROWS][c]);
            if (lane == 0 && first + r < g.width && column + c < end) store_output(g, first + r, last ? 0 : column + c, value);
        }
    }
}
#define GK_DOT_BODY(...) __VA_ARGS__
#else
#define GK_DOT_BODY(...) (void)g
#endif

#define GK_DOT_KERNEL(name, type, columns, kind, blocks) \
    GK_EARLY_KERNEL(name##_##type##_##columns, GK_BLOCKS(GK_GPU_DOT_THREADS, blocks)) { GK_DOT_BODY(dot_matvec<weight_of_##type, GK_GPU_DOT_ROWS, columns, kind>(g)); }
#define GK_DOT_KERNELS(type, columns, blocks) \
    GK_DOT_KERNEL(dot, type, columns, MATVEC_PLAIN, blocks) \
    GK_DOT_KERNEL(norm_dot, type, columns, MATVEC_NORM, blocks) \
    GK_DOT_KERNEL(gate_up_dot, type, columns, MATVEC_GATE_UP, blocks)
// `most`: blocks of a multiprocessor for one token, so that enough bytes are on their way.
#define GK_DOTS(type, most) GK_DOT_KERNELS(type, 1, most) GK_DOT_KERNELS(type, 8, 1)
GK_DOTS(q8_0, 2)
GK_DOTS(q4_0, 4)
GK_DOTS(q4_k, 3)
GK_DOTS(q6_k, 2)

#endif
