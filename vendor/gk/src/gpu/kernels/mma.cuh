// matmul for many tokens on matrix units: 16-bit weights and activations, sums in f32. `sixteen_rows` converts the
// activations once; `mma_*` multiplies them with the weights as f16 (bf16 for bf16 weights).
#ifndef GK_GPU_MMA_CUH
#define GK_GPU_MMA_CUH

#if GK_MMA
enum { MMA_STEP = 64 }; // elements of k in shared memory at once: a row of GK_GPU_EXCHANGED

// The 16-bit activations are at the start of the scratch memory: for each step of k, a row of MMA_STEP elements for each
// token. So the activations of a step of neighbouring tokens are contiguous.
GK_DEVICE unsigned int sixteen_depth(const gk_gpu_args &g) { return (g.depth + GK_GPU_MMA_ALIGN - 1) / GK_GPU_MMA_ALIGN * GK_GPU_MMA_ALIGN; }
GK_DEVICE unsigned int sixteen_tokens(const gk_gpu_args &g) { return (g.rows + GK_GPU_MMA_TOKENS - 1) / GK_GPU_MMA_TOKENS * GK_GPU_MMA_TOKENS; }
GK_DEVICE unsigned short *sixteen_place(const gk_gpu_args &g, unsigned int step, unsigned int token) {
    return pointer<unsigned short>(g.aux) + (static_cast<size_t>(step) * sixteen_tokens(g) + token) * MMA_STEP;
}
// A factor for each token, behind the activations.
GK_DEVICE float *factor_place(const gk_gpu_args &g, unsigned int token) {
    return reinterpret_cast<float *>(sixteen_place(g, sixteen_depth(g) / MMA_STEP, 0)) + token;
}

// Converts a token for each block. A power of two brings its largest value near 2^14: f16 overflows from 2^16 on, and
// loses bits below 2^-14. The depth is a multiple of 8.
//
// The order of elements is that in which lanes hold weights: a piece of a row has four times `g.quads` elements, and a product
// of 16 elements takes four of each of four neighbouring pieces (fragments.cuh). Rows are in the order of GK_GPU_EXCHANGED.
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
    for (unsigned int k = threadIdx.x * 4; k < sixteen_depth(g); k += blockDim.x * 4) {
        float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
        if (k < g.depth) v = *reinterpret_cast<const float4 *>(x + k);
        const unsigned int quad = k / 4, lane = quad / g.quads % 4, word = (quad / (4 * g.quads) * g.quads + quad % g.quads) * 8 + lane;
        unsigned int *out = reinterpret_cast<unsigned int *>(sixteen_place(g, word * 2 / MMA_STEP, 0));
        out[GK_GPU_EXCHANGED(token, word % (MMA_STEP / 2) / 4) / 2 + lane] = pack_sixteen<BF16>(v.x * inverse, v.y * inverse);
        out[GK_GPU_EXCHANGED(token, word % (MMA_STEP / 2) / 4 + 1) / 2 + lane] = pack_sixteen<BF16>(v.z * inverse, v.w * inverse);
    }
    if (threadIdx.x == 0) *factor_place(g, token) = factor;
}

// Loads the pieces that this lane holds of the rows from `row` on, from element k on.
template <class W, int LINES, int PIECES>
GK_DEVICE void load_tile(const gk_gpu_args &g, const weight_place &place, unsigned int row, unsigned int k, typename W::piece (&piece)[PIECES][LINES]) {
    const unsigned int lane = threadIdx.x % GK_WARP;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
#pragma unroll
        for (int r = 0; r < LINES; ++r) { // past the end, any element: the activations are zero there, or the row is not stored
            const unsigned int at = k + (p * 4 + held_piece(lane, r % MMA_HELD)) * 4 * W::QUADS;
            const unsigned int of = row + r / MMA_HELD * 16 + held_row(lane, r % MMA_HELD), line = of < g.width ? of : g.width - 1;
            W::load(place, static_cast<size_t>(line) * g.depth + (at < g.depth ? at : 0), piece[p][r]);
        }
    }
}

