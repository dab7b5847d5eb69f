// Causal attention over caches with the layout [kv head][position][d_head]. Few tokens: `split_*` uses several blocks
// per kv head, each for a part of the positions and all queries of the group, so that keys and values are read once;
// `split_merge` combines the parts in a fixed order. Many tokens: `attention_*` uses a block for a tile of queries of
// one head and walks tiles of keys in shared memory.
#ifndef GK_GPU_ATTENTION_CUH
#define GK_GPU_ATTENTION_CUH

GK_DEVICE float cache_value(float value) { return value; }
GK_DEVICE float cache_value(unsigned short bits) { return half_to_float(bits); }

// Scratch of one (token, head, split): maximum, sum, then d_head values.
GK_DEVICE float *split_place(const gk_gpu_args &g, unsigned int token, unsigned int head, unsigned int split) {
    const size_t index = (static_cast<size_t>(token) * g.n_head + head) * g.splits + split;
    return pointer<float>(g.aux) + index * (g.d_head + 2);
}

// Positions of one split. Depends on the current number of positions, so a long cache costs nothing while it is empty.
GK_DEVICE unsigned int split_length(const gk_gpu_args &g, unsigned int positions) {
    const unsigned int even = (positions + g.splits - 1) / g.splits;
    const unsigned int least = GK_GPU_SPLIT_LEAST;
    return even > least ? even : least;
}

// Combines the warps of a block and stores the result of its split. `values` holds SIZE elements for each warp and query.
template <int WARPS, int QUERIES, int SIZE>
GK_DEVICE void split_store(const gk_gpu_args &g, unsigned int token, unsigned int head0, unsigned int queries, const float *values,
                           const float *most, const float *sum) {
    for (unsigned int item = threadIdx.x; item < queries * g.d_head; item += blockDim.x) {
        const unsigned int q = item / g.d_head, element = item % g.d_head;
        float top = -INFINITY, total = 0.0f, result = 0.0f;
        for (unsigned int w = 0; w < WARPS; ++w) top = fmaxf(top, most[w * QUERIES + q]);
        for (unsigned int w = 0; w < WARPS; ++w) {
            const float part = most[w * QUERIES + q];
            const float factor = part == -INFINITY ? 0.0f : expf(part - top);
            total += factor * sum[w * QUERIES + q];
            result += factor * values[(w * QUERIES + q) * SIZE + element];
        }
        float *out = split_place(g, token, head0 + q, blockIdx.y);
        if (element == 0) {
            out[0] = top;
            out[1] = total;
        }
        out[2 + element] = result;
    }
}

// EACH consecutive elements of a head for this lane; zero past its end.
template <class T, int EACH> GK_DEVICE void load_part(const gk_gpu_args &g, const T *head, unsigned int lane, float *out) {
    const unsigned int first = lane * EACH;
    if (g.vector && first < g.d_head) { // d_head is a multiple of EACH, and rows are aligned to it
        struct alignas(sizeof(T) * EACH) part { T element[EACH]; };
        const part loaded = *reinterpret_cast<const part *>(head + first);
#pragma unroll
        for (int i = 0; i < EACH; ++i) out[i] = cache_value(loaded.element[i]);
    } else {
#pragma unroll
        for (int i = 0; i < EACH; ++i) out[i] = first + i < g.d_head ? cache_value(head[first + i]) : 0.0f;
    }
}

