// topk, and argmax as its largest element: exact, and independent of the number of blocks and of the order of threads.
// Each block of topk_slices reads a slice of a row and keeps the largest ranks of it as a sorted list; the one block of
// topk_merge merges the lists of a row.
#ifndef GK_GPU_SELECT_CUH
#define GK_GPU_SELECT_CUH

// A number that orders elements as gk.h requires: larger value first, then lower index; NaN below all values. Ranks are
// unique in a row, and above 0.
GK_DEVICE unsigned long long rank_of(float value, unsigned int index) {
    unsigned int key = 0;
    if (value == value) {
        const unsigned int bits = float_to_bits(value == 0.0f ? 0.0f : value); // -0 and 0 are a tie
        key = (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
    }
    return (static_cast<unsigned long long>(key) << 32) | (0xffffffffu - index);
}

GK_DEVICE unsigned int index_of_rank(unsigned long long rank) { return 0xffffffffu - static_cast<unsigned int>(rank); }

// Exchanges ranks i and i ^ mask, for every i of `count` without the bit `distance`, so that the larger comes first. In every
// second sixteen, threads begin with i ^ mask: the 16 ranks that lanes access at once are then on different banks.
GK_DEVICE void order_pairs(unsigned long long *ranks, unsigned int count, unsigned int distance, unsigned int mask) {
    for (unsigned int pair = threadIdx.x; pair < count / 2; pair += blockDim.x) {
        const unsigned int low = 2 * pair - (pair & (distance - 1)), i = low ^ (low & 16 ? mask : 0), other = i ^ mask;
        const unsigned long long x = ranks[i], y = ranks[other];
        if ((x < y) == (i < other)) {
            ranks[i] = y;
            ranks[other] = x;
        }
    }
    __syncthreads();
}

// Sorts lists of `size` ranks each, descending. The size is a power of two, here and below.
GK_DEVICE void sort_lists(unsigned long long *ranks, unsigned int count, unsigned int size) {
    for (unsigned int sorted = 1; sorted < size; sorted *= 2) {
        order_pairs(ranks, count, sorted, 2 * sorted - 1);
        for (unsigned int distance = sorted / 2; distance > 0; distance /= 2) order_pairs(ranks, count, distance, distance);
    }
}

// Merges sorted lists into the first: it has the largest `size` ranks of all. The larger ones of a descending list and
// of another one backwards are the largest of both, and what a few exchanges sort.
GK_DEVICE void merge_lists(unsigned long long *ranks, unsigned int count, unsigned int size) {
    for (unsigned int lists = count / size; lists > 1;) {
        const unsigned int pairs = lists / 2;
        lists -= pairs;
        for (unsigned int i = threadIdx.x; i < pairs * size; i += blockDim.x) {
            const unsigned long long other = ranks[lists * size + (i ^ (size - 1))];
            if (other > ranks[i]) ranks[i] = other;
        }
        __syncthreads();
        for (unsigned int distance = size / 2; distance > 0; distance /= 2) order_pairs(ranks, pairs * size, distance, distance);
    }
}

GK_DEVICE void store_chosen(const gk_gpu_args &g, unsigned int row, const unsigned long long *ranks) {
    for (unsigned int i = threadIdx.x; i < g.depth; i += blockDim.x) {
        const unsigned int index = index_of_rank(ranks[i]);
        pointer<int>(g.dst)[static_cast<size_t>(row) * g.dst_stride + i] = static_cast<int>(index);
        if (g.c != 0) pointer<float>(g.c)[static_cast<size_t>(row) * g.c_stride + i] = pointer<const float>(g.a)[static_cast<size_t>(row) * g.a_stride + index];
    }
}

// grid: slices of a row, rows. A single slice needs no topk_merge.
GK_KERNEL(topk_slices, GK_GPU_SELECT_THREADS) {
    GK_SHARED(unsigned long long, ranks, GK_GPU_SELECT_TILE);
    const unsigned int rows = active_rows(g), size = g.list, begin = blockIdx.x * g.slice;
    const unsigned int length = g.width - begin < g.slice ? g.width - begin : g.slice;
    const unsigned int count = (length + size - 1) / size * size;
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float *in = pointer<const float>(g.a) + static_cast<size_t>(row) * g.a_stride + begin;
        for (unsigned int i = threadIdx.x; i < count; i += blockDim.x) ranks[i] = i < length ? rank_of(in[i], begin + i) : 0;
        __syncthreads();
        sort_lists(ranks, count, size);
        merge_lists(ranks, count, size);
        if (gridDim.x == 1) {
            store_chosen(g, row, ranks);
        } else {
            unsigned long long *list = pointer<unsigned long long>(g.aux) + (static_cast<size_t>(row) * gridDim.x + blockIdx.x) * size;
            for (unsigned int i = threadIdx.x; i < size; i += blockDim.x) list[i] = ranks[i];
        }
        // No barrier: a rank is only read here by the thread that replaces it for the next row.
    }
}

// grid: 1, rows.
GK_KERNEL(topk_merge, GK_GPU_SELECT_THREADS) {
    GK_SHARED(unsigned long long, ranks, GK_GPU_SELECT_TILE);
    const unsigned int rows = active_rows(g), size = g.list, count = g.splits * size;
    for (unsigned int row = blockIdx.y; row < rows; row += gridDim.y) {
        const unsigned long long *lists = pointer<const unsigned long long>(g.aux) + static_cast<size_t>(row) * count;
        unsigned int kept = 0; // the list that is merged from those before
        for (unsigned int begin = 0; begin < count;) {
            const unsigned int length = count - begin < GK_GPU_SELECT_TILE - kept ? count - begin : GK_GPU_SELECT_TILE - kept;
            for (unsigned int i = threadIdx.x; i < length; i += blockDim.x) ranks[kept + i] = lists[begin + i];
            __syncthreads();
            merge_lists(ranks, kept + length, size);
            begin += length;
            kept = size;
        }
        store_chosen(g, row, ranks); // no barrier, as above
    }
}

#endif
