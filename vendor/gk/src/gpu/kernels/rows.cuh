// Kernels on elements or whole rows: embed, rmsnorm, rope, kv_write, activations, copy, softmax, step.
#ifndef GK_GPU_ROWS_CUH
#define GK_GPU_ROWS_CUH

GK_KERNEL(describe, GK_WARP) {
    if (threadIdx.x != 0) return;
    gk_gpu_description *out = pointer<gk_gpu_description>(g.dst);
    out->magic = GK_GPU_MAGIC;
    out->args_bytes = sizeof(gk_gpu_args);
    out->warp = GK_WARP;
    out->features = (GK_DOT ? GK_GPU_HAS_DOT : 0) | (GK_MMA ? GK_GPU_HAS_MMA : 0) | (GK_OVERLAP ? GK_GPU_HAS_OVERLAP : 0) |
                    (GK_MMA == GK_MMA_NVIDIA ? GK_GPU_HAS_SPLIT_MMA : 0) | (GK_MMA != GK_MMA_RDNA3 ? GK_GPU_HAS_WIDE_MMA : 0);
}

// The step is a kernel argument, so no copy has to stay alive.
GK_KERNEL(set_step, GK_WARP) {
    if (threadIdx.x != 0) return;
    gk_step *step = pointer<gk_step>(g.step); // field by field: hipcc copies a whole structure through scratch memory
    step->n_tok = g.start.n_tok;
    step->pos = g.start.pos;
    step->run = g.start.run;
    step->reserved = 0;
}

GK_KERNEL(next_step, GK_WARP) {
    if (threadIdx.x != 0) return;
    gk_step *step = pointer<gk_step>(g.step);
    const int id = pointer<const int>(g.a)[0];
    pointer<int>(g.b)[0] = id;
    if (g.dst != 0 && step->run < g.depth) pointer<int>(g.dst)[step->run] = id;
    step->pos += step->n_tok;
    step->run += 1;
}

// Loops over the elements of one row for this thread: grid.x covers a row, grid.y the rows.
#define GK_FOR_ELEMENTS(row, column, row_count) \
    for (unsigned int row = blockIdx.y; row < (row_count); row += gridDim.y) \
        for (unsigned int column = blockIdx.x * blockDim.x + threadIdx.x; column < g.width; \
             column += gridDim.x * blockDim.x)

#define GK_EMBED(type, is_block) \
    GK_KERNEL(embed_##type, GK_GPU_THREADS) { \
        const unsigned int rows = active_rows(g); \
        GK_FOR_ELEMENTS(row, column, rows) { \
            const int id = pointer<const int>(g.b)[row]; \
            const bool known = id >= 0 && static_cast<unsigned int>(id) < g.depth; \
            pointer<float>(g.dst)[static_cast<size_t>(row) * g.dst_stride + column] = \
                known ? weight_of_##type::one(place_of(g, g.a), static_cast<size_t>(id) * g.width + column) : 0.0f; \
        } \
    }
GK_GPU_WEIGHTS(GK_EMBED)

GK_KERNEL(rmsnorm, GK_GPU_THREADS) {
    enum { KEPT = 16 };
    GK_SHARED(float, shared, GK_GPU_THREADS / 32);
    const unsigned int rows = active_rows(g);
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const size_t first = static_cast<size_t>(blockIdx.x) * g.depth;
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride + first;
        float *out = pointer<float>(g.dst) + static_cast<size_t>(row) * g.dst_stride + first;
        const float *weight = pointer<const float>(g.b);
        // A thread keeps its first elements and their weights: the second loop then waits for no memory.
        float kept[KEPT], factors[KEPT], sum = 0.0f;
#pragma unroll
        for (int n = 0; n < KEPT; ++n) {
            const unsigned int i = n * blockDim.x + threadIdx.x;
            kept[n] = i < g.depth ? in[i] : 0.0f;
            factors[n] = i < g.depth ? weight[i] : 0.0f;
        }
#pragma unroll
        for (int n = 0; n < KEPT; ++n) sum += kept[n] * kept[n];
        for (unsigned int i = KEPT * blockDim.x + threadIdx.x; i < g.depth; i += blockDim.x) sum += in[i] * in[i];
        sum = block_sum(sum, shared);
        const float factor = 1.0f / sqrtf(sum / static_cast<float>(g.depth) + g.scale);
#pragma unroll
        for (int n = 0; n < KEPT; ++n) {
            const unsigned int i = n * blockDim.x + threadIdx.x;
            if (i < g.depth) out[i] = kept[n] * factor * factors[n];
        }
        for (unsigned int i = KEPT * blockDim.x + threadIdx.x; i < g.depth; i += blockDim.x) out[i] = in[i] * factor * weight[i];
    }
}

