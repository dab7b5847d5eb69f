// The layout of the KV cache, used only by kv_write.comp, rope_kv.comp and attention.comp:
//   values: [kv head][position][d_head]
//   keys:   [kv head][tile of 32 positions][d_head / VECTOR][position in the tile][VECTOR]
// so that 32 neighbouring invocations, one position each, read neighbouring words of the keys. The last tile is only as
// wide as n_ctx needs: the cache takes no more memory than its elements.
const uint TILE = 32;

// Index of element i (a multiple of `vector` in the fast kernels) within the keys of one head.
uint key_index(uint position, uint i, uint n_ctx, uint d_head, uint vector) {
    uint first = position & ~(TILE - 1u);
    uint width = min(TILE, n_ctx - first);
    return first * d_head + ((i / vector) * width + (position - first)) * vector + i % vector;
}
