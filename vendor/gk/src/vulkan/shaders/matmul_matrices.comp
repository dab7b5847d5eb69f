#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "matmul.glsl"
#include "narrowed.glsl"
#include "matrices.glsl"
// dst[t][r] = sum a[r][k] b[t][k] for many t and f16 weights, with b rounded by narrow.comp. A workgroup of four
// subgroups computes 64 rows x 64 tokens, each subgroup a quarter as 2 x 2 matrices; slices of 32 k go through shared
// memory.

const uint BLOCK = 64, PIECES = BLOCK_K / 8; // PIECES of 8 halves in a row of a slice
shared float results[4 * 256];

// Stores 8 elements of row `slot` of a slice.
#define KEEP(array, slot, part, bits) \
    [[unroll]] for (uint i = 0u; i < 4u; i++) array[(slot) * PITCH + (part) * 4u + i] = pair_of(bits[i])

void load_slice(uint first_row, uint n_out, uint first_token, uint live, uint base, uint k) {
    for (uint piece = gl_LocalInvocationID.x; piece < BLOCK * PIECES; piece += gl_WorkGroupSize.x) {
        uint slot = piece / PIECES;
        uint part = piece % PIECES;
        uvec4 bits = uvec4(0u);
        if (first_row + slot < n_out && base + part * 8u < k) bits = load_piece(first_row + slot, base / 8u + part, k).bits;
        KEEP(weights, slot, part, bits);
        bits = uvec4(0u);
        if (first_token + slot < live) bits = load_16_bytes(narrowed_row(first_token + slot), base / 8u + part);
        KEEP(tokens, slot, part, bits);
    }
}

void store_matrix(uint first_row, uint n_out, uint first_token, uint live) {
    for (uint element = lane(); element < 256u; element += SUBGROUP) {
        uint row = first_row + element % 16u;
        uint token = first_token + element / 16u;
        if (row >= n_out || token >= live) continue;
        float sum = results[gl_SubgroupID * 256u + element] * Floats(p.extra).v[token];
        store_sum(floats(p.dst, uint64_t(token) * p.dst_stride), row, sum);
    }
}

void main() {
    uint k = p.n[0];
    uint n_out = p.n[1];
    uint live = live_rows(p.n[2]);
    uint first_token = gl_WorkGroupID.y * BLOCK;
    if (first_token >= live) return;
    uint own_row = gl_SubgroupID % 2u * 32u; // of the tile
    uint own_token = gl_SubgroupID / 2u * 32u;
    uint tiles = (n_out + BLOCK - 1u) / BLOCK;
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        SUM_MATRIX sums[4];
        [[unroll]] for (uint m = 0u; m < 4u; m++) { ZERO_SUM(sums[m]); }
        for (uint base = 0u; base < k; base += BLOCK_K) {
            load_slice(tile * BLOCK, n_out, first_token, live, base, k);
            barrier();
            [[unroll]] for (uint part = 0u; part < BLOCK_K / 16u; part++) {
                WEIGHT_MATRIX a[2];
                TOKEN_MATRIX b[2];
                [[unroll]] for (uint m = 0u; m < 2u; m++) {
                    LOAD_WEIGHTS(a[m], (own_row + m * 16u) * PITCH + part * 8u);
                    LOAD_TOKENS(b[m], (own_token + m * 16u) * PITCH + part * 8u);
                }
                [[unroll]] for (uint m = 0u; m < 4u; m++) { MULTIPLY_ADD(sums[m], a[m % 2u], b[m / 2u]); }
            }
            barrier();
        }
        [[unroll]] for (uint m = 0u; m < 4u; m++) {
            STORE_SUM(sums[m], results, gl_SubgroupID * 256u);
            barrier();
            store_matrix(tile * BLOCK + own_row + m % 2u * 16u, n_out, first_token + own_token + m / 2u * 16u, live);
            barrier();
        }
    }
}
