// matmul for many tokens on matrix units: 16-bit weights and activations, sums in f32. `sixteen_rows` converts the
// activations once; `mma_*` brings tiles of both into shared memory as f16 (bf16 for bf16 weights).
#ifndef GK_GPU_MMA_CUH
#define GK_GPU_MMA_CUH

#if GK_MMA
// The 16-bit activations are at the start of the scratch memory, followed by a factor for each token.
GK_DEVICE unsigned short *sixteen_place(const gk_gpu_args &g, unsigned int token) {
    return pointer<unsigned short>(g.aux) + static_cast<size_t>(token) * g.depth;
}
GK_DEVICE float *factor_place(const gk_gpu_args &g, unsigned int token) {
    return reinterpret_cast<float *>(pointer<unsigned short>(g.aux) + static_cast<size_t>(g.rows) * g.depth) + token;
}

// Converts a token for each block. A power of two brings its largest value near 2^14: f16 overflows from 2^16 on, and
// loses bits below 2^-14. The depth is a multiple of 8.
template <bool BF16> GK_DEVICE void sixteen_rows(const gk_gpu_args &g) {
    GK_SHARED(float, shared, GK_GPU_THREADS / 32);
    const unsigned int token = blockIdx.x;
    if (token >= active_rows(g)) return; // applies to the whole block
    const float *x = pointer<const float>(g.b) + static_cast<size_t>(token) * g.b_stride;
    float factor = 1.0f;
    if (!BF16) {
        float most = 0.0f;
        for (unsigned int k = threadIdx.x * 4; k < g.depth; k += blockDim.x * 4) {
            const float4 v = *reinterpret_cast<const float4 *>(x + k);
            most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
        }
        most = block_max(most, shared);
        // The exponent, kept away from 0 and infinity: the factor and its inverse are normal numbers.
        const unsigned int exponent = float_to_bits(most) >> 23 & 255u;
        const unsigned int kept = exponent < 30u ? 30u : exponent > 240u ? 240u : exponent;
        factor = bits_to_float((kept - 14u) << 23);
    }
    const float inverse = bits_to_float((254u << 23) - float_to_bits(factor));
    unsigned short *out = sixteen_place(g, token);
    for (unsigned int k = threadIdx.x * 4; k < g.depth; k += blockDim.x * 4) {
        const float4 v = *reinterpret_cast<const float4 *>(x + k);
        uint2 packed;
        packed.x = pack_sixteen<BF16>(v.x * inverse, v.y * inverse);
        packed.y = pack_sixteen<BF16>(v.z * inverse, v.w * inverse);
        *reinterpret_cast<uint2 *>(out + k) = packed;
    }
    if (threadIdx.x == 0) *factor_place(g, token) = factor;
}

// The part of a tile that a thread moves from memory to shared memory, and its way there: registers.
template <class W, bool BF16, int TILE> struct mma_part {
    enum {
        STEP = 64,        // elements of k in shared memory at once
        PITCH = STEP + 8, // of a row there, so that eight rows are on different banks
        THREADS = TILE * 2,
        PIECE = W::QUADS * 4,
        ALL_PIECES = TILE * STEP / PIECE,
        PIECES = (ALL_PIECES + THREADS - 1) / THREADS,
        CHUNKS = TILE * STEP / 8 / THREADS // of eight activations
    };
    typename W::piece piece[PIECES];
    uint4 chunk[CHUNKS];

    // Rows and tokens past the end repeat the last one: their sums are not stored.
    GK_DEVICE void load(mma_part &part, const gk_gpu_args &g, const weight_place &place, unsigned int row0, unsigned int token0,
                        unsigned int used, unsigned int k0) {
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const unsigned int item = threadIdx.x + i * THREADS;
            const unsigned int row = row0 + item / (STEP / PIECE), k = k0 + item % (STEP / PIECE) * PIECE;
            if (ALL_PIECES % THREADS != 0 && item >= ALL_PIECES) continue;
            W::load(place, static_cast<size_t>(row < g.width ? row : g.width - 1) * g.depth + (k < g.depth ? k : 0), part.piece[i]);
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const unsigned int item = threadIdx.x + i * THREADS;
            const unsigned int token = token0 + item / (STEP / 8), k = k0 + item % (STEP / 8) * 8;
            part.chunk[i] = *reinterpret_cast<const uint4 *>(sixteen_place(g, token < used ? token : used - 1) + (k < g.depth ? k : 0));
        }
    }

    // Past the end of k, both factors are zero.
    GK_DEVICE void store(const mma_part &part, const gk_gpu_args &g, unsigned int k0, unsigned short *weights, unsigned short *inputs) {
        const uint4 zero = {0u, 0u, 0u, 0u};
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const unsigned int item = threadIdx.x + i * THREADS;
            const unsigned int k = item % (STEP / PIECE) * PIECE;
            if (ALL_PIECES % THREADS != 0 && item >= ALL_PIECES) continue;
            uint4 *to = reinterpret_cast<uint4 *>(weights + item / (STEP / PIECE) * PITCH + k);
#pragma unroll
            for (int q = 0; q < W::QUADS; q += 2) {
                uint4 eight = zero;
                if (k0 + k < g.depth) W::sixteen(part.piece[i], q, eight);
                to[q / 2] = eight;
            }
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const unsigned int item = threadIdx.x + i * THREADS, k = item % (STEP / 8) * 8;
            *reinterpret_cast<uint4 *>(inputs + item / (STEP / 8) * PITCH + k) = k0 + k < g.depth ? part.chunk[i] : zero;
        }
    }
};

