#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "matmul.glsl"
#include "rounded.glsl"
#include "dot.glsl"
// dst[t][r] = sum a[r][k] b[t][k] for many t and block types, with b rounded by round.comp: integer products of 32
// elements, then scales. A workgroup of 256 computes 64 rows x 16 * COLUMNS tokens; slices of 32 k go through shared
// memory.
layout(constant_id = 4) const uint COLUMNS = 4; // tokens of one invocation: 2 or 4

const uint BLOCK_ROWS = 64, QUADS_OF_BLOCK = 8;
const uint BLOCK_COLUMNS = 16 * COLUMNS;
const uint PARTS = WEIGHT_TYPE == TYPE_Q6_K ? 2 : 1; // parts of a block with separate scales
const uint QUADS_OF_PART = QUADS_OF_BLOCK / PARTS;
shared uvec4 weights[QUADS_OF_BLOCK][BLOCK_ROWS / 4 + 1]; // four rows side by side; padded against bank conflicts
shared vec4 scales[PARTS][BLOCK_ROWS / 4];
shared vec4 minimums[BLOCK_ROWS / 4];
shared uint tokens[QUADS_OF_BLOCK][BLOCK_COLUMNS + 4];
shared vec2 factors[BLOCK_COLUMNS];

// Each invocation loads two quads, and the first of four also loads the data of the block. Elements outside are zero.
void load_weights(uint slot, uint row, uint n_out, uint pair, uint block, uint k) {
    uvec2 quads = uvec2(0u);
    if (row < n_out) quads = load_byte_quads(row, block, pair, k);
    weights[pair][slot / 4u][slot % 4u] = quads.x;
    weights[pair + 4u][slot / 4u][slot % 4u] = quads.y;
    if (pair != 0u) return;
    Piece w;
    w.scale = vec2(0.0);
    w.minimum = 0.0;
    if (row < n_out) load_scales(row, block * (32u / CHUNK), k, w);
    [[unroll]] for (uint part = 0u; part < PARTS; part++) scales[part][slot / 4u][slot % 4u] = w.scale[part];
    if (WEIGHT_TYPE == TYPE_Q4_K) minimums[slot / 4u][slot % 4u] = w.minimum;
}

void load_tokens(uint slot, uint token, uint live, uint pair, uint block) {
    uvec2 quads = uvec2(0u);
    if (token < live) {
        Uints words = Uints(rounded_words(token));
        quads = uvec2(words.v[block * 8u + pair], words.v[block * 8u + 4u + pair]);
    }
    tokens[pair][slot] = quads.x;
    tokens[pair + 4u][slot] = quads.y;
    if (pair == 0u) factors[slot] = token < live ? rounded_factors(token).v[block] : vec2(0.0);
}

// Multiplies the block in shared memory: rows row_quad * 4 .. + 3 by tokens column .. + COLUMNS - 1.
void multiply(uint row_quad, uint column, inout vec4 sum[COLUMNS]) {
    [[unroll]] for (uint part = 0u; part < PARTS; part++) {
        ivec4 products[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) products[c] = ivec4(0);
        [[unroll]] for (uint q = part * QUADS_OF_PART; q < (part + 1u) * QUADS_OF_PART; q++) {
            uvec4 w = weights[q][row_quad];
            [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                uint x = tokens[q][column + c];
                products[c] += ivec4(dot_of_bytes(w.x, x), dot_of_bytes(w.y, x), dot_of_bytes(w.z, x), dot_of_bytes(w.w, x));
            }
        }
        vec4 scale = scales[part][row_quad];
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sum[c] += vec4(products[c]) * (scale * factors[column + c].x);
    }
    if (WEIGHT_TYPE != TYPE_Q4_K) return;
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sum[c] -= minimums[row_quad] * factors[column + c].y;
}

void main() {
    uint k = p.n[0];
    uint n_out = p.n[1];
    uint live = live_rows(p.n[2]);
    uint first_column = gl_WorkGroupID.y * BLOCK_COLUMNS;
    if (first_column >= live) return;
    uint self = gl_LocalInvocationID.x;
    uint row_quad = self % 16u;
    uint column = self / 16u * COLUMNS;
    uint slot = self / 4u; // 64 rows, or as many tokens, x 4 pairs of quads
    uint pair = self % 4u;
    uint tiles = (n_out + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        uint first_row = tile * BLOCK_ROWS;
        vec4 sum[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sum[c] = vec4(0.0);
        for (uint block = 0u; block < k / 32u; block++) {
            load_weights(slot, first_row + slot, n_out, pair, block, k);
            if (slot < BLOCK_COLUMNS) load_tokens(slot, first_column + slot, live, pair, block);
            barrier();
            multiply(row_quad, column, sum);
            barrier();
        }
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
            uint token = first_column + column + c;
            if (token >= live) continue;
            Floats dst = floats(p.dst, uint64_t(token) * p.dst_stride);
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                uint row = first_row + row_quad * 4u + i;
                if (row < n_out) store_sum(dst, row, sum[c][i]);
            }
        }
    }
}
