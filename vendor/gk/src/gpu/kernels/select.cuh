// argmax and topk: one block per row; exact and independent of thread order.
#ifndef GK_GPU_SELECT_CUH
#define GK_GPU_SELECT_CUH

// A number that orders elements as gk.h requires: larger value first, then lower index; NaN below all values. Ranks are
// unique in a row.
GK_DEVICE unsigned long long rank_of(float value, unsigned int index) {
    unsigned int key = 0;
    if (value == value) {
        const unsigned int bits = float_to_bits(value == 0.0f ? 0.0f : value); // -0 and 0 are a tie
        key = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    }
    return (static_cast<unsigned long long>(key) << 32) | (0xffffffffu - index);
}

GK_DEVICE unsigned int index_of_rank(unsigned long long rank) { return 0xffffffffu - static_cast<unsigned int>(rank); }

GK_KERNEL(argmax, GK_GPU_SELECT_THREADS) {
    GK_SHARED(unsigned long long, best, GK_GPU_SELECT_THREADS);
    const unsigned int rows = active_rows(g);
    for (unsigned int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride;
        unsigned long long mine = 0;
        for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) {
            const unsigned long long rank = rank_of(in[i], i);
            if (rank > mine) mine = rank;
        }
        best[threadIdx.x] = mine;
        __syncthreads();
        for (unsigned int half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half && best[threadIdx.x + half] > best[threadIdx.x]) best[threadIdx.x] = best[threadIdx.x + half];
            __syncthreads();
        }
        if (threadIdx.x == 0) pointer<int>(g.dst)[row] = static_cast<int>(index_of_rank(best[0]));
        __syncthreads();
    }
}

// Finds the k-th largest rank digit by digit (8 bits a pass, from the top), gathers everything at or above it, and
// sorts that. Ranks are unique, so exactly k elements are gathered and their order in memory does not matter.
GK_KERNEL(topk, GK_GPU_SELECT_THREADS) {
    GK_SHARED(unsigned int, histogram, 256);
    GK_SHARED(unsigned long long, chosen, GK_GPU_TOPK_MOST);
    GK_SHARED_ONE(unsigned long long, prefix); // digits of the k-th rank found so far
    GK_SHARED_ONE(unsigned int, wanted);       // how many elements with this prefix are still needed
    GK_SHARED_ONE(unsigned int, gathered);
    const unsigned int rows = active_rows(g);
    for (unsigned int row = blockIdx.x; row < rows; row += gridDim.x) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride;
        if (threadIdx.x == 0) {
            prefix = 0;
            wanted = g.depth;
            gathered = 0;
        }
        for (unsigned int i = threadIdx.x; i < GK_GPU_TOPK_MOST; i += blockDim.x) chosen[i] = 0;
        for (int shift = 56; shift >= 0; shift -= 8) {
            for (unsigned int i = threadIdx.x; i < 256; i += blockDim.x) histogram[i] = 0;
            __syncthreads();
            const unsigned long long known = shift == 56 ? 0ull : ~0ull << (shift + 8);
            for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) {
                const unsigned long long rank = rank_of(in[i], i);
                if ((rank & known) == prefix) atomicAdd(&histogram[(rank >> shift) & 255], 1u);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                unsigned int digit = 255;
                while (digit > 0 && histogram[digit] < wanted) wanted -= histogram[digit--];
                prefix |= static_cast<unsigned long long>(digit) << shift;
            }
            __syncthreads();
        }
        for (unsigned int i = threadIdx.x; i < g.width; i += blockDim.x) {
            const unsigned long long rank = rank_of(in[i], i);
            if (rank >= prefix) {
                const unsigned int place = atomicAdd(&gathered, 1u);
                if (place < GK_GPU_TOPK_MOST) chosen[place] = rank;
            }
        }
        __syncthreads();
        // Bitonic sort, descending; unused places hold 0, below every rank.
        for (unsigned int size = 2; size <= GK_GPU_TOPK_MOST; size *= 2) {
            for (unsigned int distance = size / 2; distance > 0; distance /= 2) {
                for (unsigned int i = threadIdx.x; i < GK_GPU_TOPK_MOST; i += blockDim.x) {
                    const unsigned int other = i ^ distance;
                    if (other > i) {
                        const bool descending = (i & size) == 0;
                        const unsigned long long x = chosen[i], y = chosen[other];
                        if ((x < y) == descending) {
                            chosen[i] = y;
                            chosen[other] = x;
                        }
                    }
                }
                __syncthreads();
            }
        }
        for (unsigned int i = threadIdx.x; i < g.depth; i += blockDim.x) {
            const unsigned int index = index_of_rank(chosen[i]);
            pointer<int>(g.dst)[static_cast<size_t>(row) * g.dst_stride + i] = static_cast<int>(index);
            pointer<float>(g.c)[static_cast<size_t>(row) * g.c_stride + i] = in[index];
        }
        __syncthreads();
    }
}

#endif
