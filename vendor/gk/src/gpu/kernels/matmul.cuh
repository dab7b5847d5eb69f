// matmul: dst[t][r] = sum_k weight[r][k] * x[t][k], in f32.
// `matvec` reads every weight once and keeps a few tokens in registers: decode and short prompts, bound by memory.
// `matmul_tile` computes 64 x 64 outputs per block from shared memory: longer prompts.
#ifndef GK_GPU_MATMUL_CUH
#define GK_GPU_MATMUL_CUH

// A weight type: STEP elements are one 16-byte load of a lane. `scale` is the factor of the block that element k lies in.
// `load4` is for a k that is a multiple of 4 in an aligned row: its elements never leave a block.
struct weight_of_f32 {
    enum { STEP = 4 };
    static __device__ __forceinline__ const char *row(const gk_gpu_args &g, size_t r) {
        return pointer<const char>(g.a) + r * g.depth * 4;
    }
    static __device__ __forceinline__ float scale(const gk_gpu_args &, size_t, unsigned int) { return 1.0f; }
    static __device__ __forceinline__ void load(const char *row, unsigned int k, float *out) {
        const uint4 bits = load_stream(row + static_cast<size_t>(k) * 4);
        out[0] = bits_to_float(bits.x);
        out[1] = bits_to_float(bits.y);
        out[2] = bits_to_float(bits.z);
        out[3] = bits_to_float(bits.w);
    }
    static __device__ __forceinline__ void load4(const char *row, unsigned int k, float *out) {
        const float4 values = *reinterpret_cast<const float4 *>(row + static_cast<size_t>(k) * 4);
        out[0] = values.x;
        out[1] = values.y;
        out[2] = values.z;
        out[3] = values.w;
    }
    static __device__ __forceinline__ float one(const char *row, unsigned int k) {
        return reinterpret_cast<const float *>(row)[k];
    }
};

struct weight_of_f16 {
    enum { STEP = 8 };
    static __device__ __forceinline__ const char *row(const gk_gpu_args &g, size_t r) {
        return pointer<const char>(g.a) + r * g.depth * 2;
    }
    static __device__ __forceinline__ float scale(const gk_gpu_args &, size_t, unsigned int) { return 1.0f; }
    static __device__ __forceinline__ void load(const char *row, unsigned int k, float *out) {
        const uint4 bits = load_stream(row + static_cast<size_t>(k) * 2);
        const unsigned int words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            out[2 * i] = half_to_float(static_cast<unsigned short>(words[i] & 0xffffu));
            out[2 * i + 1] = half_to_float(static_cast<unsigned short>(words[i] >> 16));
        }
    }
    static __device__ __forceinline__ void load4(const char *row, unsigned int k, float *out) {
        const uint2 bits = *reinterpret_cast<const uint2 *>(row + static_cast<size_t>(k) * 2);
        out[0] = half_to_float(static_cast<unsigned short>(bits.x & 0xffffu));
        out[1] = half_to_float(static_cast<unsigned short>(bits.x >> 16));
        out[2] = half_to_float(static_cast<unsigned short>(bits.y & 0xffffu));
        out[3] = half_to_float(static_cast<unsigned short>(bits.y >> 16));
    }
    static __device__ __forceinline__ float one(const char *row, unsigned int k) {
        return half_to_float(reinterpret_cast<const unsigned short *>(row)[k]);
    }
};

// Two planes: a byte (quant + 128) per element, and at aux an f16 scale per 32.
struct weight_of_q8 {
    enum { STEP = 16 };
    static __device__ __forceinline__ const char *row(const gk_gpu_args &g, size_t r) {
        return pointer<const char>(g.a) + r * g.depth;
    }
    static __device__ __forceinline__ float scale(const gk_gpu_args &g, size_t r, unsigned int k) {
        return half_to_float(pointer<const unsigned short>(g.aux)[r * (g.depth / 32) + k / 32]);
    }
    static __device__ __forceinline__ void load(const char *row, unsigned int k, float *out) {
        const uint4 bits = load_stream(row + k);
        const unsigned int words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 16; ++i) out[i] = quant_to_float(words[i / 4], i % 4);
    }
    static __device__ __forceinline__ void load4(const char *row, unsigned int k, float *out) {
        const unsigned int word = *reinterpret_cast<const unsigned int *>(row + k);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = quant_to_float(word, i);
    }
    static __device__ __forceinline__ float one(const char *row, unsigned int k) {
        return static_cast<float>(static_cast<int>(reinterpret_cast<const unsigned char *>(row)[k]) - 128);
    }
};

// Bias and the value that is added to, then the one store of an output.
GK_DEVICE void store_output(const gk_gpu_args &g, unsigned int r, unsigned int t, float value) {
    if (g.flags & GK_BIAS) value += pointer<const float>(g.c)[r];
    float *out = pointer<float>(g.dst) + static_cast<size_t>(t) * g.dst_stride + r;
    *out = (g.flags & GK_ACCUMULATE) ? *out + value : value;
}

