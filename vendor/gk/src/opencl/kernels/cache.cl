// The layout of the KV cache, used only by kv_write.cl and attention.cl:
//   values: [kv head][position][d_head]
//   keys:   [kv head][tile of 32 positions][d_head / VECTOR][position in the tile][VECTOR]
// so that 32 neighbouring work-items, one position each, read neighbouring words of the keys. The last tile is only as
// wide as n_ctx needs: the cache takes no more memory than its elements.
#define CACHE_TYPE S0
#define VECTOR S1
#define TILE 32u

// Index of element i (a multiple of VECTOR in attention.cl) within the keys of one head.
uint key_index(uint position, uint i, uint n_ctx, uint d_head) {
    uint first = position & ~(TILE - 1u);
    uint width = min(TILE, n_ctx - first);
    return first * d_head + ((i / VECTOR) * width + (position - first)) * VECTOR + i % VECTOR;
}

#if CACHE_TYPE == TYPE_F16
#define CACHE_BYTES 2
#else
#define CACHE_BYTES 4
#endif