// grid: kv heads, splits, tokens x groups of QUERIES. SIZE: d_head <= SIZE.
template <class T, int QUERIES, int SIZE> GK_DEVICE void attention_split(const gk_gpu_args &g) {
    enum { EACH = (SIZE + GK_WARP - 1) / GK_WARP, WARPS = GK_GPU_ATTENTION_THREADS / GK_WARP };
    enum { FLIGHT = QUERIES * EACH <= 16 ? 4 : 2 }; // positions of a warp whose keys and values are read at once
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
    const unsigned int lane = threadIdx.x % GK_WARP, warp = threadIdx.x / GK_WARP;
    const unsigned int head0 = blockIdx.x * group + query0;
    const unsigned int queries = group - query0 < QUERIES ? group - query0 : QUERIES;

    float query[QUERIES][EACH], value[QUERIES][EACH], most[QUERIES], sum[QUERIES];
#pragma unroll
    for (int q = 0; q < QUERIES; ++q) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(token) * g.a_stride +
                          static_cast<size_t>(head0 + q) * g.d_head;
        most[q] = -INFINITY;
        sum[q] = 0.0f;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const unsigned int element = lane * EACH + i;
            query[q][i] = static_cast<unsigned int>(q) < queries && element < g.d_head ? in[element] * g.scale : 0.0f;
            value[q][i] = 0.0f;
        }
    }
    const T *keys = pointer<const T>(g.b) + static_cast<size_t>(blockIdx.x) * g.n_ctx * g.d_head;
    const T *values = pointer<const T>(g.c) + static_cast<size_t>(blockIdx.x) * g.n_ctx * g.d_head;
    for (unsigned int p = begin + warp * FLIGHT; p < end; p += WARPS * FLIGHT) {
        float key[FLIGHT][EACH], add[FLIGHT][EACH];
#pragma unroll
        for (int n = 0; n < FLIGHT; ++n) { // past the end, the last position, which then has no weight
            const size_t at = static_cast<size_t>(p + n < end ? p + n : end - 1) * g.d_head;
            load_part<T, EACH>(g, keys + at, lane, key[n]);
            load_part<T, EACH>(g, values + at, lane, add[n]);
        }
#pragma unroll
        for (int q = 0; q < QUERIES; ++q) {
            float score[FLIGHT], now = most[q];
#pragma unroll
            for (int n = 0; n < FLIGHT; ++n) {
                score[n] = 0.0f;
#pragma unroll
                for (int i = 0; i < EACH; ++i) score[n] += query[q][i] * key[n][i];
            }
            for (int mask = GK_WARP / 2; mask > 0; mask >>= 1) { // the sums of all positions together
#pragma unroll
                for (int n = 0; n < FLIGHT; ++n) score[n] += shuffle_xor(score[n], mask);
            }
#pragma unroll
            for (int n = 0; n < FLIGHT; ++n) {
                if (p + n >= end) score[n] = -INFINITY;
                now = fmaxf(now, score[n]);
            }
            // Both are -inf only while every score was: there is nothing to add yet.
            const float keep = now == -INFINITY ? 1.0f : expf(most[q] - now);
            most[q] = now;
            sum[q] *= keep;
#pragma unroll
            for (int i = 0; i < EACH; ++i) value[q][i] *= keep;
#pragma unroll
            for (int n = 0; n < FLIGHT; ++n) {
                const float weight = score[n] == -INFINITY ? 0.0f : expf(score[n] - now);
                sum[q] += weight;
#pragma unroll
                for (int i = 0; i < EACH; ++i) value[q][i] += weight * add[n][i];
            }
        }
    }
#pragma unroll
    for (int q = 0; q < QUERIES; ++q) {
        if (lane == 0) {
            shared_most[warp * QUERIES + q] = most[q];
            shared_sum[warp * QUERIES + q] = sum[q];
        }
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const unsigned int element = lane * EACH + i;
            if (element < SIZE) shared_value[(warp * QUERIES + q) * SIZE + element] = value[q][i];
        }
    }
    __syncthreads();
    split_store<WARPS, QUERIES, SIZE>(g, token, head0, queries, shared_value, shared_most, shared_sum);
}