// A warp computes ROWS outputs for COLUMNS tokens; lanes split k.
template <class W, int ROWS, int COLUMNS> GK_DEVICE void matvec(const gk_gpu_args &g) {
    const unsigned int used = active_rows(g);
    const bool last = (g.flags & GK_LAST_ROW) != 0;
    const unsigned int column = last ? tokens(g) - 1 : blockIdx.y * COLUMNS;
    const unsigned int end = last ? tokens(g) : used;
    const unsigned int lane = threadIdx.x % GK_WARP;
    const unsigned int warp = blockIdx.x * (blockDim.x / GK_WARP) + threadIdx.x / GK_WARP;
    const unsigned int first = warp * ROWS;
    if (column >= end || first >= g.width) return; // the same for all lanes of a warp

    const char *row[ROWS];
    unsigned int number[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        number[r] = first + r < g.width ? first + r : g.width - 1;
        row[r] = W::row(g, number[r]);
    }
    const float *x[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const unsigned int t = column + c < end ? column + c : end - 1;
        x[c] = pointer<const float>(g.b) + static_cast<size_t>(t) * g.b_stride;
    }
    float sum[ROWS][COLUMNS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sum[r][c] = 0.0f;

    const unsigned int whole = g.vector ? g.depth - g.depth % W::STEP : 0;
    for (unsigned int k = lane * W::STEP; k < whole; k += GK_WARP * W::STEP) {
        float weight[ROWS][W::STEP];
        float scale[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            W::load(row[r], k, weight[r]);
            scale[r] = W::scale(g, number[r], k);
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            float part[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) part[r] = 0.0f;
#pragma unroll
            for (int i = 0; i < W::STEP; i += 4) {
                const float4 v = *reinterpret_cast<const float4 *>(x[c] + k + i);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    part[r] += weight[r][i] * v.x;
                    part[r] += weight[r][i + 1] * v.y;
                    part[r] += weight[r][i + 2] * v.z;
                    part[r] += weight[r][i + 3] * v.w;
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) sum[r][c] += scale[r] * part[r];
        }
    }
    for (unsigned int k = whole + lane; k < g.depth; k += GK_WARP) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const float weight = W::scale(g, number[r], k) * W::one(row[r], k);
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c) sum[r][c] += weight * x[c][k];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
            const float value = warp_sum(sum[r][c]);
            if (lane == 0 && first + r < g.width && column + c < end)
                store_output(g, first + r, last ? 0 : column + c, value);
        }
    }
}

#define GK_MATVEC(type, is_q8, columns) \
    GK_KERNEL(matvec_##type##_##columns, GK_GPU_MATVEC_THREADS) { \
        matvec<weight_of_##type, static_cast<int>(GK_GPU_MATVEC_ROWS(is_q8, columns)), columns>(g); \
    }
#define GK_MATVECS(type, is_q8) \
    GK_MATVEC(type, is_q8, 1) GK_MATVEC(type, is_q8, 2) GK_MATVEC(type, is_q8, 4) GK_MATVEC(type, is_q8, 8)
GK_MATVECS(f32, 0)
GK_MATVECS(f16, 0)
GK_MATVECS(q8, 1)

// 256 threads as 16 x 16, each with 4 x 4 outputs; 16 elements of k at a time. Thread x walks n_out, so that stores
// of neighbours are neighbours.
template <class W> GK_DEVICE void matmul_tile(const gk_gpu_args &g) {
    enum { TILE = GK_GPU_TILE, DEPTH = 16, PITCH = TILE + 4 };
    alignas(16) __shared__ float weights[DEPTH * PITCH]; // read as float4
    alignas(16) __shared__ float inputs[DEPTH * PITCH];
    const unsigned int used = active_rows(g);
    const unsigned int row0 = blockIdx.x * TILE, token0 = blockIdx.y * TILE;
    if (token0 >= used) return; // the whole block
    const unsigned int load_line = threadIdx.x / 4, load_k = (threadIdx.x % 4) * 4;
    const unsigned int out_row = (threadIdx.x % 16) * 4, out_token = (threadIdx.x / 16) * 4;
    const bool row_there = row0 + load_line < g.width, token_there = token0 + load_line < used;
    const size_t number = row_there ? row0 + load_line : 0;
    const char *row = W::row(g, number);
    const float *x = pointer<const float>(g.b) + static_cast<size_t>(token_there ? token0 + load_line : 0) * g.b_stride;

    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = 0.0f;

    for (unsigned int k0 = 0; k0 < g.depth; k0 += DEPTH) {
        const unsigned int k1 = k0 + load_k; // this thread brings four elements of a weight row and of a token
        const float scale = k1 < g.depth ? W::scale(g, number, k1) : 0.0f;
        float weight[4], input[4];
        if (g.vector && k1 < g.depth) {
            const float4 values = *reinterpret_cast<const float4 *>(x + k1);
            W::load4(row, k1, weight);
            input[0] = values.x;
            input[1] = values.y;
            input[2] = values.z;
            input[3] = values.w;
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                weight[i] = k1 + i < g.depth ? W::one(row, k1 + i) : 0.0f;
                input[i] = k1 + i < g.depth ? x[k1 + i] : 0.0f;
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            weights[(load_k + i) * PITCH + load_line] = row_there ? scale * weight[i] : 0.0f;
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
GK_KERNEL(matmul_tile_f32, GK_GPU_THREADS) { matmul_tile<weight_of_f32>(g); }
GK_KERNEL(matmul_tile_f16, GK_GPU_THREADS) { matmul_tile<weight_of_f16>(g); }
GK_KERNEL(matmul_tile_q8, GK_GPU_THREADS) { matmul_tile<weight_of_q8>(g); }

#endif
