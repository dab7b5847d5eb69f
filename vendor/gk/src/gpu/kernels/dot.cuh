// matmul with weights of block types for a few tokens: activations are rounded to int8 in blocks of 32 with an f32 scale,
// and multiplied in integers, four at a time: in f32, products of one token take more time than reading the weights.
#ifndef GK_GPU_DOT_CUH
#define GK_GPU_DOT_CUH

#if GK_DOT
// Rounded activations in shared memory. The first and second 16 elements of a block are in two planes, so that lanes
// which read neighbouring blocks read neighbouring addresses; the gap keeps the planes on different banks.
template <int COLUMNS> struct dot_inputs {
    enum {
        SPAN = COLUMNS == 1 ? GK_GPU_DOT_SPAN : GK_GPU_DOT_TRIP, // elements of each token
        BLOCKS = SPAN / 32,
        PLANE = BLOCKS * 4 + 16, // words
        WORDS = 2 * PLANE
    };
};

// Eight elements of a token for this thread; zero past the end.
GK_DEVICE void eight_inputs(const gk_gpu_args &g, const float *x, unsigned int k, float (&v)[8]) {
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
        if (k < g.depth && g.vector) {
            four = *reinterpret_cast<const float4 *>(x + k + i);
        } else if (k < g.depth) {
            four = float4{x[k + i], x[k + i + 1], x[k + i + 2], x[k + i + 3]};
        }
        v[i] = four.x;
        v[i + 1] = four.y;
        v[i + 2] = four.z;
        v[i + 3] = four.w;
    }
}

// The nearest integers of four values in [-127, 127], as signed bytes: in the lowest byte of the value plus 1.5 * 2^23.
GK_DEVICE unsigned int signed_bytes(const float *v, float factor) {
    unsigned int bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) bits[i] = float_to_bits(v[i] * factor + 12582912.0f);
    return select_bytes(select_bytes(bits[0], bits[1], 0x0040u), select_bytes(bits[2], bits[3], 0x0040u), 0x5410u);
}

// Rounds elements [k0, k0 + count) of one token, after multiplication by the weights of the norm if there are any. Four
// lanes have a block, eight elements each. Returns the sum of squares of this thread's elements.
template <int COLUMNS>
GK_DEVICE float dot_round(const gk_gpu_args &g, const float *x, const float *norm, unsigned int k0, unsigned int count, unsigned int *words,
                          float *scales) {
    float squares = 0.0f;
    const unsigned int each = GK_GPU_DOT_THREADS * 8;
#pragma unroll 1
    for (unsigned int start = 0; start < count; start += each) { // the same number of times for all lanes
        const unsigned int at = start + threadIdx.x * 8;
        float v[8];
        eight_inputs(g, x, k0 + at, v);
        if (norm) {
            float factors[8];
            eight_inputs(g, norm, k0 + at, factors);
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                squares += v[i] * v[i];
                v[i] *= factors[i];
            }
        }
        float most = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) most = fmaxf(most, fabsf(v[i]));
        most = fmaxf(most, shuffle_xor(most, 1));
        most = fmaxf(most, shuffle_xor(most, 2));
        const float inverse = most > 1e-35f ? 127.0f / most : 0.0f; // smaller ones would overflow
        const unsigned int block = at / 32, inside = at % 32 / 4; // word of the block
        uint2 two;
        two.x = signed_bytes(v, inverse);
        two.y = signed_bytes(v + 4, inverse);
        *reinterpret_cast<uint2 *>(words + inside / 4 * dot_inputs<COLUMNS>::PLANE + block * 4 + inside % 4) = two;
        if (inside == 0) scales[block] = most / 127.0f;
    }
    return squares;
}