// Adds the products of 16 elements of k, of 16 * ROWS16 rows of a warp and all tokens, from `piece` on of each row.
template <bool BF16, int ROWS16, int TOKENS>
GK_DEVICE void multiply_add_tokens(float (&sum)[ROWS16][TOKENS / MMA_COLUMNS][MMA_SUMS], const unsigned int (&left)[ROWS16][MMA_WORDS], const unsigned short *tokens, unsigned int piece) {
#if GK_GROUP_MMA
#pragma unroll
    for (int i = 0; i < ROWS16; ++i) multiply_add_group<BF16>(sum[i], left[i], matrix_description(tokens + piece * 8));
#else
#pragma unroll
    for (int j = 0; j < TOKENS / 16; ++j) {
        unsigned int right[MMA_WORDS];
        load_matrix_exchanged(tokens, j * 16, piece, threadIdx.x % GK_WARP, right);
#pragma unroll
        for (int i = 0; i < ROWS16; ++i) multiply_add_square<BF16>(sum[i] + j * (16 / MMA_COLUMNS), left[i], right);
    }
#endif
}

// The product of TILE rows of the weight and TOKENS tokens. A warp has a quarter of the rows and all tokens: weights go
// from memory to the registers of the lanes that multiply them, activations through shared memory. Neighbouring blocks
// have the same rows, so that weights are read from DRAM once.
template <class W, bool BF16, int TILE, int TOKENS> GK_DEVICE void matmul_mma(const gk_gpu_args &shared) {
    enum {
        THREADS = GK_GPU_MMA_WARPS * GK_WARP,
        ROWS = TILE / GK_GPU_MMA_WARPS, // of a warp
        LINES = ROWS / 16 * MMA_HELD,   // pieces of a lane
        PIECE = W::QUADS * 4,
        GROUP = 4 * PIECE < MMA_STEP ? MMA_STEP : 4 * PIECE, // elements of k whose weights are loaded at once
        PIECES = GROUP / (4 * PIECE),
        CONVERTED = GK_GROUP_MMA ? MMA_STEP : 32 // elements of k that are in the form of a factor at once
    };
    GK_SHARED_MATRIX(inputs, 2 * TOKENS * MMA_STEP);
    GK_SHARED(unsigned long long, gates, 2);
    unsigned int tile = blockIdx.y;
    const gk_gpu_args g = product_of(shared, TILE, tile);
    const unsigned int used = active_rows(g), token0 = blockIdx.x * TOKENS;
    if (token0 >= used) return; // applies to the whole block
    const unsigned int lane = threadIdx.x % GK_WARP, row0 = tile * TILE + threadIdx.x / GK_WARP * ROWS;
    const weight_place place = place_of(g, g.a);
    typename W::piece now[PIECES][LINES], next[PIECES][LINES];
    float sum[ROWS / 16][TOKENS / MMA_COLUMNS][MMA_SUMS];
#pragma unroll
    for (int i = 0; i < ROWS / 16; ++i)
#pragma unroll
        for (int j = 0; j < TOKENS / MMA_COLUMNS; ++j)
#pragma unroll
            for (int e = 0; e < MMA_SUMS; ++e) sum[i][j][e] = 0.0f;

    const unsigned int end = (g.depth + GROUP - 1) / GROUP * GROUP;
    open_gates<2>(gates);
#pragma unroll
    for (unsigned int step = 0; step < 2; ++step)
        copy_tile<TOKENS * MMA_STEP, THREADS>(inputs + step * TOKENS * MMA_STEP, sixteen_place(g, step, token0), step * MMA_STEP < end, gates + step);
    load_tile<W, LINES, PIECES>(g, place, row0, 0, next);
    for (unsigned int k0 = 0; k0 < end; k0 += GROUP) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p)
#pragma unroll
            for (int r = 0; r < LINES; ++r) now[p][r] = next[p][r];
        if (k0 + GROUP < end) load_tile<W, LINES, PIECES>(g, place, row0, k0 + GROUP, next);