#define GK_SPLIT(name, type, queries, size) \
    GK_KERNEL(split_##name##_##queries##_##size, GK_GPU_ATTENTION_THREADS) { attention_split<type, queries, size>(g); }
#define GK_SPLITS(name, type, queries) \
    GK_SPLIT(name, type, queries, 64) GK_SPLIT(name, type, queries, 128) GK_SPLIT(name, type, queries, 256)
#define GK_ALL_SPLITS(name, type) \
    GK_SPLITS(name, type, 1) GK_SPLITS(name, type, 2) GK_SPLITS(name, type, 4) GK_SPLITS(name, type, 8)
GK_ALL_SPLITS(f32, float)
GK_ALL_SPLITS(f16, unsigned short)

// grid: heads, tokens.
GK_KERNEL(split_merge, GK_GPU_ATTENTION_THREADS) {
    const unsigned int head = blockIdx.x, token = blockIdx.y;
    if (token >= active_rows(g)) return;
    const unsigned int positions = position(g) + token + 1;
    const unsigned int length = split_length(g, positions);
    const unsigned int splits = (positions + length - 1) / length;
    GK_SHARED(float, factor, GK_GPU_SPLITS_MOST);
    float top = -INFINITY;
    for (unsigned int split = threadIdx.x; split < splits; split += blockDim.x) {
        factor[split] = split_place(g, token, head, split)[0];
    }
    __syncthreads();
    for (unsigned int split = 0; split < splits; ++split) top = fmaxf(top, factor[split]);
    __syncthreads();
    for (unsigned int split = threadIdx.x; split < splits; split += blockDim.x) {
        factor[split] = factor[split] == -INFINITY ? 0.0f : expf(factor[split] - top);
    }
    __syncthreads();
    float *out = pointer<float>(g.dst) + static_cast<size_t>(token) * g.dst_stride + static_cast<size_t>(head) * g.d_head;
    for (unsigned int element = threadIdx.x; element < g.d_head; element += blockDim.x) {
        float total = 0.0f, result = 0.0f;
#pragma unroll 16
        for (unsigned int split = 0; split < splits; ++split) {
            const float *part = split_place(g, token, head, split);
            total += factor[split] * part[1];
            result += factor[split] * part[2 + element];
        }
        out[element] = result / total;
    }
}

// grid: heads, tiles of TILE tokens. Four threads share a query when TILE is 32, eight when it is 16.
template <class T, int SIZE, int TILE> GK_DEVICE void attention_tile(const gk_gpu_args &g) {
    enum { SHARE = GK_GPU_ATTENTION_THREADS / TILE, PITCH = SIZE + 1, OWN = SIZE / SHARE, SCORES = TILE / SHARE };
    GK_SHARED(float, shared_query, TILE * PITCH);
    GK_SHARED(float, shared_cache, TILE * PITCH); // keys, then values, of one tile of positions
    GK_SHARED(float, shared_score, TILE * (TILE + 1));
    const unsigned int rows = active_rows(g);
    const unsigned int head = blockIdx.x, token0 = blockIdx.y * TILE;
    if (token0 >= rows) return; // applies to the whole block
    const unsigned int mine = threadIdx.x / SHARE, part = threadIdx.x % SHARE;
    const unsigned int token = token0 + mine;
    const size_t kv = head / (g.n_head / g.n_head_kv);
    const T *keys = pointer<const T>(g.b) + kv * g.n_ctx * g.d_head;
    const T *values = pointer<const T>(g.c) + kv * g.n_ctx * g.d_head;
    const unsigned int last = (token0 + TILE < rows ? token0 + TILE : rows) - 1; // of this tile
    const unsigned int positions = position(g) + last + 1;
    const unsigned int visible = position(g) + token; // the last position that this thread's query sees

    for (unsigned int item = threadIdx.x; item < TILE * g.d_head; item += blockDim.x) {
        const unsigned int q = item / g.d_head, element = item % g.d_head;
        const size_t at = static_cast<size_t>(token0 + q) * g.a_stride + static_cast<size_t>(head) * g.d_head + element;
        shared_query[q * PITCH + element] = token0 + q < rows ? pointer<const float>(g.a)[at] * g.scale : 0.0f;
    }
    float most = -INFINITY, sum = 0.0f, value[OWN];
#pragma unroll
    for (int i = 0; i < OWN; ++i) value[i] = 0.0f;

    for (unsigned int p0 = 0; p0 < positions; p0 += TILE) {
        __syncthreads(); // the values of the tile before are no longer read
        for (unsigned int item = threadIdx.x; item < TILE * g.d_head; item += blockDim.x) {
            const unsigned int p = item / g.d_head, element = item % g.d_head;
            shared_cache[p * PITCH + element] =
                p0 + p < positions ? cache_value(keys[static_cast<size_t>(p0 + p) * g.d_head + element]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SCORES; ++i) {
            const unsigned int p = part + i * SHARE;
            float score = 0.0f;
            for (unsigned int element = 0; element < g.d_head; ++element)
                score += shared_query[mine * PITCH + element] * shared_cache[p * PITCH + element];
            shared_score[mine * (TILE + 1) + p] = p0 + p <= visible ? score : -INFINITY;
        }
        __syncthreads(); // scores are complete, keys no longer read
        for (unsigned int item = threadIdx.x; item < TILE * g.d_head; item += blockDim.x) {
            const unsigned int p = item / g.d_head, element = item % g.d_head;
            shared_cache[p * PITCH + element] =
                p0 + p < positions ? cache_value(values[static_cast<size_t>(p0 + p) * g.d_head + element]) : 0.0f;
        }
        float now = most;
        for (unsigned int p = 0; p < TILE; ++p) now = fmaxf(now, shared_score[mine * (TILE + 1) + p]);
        const float keep = now == -INFINITY ? 1.0f : expf(most - now);
        most = now;
        sum *= keep;
#pragma unroll
        for (int i = 0; i < OWN; ++i) value[i] *= keep;
        __syncthreads();
        for (unsigned int p = 0; p < TILE; ++p) {
            const float score = shared_score[mine * (TILE + 1) + p];
            const float weight = score == -INFINITY ? 0.0f : expf(score - now);
            sum += weight;
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                // Elements past d_head are never stored; the shared memory that they read may hold anything.
                const unsigned int element = part + i * SHARE;
                if (element < g.d_head) value[i] += weight * shared_cache[p * PITCH + element];
            }
        }
    }
    if (token < rows) {
        float *out = pointer<float>(g.dst) + static_cast<size_t>(token) * g.dst_stride + static_cast<size_t>(head) * g.d_head;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const unsigned int element = part + i * SHARE;
            if (element < g.d_head) out[element] = value[i] / sum;
        }
    }
}
GK_KERNEL(attention_f32_128, GK_GPU_ATTENTION_THREADS) { attention_tile<float, 128, 32>(g); }
GK_KERNEL(attention_f32_256, GK_GPU_ATTENTION_THREADS) { attention_tile<float, 256, 16>(g); }
GK_KERNEL(attention_f16_128, GK_GPU_ATTENTION_THREADS) { attention_tile<unsigned short, 128, 32>(g); }
GK_KERNEL(attention_f16_256, GK_GPU_ATTENTION_THREADS) { attention_tile<unsigned short, 256, 16>(g); }

#endif