// A warp computes LINES rows at a time, or half as many with two weights, for COLUMNS tokens. The block rounds the
// activations while the first weights are on their way, and keeps them for all of its groups of rows.
template <class W, int LINES, int COLUMNS, bool GATED> GK_DEVICE void dot_matvec(const gk_gpu_args &g) {
    enum {
        ROWS = GATED ? LINES / 2 : LINES,
        STEP = W::QUADS * 4,
        TRIP = GK_GPU_DOT_TRIP,
        PIECES = TRIP / (GK_WARP * STEP), // per lane and trip
        PART = W::QUADS / W::SCALES,
        WARPS = GK_GPU_DOT_THREADS / GK_WARP
    };
    typedef dot_inputs<COLUMNS> inputs;
    GK_SHARED(unsigned int, words, COLUMNS * inputs::WORDS);
    GK_SHARED(float, scales, COLUMNS * inputs::BLOCKS);
    GK_SHARED(float, shared, WARPS);
    const unsigned int lane = threadIdx.x % GK_WARP, warp = threadIdx.x / GK_WARP;
    unsigned int groups = (g.width + WARPS * ROWS - 1) / (WARPS * ROWS);
#pragma unroll
    for (int n = 0; n < GK_GPU_BESIDE; ++n) groups += (g.beside[n].width + WARPS * ROWS - 1) / (WARPS * ROWS);
    typename W::piece piece[PIECES][LINES];
    let_next_kernel_start();
    {
        unsigned int to = blockIdx.x;
        const gk_gpu_args own = product_of(g, WARPS * ROWS, to);
        load_pieces<W, LINES, PIECES, GATED>(own, (to * WARPS + warp) * ROWS, lane * STEP, g.depth, piece); // no kernel writes weights
    }
    wait_for_kernel_before();
    const bool last = (g.flags & GK_LAST_ROW) != 0;
    const unsigned int column = last ? tokens(g) - 1 : blockIdx.y * COLUMNS;
    const unsigned int end = last ? tokens(g) : active_rows(g);
    if (column >= end) return; // applies to the whole block
    const float *norm = pointer<const float>(g.norm);
    float squares[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) squares[c] = 0.0f;

    for (unsigned int group = blockIdx.x; group < groups; group += gridDim.x) {
        const bool fresh = group == blockIdx.x || g.depth > inputs::SPAN;
        float sum[LINES][COLUMNS];
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
            for (int r = 0; r < LINES; ++r) sum[r][c] = 0.0f;

        for (unsigned int k0 = 0; k0 < g.depth; k0 += inputs::SPAN) {
            unsigned int count = g.depth - k0;
            if (count > inputs::SPAN) count = inputs::SPAN;
            if (fresh) {
                __syncthreads(); // the activations before are no longer read
#pragma unroll
                for (int c = 0; c < COLUMNS; ++c) {
                    const unsigned int t = column + c < end ? column + c : end - 1;
                    const float more = dot_round<COLUMNS>(g, pointer<const float>(g.b) + static_cast<size_t>(t) * g.b_stride, norm, k0, count,
                                                          words + c * inputs::WORDS, scales + c * inputs::BLOCKS);
                    squares[c] = k0 == 0 ? more : squares[c] + more;
                }
                __syncthreads();
            }
            for (unsigned int trip = 0; trip < count; trip += TRIP) {
#pragma unroll
                for (int i = 0; i < PIECES; ++i) {
                    const unsigned int at = trip + (i * GK_WARP + lane) * STEP; // in the span
                    if (at >= count) continue;
#pragma unroll
                    for (int c = 0; c < COLUMNS; ++c) {
                        const unsigned int *half = words + c * inputs::WORDS + at % 32 / 16 * inputs::PLANE + at / 32 * 4;
                        unsigned int x[W::QUADS];
#pragma unroll
                        for (int q = 0; q < W::QUADS; q += 4) {
                            const uint4 four = *reinterpret_cast<const uint4 *>(half + q / 4 * inputs::PLANE);
                            x[q] = four.x;
                            x[q + 1] = four.y;
                            x[q + 2] = four.z;
                            x[q + 3] = four.w;
                        }
                        const float scale = scales[c * inputs::BLOCKS + at / 32];
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
                const unsigned int next = k0 + trip + TRIP;
                const bool more = next < g.depth, another = group + gridDim.x < groups;
                unsigned int to = more ? group : group + gridDim.x;
                if (more || another) {
                    const gk_gpu_args own = product_of(g, WARPS * ROWS, to);
                    load_pieces<W, LINES, PIECES, GATED>(own, (to * WARPS + warp) * ROWS, (more ? next : 0) + lane * STEP, g.depth, piece);
                }
            }
        }
        if (fresh && norm) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) squares[c] = 1.0f / sqrtf(block_sum(squares[c], shared) / static_cast<float>(g.depth) + g.scale);
        }
        unsigned int place = group;
        const gk_gpu_args now = product_of(g, WARPS * ROWS, place);
        const unsigned int first = (place * WARPS + warp) * ROWS;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) {
                const float factor = norm ? squares[c] : 1.0f;
                float value = factor * warp_sum(sum[r][c]);
                if (GATED) value = silu_of(value) * factor * warp_sum(sum[r + LINES - ROWS][c]);
                if (lane == 0 && first + r < now.width && column + c < end) store_output(now, first + r, last ? 0 : column + c, value);
            }
        }
    }
}
#define GK_DOT_BODY(...) __VA_ARGS__
#else
#define GK_DOT_BODY(...) (void)g
#endif

#define GK_DOT_KERNEL(name, type, columns, gated, blocks) \
    GK_EARLY_KERNEL(name##_##type##_##columns, GK_BLOCKS(GK_GPU_DOT_THREADS, blocks)) { \
        GK_DOT_BODY(dot_matvec<weight_of_##type, GK_GPU_DOT_LINES(GK_GPU_DOT_LINES_##type, columns, gated), columns, gated>(g)); \
    }
#define GK_DOT_KERNELS(type, columns, blocks) \
    GK_DOT_KERNEL(dot, type, columns, false, blocks) \
    GK_DOT_KERNEL(gate_up_dot, type, columns, true, blocks)
#define GK_DOTS(type) GK_DOT_KERNELS(type, 1, GK_GPU_DOT_BLOCKS_##type) GK_DOT_KERNELS(type, 8, 1)
GK_DOTS(q8_0)
GK_DOTS(q4_0)
GK_DOTS(q4_k)
GK_DOTS(q6_k)

#endif