// Index of a pair in its head, and distance to its second element.
GK_DEVICE unsigned int pair_at(const gk_gpu_args &g, unsigned int i) { return (g.flags & GK_NEOX) ? i : 2 * i; }
GK_DEVICE unsigned int pair_span(const gk_gpu_args &g, unsigned int pairs) { return (g.flags & GK_NEOX) ? pairs : 1; }

// Items of one head: its pairs, then the elements that are only copied. One thread handles an item, so dst may be a.
GK_DEVICE unsigned int rope_items(const gk_gpu_args &g) { return g.d_head - g.n_rot / 2; }

GK_DEVICE void rope_item(const gk_gpu_args &g, const float *table, const float *in, float *out, unsigned int item) {
    const unsigned int pairs = g.n_rot / 2, head = item / rope_items(g) * g.d_head, i = item % rope_items(g);
    if (i >= pairs) {
        out[head + pairs + i] = in[head + pairs + i];
        return;
    }
    const unsigned int first = head + pair_at(g, i), second = first + pair_span(g, pairs);
    const float cosine = table[2 * i], sine = table[2 * i + 1];
    const float x = in[first], y = in[second];
    out[first] = x * cosine - y * sine;
    out[second] = x * sine + y * cosine;
}

GK_KERNEL(rope, GK_GPU_THREADS) {
    const unsigned int rows = active_rows(g);
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride;
        float *out = pointer<float>(g.dst) + static_cast<size_t>(row) * g.dst_stride;
        const float *table = pointer<const float>(g.b) + static_cast<size_t>(position(g) + row) * g.b_stride;
        for (unsigned int item = blockIdx.x * blockDim.x + threadIdx.x; item < g.n_head * rope_items(g); item += gridDim.x * blockDim.x)
            rope_item(g, table, in, out, item);
    }
}

GK_DEVICE void store_element(float *to, float value) { *to = value; }
GK_DEVICE void store_element(unsigned short *to, float value) { *to = float_to_half(value); }

// The cache layout is [kv head][position][d_head]: attention reads one head sequentially.
template <class T> GK_DEVICE void kv_write(const gk_gpu_args &g) {
    const unsigned int rows = active_rows(g);
    GK_FOR_ELEMENTS(row, column, rows) {
        const unsigned int where = position(g) + row;
        if (where >= g.n_ctx) continue;
        const size_t head = column / g.d_head;
        const size_t to = (head * g.n_ctx + where) * g.d_head + column % g.d_head;
        store_element(pointer<T>(g.dst) + to, pointer<const float>(g.a)[static_cast<size_t>(row) * g.a_stride + column]);
        store_element(pointer<T>(g.c) + to, pointer<const float>(g.b)[static_cast<size_t>(row) * g.b_stride + column]);
    }
}
GK_KERNEL(kv_write_f32, GK_GPU_THREADS) { kv_write<float>(g); }
GK_KERNEL(kv_write_f16, GK_GPU_THREADS) { kv_write<unsigned short>(g); }

// rope and kv_write: a thread stores a rotated pair of the keys and the same two values, or one element of each.
template <class T>
GK_DEVICE void rope_kv_item(const gk_gpu_args &g, const float *table, unsigned int row, unsigned int where, unsigned int item) {
    const unsigned int pairs = g.n_rot / 2, head = item / rope_items(g), i = item % rope_items(g);
    const size_t to = (static_cast<size_t>(head) * g.n_ctx + where) * g.d_head;
    const float *key = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride + head * g.d_head;
    const float *value = pointer<const float>(g.b) + static_cast<size_t>(row) * g.b_stride + head * g.d_head;
    T *keys = pointer<T>(g.dst) + to, *values = pointer<T>(g.c) + to;
    if (i >= pairs) {
        store_element(keys + pairs + i, key[pairs + i]);
        store_element(values + pairs + i, value[pairs + i]);
        return;
    }
    const unsigned int first = pair_at(g, i), second = first + pair_span(g, pairs);
    const float cosine = table[2 * i], sine = table[2 * i + 1];
    const float x = key[first], y = key[second];
    store_element(keys + first, x * cosine - y * sine);
    store_element(keys + second, x * sine + y * cosine);
    store_element(values + first, value[first]);
    store_element(values + second, value[second]);
}

// After the items of the keys, those of the queries if beside[0] has them.
template <class T> GK_DEVICE void rope_kv(const gk_gpu_args &g) {
    const unsigned int rows = active_rows(g), own = g.n_head_kv * rope_items(g), all = own + g.beside[0].width / g.d_head * rope_items(g);
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const unsigned int where = position(g) + row;
        if (where >= g.n_ctx) continue;
        const float *table = pointer<const float>(g.d) + static_cast<size_t>(where) * g.d_stride;
        const float *query = pointer<const float>(g.beside[0].a) + static_cast<size_t>(row) * g.beside[0].a_stride;
        float *rotated = pointer<float>(g.beside[0].dst) + static_cast<size_t>(row) * g.beside[0].dst_stride;
        for (unsigned int item = blockIdx.x * blockDim.x + threadIdx.x; item < all; item += gridDim.x * blockDim.x) {
            if (item < own) rope_kv_item<T>(g, table, row, where, item);
            else rope_item(g, table, query, rotated, item - own);
        }
    }
}
GK_KERNEL(rope_kv_f32, GK_GPU_THREADS) { rope_kv<float>(g); }
GK_KERNEL(rope_kv_f16, GK_GPU_THREADS) { rope_kv<unsigned short>(g); }