// TILE rows of the weight times TILE tokens, TILE * 2 threads. While a step of k is multiplied from shared memory, the
// next one is on its way to registers. (Two steps of 32 in turn, with one barrier for each, were a third
// slower on an H200: there was less time for the loads.)
template <class W, bool BF16, int TILE> GK_DEVICE void matmul_mma(const gk_gpu_args &g) {
    typedef mma_part<W, BF16, TILE> part;
    enum {
        STEP = part::STEP,
        PITCH = part::PITCH,
        WIDE = TILE / 2, // rows of a warp
        TALL = 32,       // tokens of a warp
        ACROSS = WIDE / 16,
        DOWN = TALL / 16
    };
    GK_SHARED(unsigned short, weights, TILE * PITCH);
    GK_SHARED(unsigned short, inputs, TILE * PITCH);
    const unsigned int used = active_rows(g);
    const unsigned int row0 = blockIdx.x * TILE, token0 = blockIdx.y * TILE;
    if (token0 >= used) return; // applies to the whole block
    const unsigned int warp = threadIdx.x / GK_WARP, lane = threadIdx.x % GK_WARP;
    const unsigned int wide0 = warp % 2 * WIDE, tall0 = warp / 2 * TALL;
    const weight_place place = place_of(g, g.a);

    float sum[ACROSS][DOWN * 2][4];
#pragma unroll
    for (int i = 0; i < ACROSS; ++i)
#pragma unroll
        for (int j = 0; j < DOWN * 2; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0f;

    part next;
    part::load(next, g, place, row0, token0, used, 0);
    for (unsigned int k0 = 0; k0 < g.depth; k0 += STEP) {
        __syncthreads(); // the step before is no longer read
        part::store(next, g, k0, weights, inputs);
        __syncthreads();
        if (k0 + STEP < g.depth) part::load(next, g, place, row0, token0, used, k0 + STEP);
#pragma unroll
        for (int k = 0; k < STEP; k += 16) {
            unsigned int wide[ACROSS][4], tall[DOWN][4];
#pragma unroll
            for (int i = 0; i < ACROSS; ++i) load_matrix(weights + (wide0 + i * 16) * PITCH + k, PITCH, lane, wide[i]);
#pragma unroll
            for (int j = 0; j < DOWN; ++j) load_matrix_right(inputs + (tall0 + j * 16) * PITCH + k, PITCH, lane, tall[j]);
#pragma unroll
            for (int i = 0; i < ACROSS; ++i)
#pragma unroll
                for (int j = 0; j < DOWN; ++j) {
                    multiply_add<BF16>(sum[i][2 * j], wide[i], tall[j][0], tall[j][1]);
                    multiply_add<BF16>(sum[i][2 * j + 1], wide[i], tall[j][2], tall[j][3]);
                }
        }
    }
    const bool plain = (g.flags & (GK_BIAS | GK_ACCUMULATE)) == 0;
#pragma unroll
    for (int j = 0; j < DOWN * 2; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const unsigned int t = token0 + tall0 + j * 8 + lane % 4 * 2 + e;
            if (t >= used) continue;
            const float factor = *factor_place(g, t);
#pragma unroll
            for (int i = 0; i < ACROSS * 2; ++i) {
                const unsigned int r = row0 + wide0 + i * 8 + lane / 4;
                const float value = factor * sum[i / 2][j][i % 2 * 2 + e];
                if (r >= g.width) continue;
                if (plain) pointer<float>(g.dst)[static_cast<size_t>(t) * g.dst_stride + r] = value;
                else store_output(g, r, t, value);
            }
        }
}
#define GK_MMA_BODY(...) __VA_ARGS__
#else
#define GK_MMA_BODY(...) (void)g
#endif

GK_KERNEL(sixteen_rows_f16, GK_GPU_THREADS) { GK_MMA_BODY(sixteen_rows<false>(g)); }
GK_KERNEL(sixteen_rows_bf16, GK_GPU_THREADS) { GK_MMA_BODY(sixteen_rows<true>(g)); }

#define GK_MMAS(type, bf16) \
    GK_KERNEL(mma_##type##_64, 128) { GK_MMA_BODY(matmul_mma<weight_of_##type, bf16, 64>(g)); } \
    GK_KERNEL(mma_##type##_128, GK_BLOCKS(256, 2)) { GK_MMA_BODY(matmul_mma<weight_of_##type, bf16, 128>(g)); }
GK_MMAS(f16, false)
GK_MMAS(bf16, true)
GK_MMAS(q8_0, false)
GK_MMAS(q4_0, false)
GK_MMAS(q4_k, false)
GK_MMAS(q6_k, false)

#endif