#pragma unroll
        for (int part = 0; part < GROUP / MMA_STEP; ++part) {
            const unsigned int step = k0 / MMA_STEP + part;
            unsigned short *here = inputs + step % 2 * TOKENS * MMA_STEP;
            wait_for_tile(gates + step % 2, step / 2 % 2);
#pragma unroll
            for (int k = 0; k < MMA_STEP; k += CONVERTED) {
                unsigned int left[CONVERTED / 16][ROWS / 16][MMA_WORDS];
#pragma unroll
                for (int pair = 0; pair < CONVERTED / 32; ++pair) { // two quads of each lane
                    const int of_group = part * MMA_STEP + k + pair * 32, piece = of_group / (4 * PIECE), quad = of_group % (4 * PIECE) / 16;
#pragma unroll
                    for (int r = 0; r < LINES; ++r) {
                        const int square = r / MMA_HELD, held = r % MMA_HELD;
                        uint4 eight;
                        W::sixteen(now[piece][r], quad, eight);
                        left[2 * pair][square][held] = eight.x;
                        left[2 * pair][square][held + MMA_HELD] = eight.y;
                        left[2 * pair + 1][square][held] = eight.z;
                        left[2 * pair + 1][square][held + MMA_HELD] = eight.w;
                    }
                }
                begin_products(left, sum);
#pragma unroll
                for (int sixteenth = 0; sixteenth < CONVERTED / 16; ++sixteenth)
                    multiply_add_tokens<BF16, ROWS / 16, TOKENS>(sum, left[sixteenth], here, (k + sixteenth * 16) / 8);
                end_products(left, sum);
            }
            __syncthreads(); // nobody reads `here` any more
            copy_tile<TOKENS * MMA_STEP, THREADS>(here, sixteen_place(g, step + 2, token0), (step + 2) * MMA_STEP < end, gates + step % 2);
        }
    }
    enum { OWN = ROWS / 16 * MMA_ROWS, EACH = MMA_SUMS / MMA_ROWS }; // rows of this lane's sums, and columns of a part
#pragma unroll
    for (int j = 0; j < TOKENS / MMA_COLUMNS; ++j)
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const unsigned int t = token0 + j * MMA_COLUMNS + sum_column(lane, e);
            if (t >= used) continue;
            const float factor = *factor_place(g, t);
            float *out = pointer<float>(g.dst) + static_cast<size_t>(t) * g.dst_stride;
            float value[OWN]; // a loop that loads and stores would wait for each load
#pragma unroll
            for (int r = 0; r < OWN; ++r) {
                const unsigned int row = row0 + r / MMA_ROWS * 16 + sum_row(lane, r % MMA_ROWS);
                value[r] = factor * sum[r / MMA_ROWS][j][r % MMA_ROWS * EACH + e];
                if (row >= g.width) continue;
                if (g.flags & GK_BIAS) value[r] += pointer<const float>(g.c)[row];
                if (g.flags & GK_ACCUMULATE) value[r] += out[row];
            }
#pragma unroll
            for (int r = 0; r < OWN; ++r) {
                const unsigned int row = row0 + r / MMA_ROWS * 16 + sum_row(lane, r % MMA_ROWS);
                if (row < g.width) out[row] = value[r];
            }
        }
}
#define GK_MMA_BODY(...) __VA_ARGS__
#else
#define GK_MMA_BODY(...) (void)g
#endif

GK_KERNEL(sixteen_rows_f16, GK_GPU_THREADS) { GK_MMA_BODY(sixteen_rows<false>(g)); }
GK_KERNEL(sixteen_rows_bf16, GK_GPU_THREADS) { GK_MMA_BODY(sixteen_rows<true>(g)); }

// `most`: blocks of a multiprocessor, a limit for registers.
#define GK_MMA_KERNEL(type, bf16, rows, tokens, most) \
    GK_KERNEL(mma_##type##_##rows##_##tokens, GK_BLOCKS(GK_GPU_MMA_WARPS * GK_WARP, most)) { GK_MMA_BODY(matmul_mma<weight_of_##type, bf16, rows, tokens>(g)); }
#define GK_MMAS(type, bf16) \
    GK_MMA_KERNEL(type, bf16, 64, 64, 4) GK_MMA_KERNEL(type, bf16, 128, 64, 3) GK_MMA_KERNEL(type, bf16, 128, 128, 2)
GK_MMAS(f16, false)
GK_MMAS(bf16, true)
GK_MMAS(q8_0, false)
GK_MMAS(q4_0, false)
GK_MMAS(q4_k, false)
GK_MMAS(q6_k, false)

#endif