GK_DEVICE float silu_of(float x) { return x / (1.0f + expf(-x)); }

// dst = expression of x (from a) and y (from b, with stride 0 if one row serves all), four at a time if `vector` is set.
#define GK_ELEMENTWISE(name, expression) \
    GK_DEVICE float name##_of(float x, float y) { return expression; } \
    GK_KERNEL(name, GK_GPU_THREADS) { \
        const unsigned int rows = active_rows(g); \
        if (g.vector) { \
            for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) { \
                const float4 *a = reinterpret_cast<const float4 *>(pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride); \
                const float4 *b = reinterpret_cast<const float4 *>(pointer<const float>(g.b) + static_cast<size_t>(row) * g.b_stride); \
                float4 *out = reinterpret_cast<float4 *>(pointer<float>(g.dst) + static_cast<size_t>(row) * g.dst_stride); \
                for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < g.width / 4; i += gridDim.x * blockDim.x) { \
                    const float4 x = a[i], y = b[i]; \
                    out[i] = float4{name##_of(x.x, y.x), name##_of(x.y, y.y), name##_of(x.z, y.z), name##_of(x.w, y.w)}; \
                } \
            } \
            return; \
        } \
        GK_FOR_ELEMENTS(row, column, rows) { \
            const float x = pointer<const float>(g.a)[static_cast<size_t>(row) * g.a_stride + column]; \
            const float y = pointer<const float>(g.b)[static_cast<size_t>(row) * g.b_stride + column]; \
            pointer<float>(g.dst)[static_cast<size_t>(row) * g.dst_stride + column] = name##_of(x, y); \
        } \
    }
GK_ELEMENTWISE(swiglu, silu_of(x) * y)
GK_ELEMENTWISE(add, x + y)
GK_ELEMENTWISE(mul, x * y)

GK_KERNEL(silu, GK_GPU_THREADS) {
    const unsigned int rows = active_rows(g);
    GK_FOR_ELEMENTS(row, column, rows) {
        const float x = pointer<const float>(g.a)[static_cast<size_t>(row) * g.a_stride + column];
        pointer<float>(g.dst)[static_cast<size_t>(row) * g.dst_stride + column] = silu_of(x);
    }
}

// Copies every row of the plan: the operands need not be activations.
#define GK_COPY(name, from, to, convert) \
    GK_KERNEL(name, GK_GPU_THREADS) { \
        GK_FOR_ELEMENTS(row, column, g.rows) { \
            pointer<to>(g.dst)[static_cast<size_t>(row) * g.dst_stride + column] = \
                convert(pointer<const from>(g.a)[static_cast<size_t>(row) * g.a_stride + column]); \
        } \
    }
// With 16-byte accesses if `vector` is set: then the width is a multiple of 4, and the rows are aligned.
GK_KERNEL(copy_f32_f32, GK_GPU_THREADS) {
    if (!g.vector) {
        GK_FOR_ELEMENTS(row, column, g.rows)
            pointer<float>(g.dst)[static_cast<size_t>(row) * g.dst_stride + column] = pointer<const float>(g.a)[static_cast<size_t>(row) * g.a_stride + column];
        return;
    }
    for (unsigned int row = blockIdx.y; row < g.rows; row += gridDim.y) {
        const float4 *in = reinterpret_cast<const float4 *>(pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride);
        float4 *out = reinterpret_cast<float4 *>(pointer<float>(g.dst) + static_cast<size_t>(row) * g.dst_stride);
        for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < g.width / 4; i += gridDim.x * blockDim.x) out[i] = in[i];
    }
}
GK_COPY(copy_f32_f16, float, unsigned short, float_to_half)
GK_COPY(copy_f16_f32, unsigned short, float, half_to_float)
GK_COPY(copy_f16_f16, unsigned short, unsigned short, static_cast<unsigned short>)

GK_KERNEL(softmax, GK_GPU_THREADS) {
    GK_SHARED(float, shared, GK_GPU_THREADS / 32);
    const unsigned int rows = active_rows(g);
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride;
        float *out = pointer<float>(g.dst) + static_cast<size_t>(row) * g.dst_stride;
        float most = -INFINITY;
        for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) most = fmaxf(most, g.scale * in[i]);
        most = block_max(most, shared);
        float sum = 0.0f;
        for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) sum += expf(g.scale * in[i] - most);
        sum = block_sum(sum, shared);
        for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) out[i] = expf(g.scale * in[i] - most) / sum;
    }
}

#endif
