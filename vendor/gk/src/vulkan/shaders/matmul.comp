#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "matmul.glsl"
// dst[t][r] = sum a[r][k] b[t][k] for many t. A workgroup of 256 computes 64 rows x 16 * COLUMNS tokens; slices of
// 16 k go through shared memory. n: k, n_out, rows of b.
layout(constant_id = 4) const uint COLUMNS = 4; // tokens of one invocation: 2 or 4

const uint BLOCK_ROWS = 64, BLOCK_K = 16;
const uint BLOCK_COLUMNS = 16 * COLUMNS;
shared vec4 weights[BLOCK_K][BLOCK_ROWS / 4 + 1]; // four rows side by side; padded against bank conflicts
shared float tokens[BLOCK_K][BLOCK_COLUMNS + 4];  // padded by 4: rows stay aligned to 16 bytes

void main() {
    uint k = p.n[0];
    uint n_out = p.n[1];
    uint live = live_rows(p.n[2]);
    uint first_column = gl_WorkGroupID.y * BLOCK_COLUMNS;
    if (first_column >= live) return;
    uint self = gl_LocalInvocationID.x;
    uint row_quad = self % 16u;         // rows row_quad * 4 .. + 3 of the tile
    uint column = self / 16u * COLUMNS; // tokens column .. + COLUMNS - 1 of the tile
    uint load_row = self / 4u;          // 64 rows x 4 quads of k
    uint load_quad = self % 4u;
    uint blocks = (n_out + BLOCK_ROWS - 1u) / BLOCK_ROWS;
    for (uint block = gl_WorkGroupID.x; block < blocks; block += gl_NumWorkGroups.x) {
        uint first_row = block * BLOCK_ROWS;
        vec4 sum[COLUMNS];
        [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sum[c] = vec4(0.0);
        for (uint base = 0u; base < k; base += BLOCK_K) {
            uint element = base + load_quad * 4u;
            vec4 w = vec4(0.0);
            if (first_row + load_row < n_out && element < k) w = load_weight_quad(first_row + load_row, element, k);
            [[unroll]] for (uint i = 0u; i < 4u; i++) weights[load_quad * 4u + i][load_row / 4u][load_row % 4u] = w[i];
            if (load_row < BLOCK_COLUMNS) {
                vec4 x = vec4(0.0);
                uint token = first_column + load_row;
                if (token < live && element < k) x = load_vec4(p.b + uint64_t(token) * p.b_stride * 4, element, k);
                [[unroll]] for (uint i = 0u; i < 4u; i++) tokens[load_quad * 4u + i][load_row] = x[i];
            }
            barrier();
            [[unroll]] for (uint i = 0u; i < BLOCK_K; i++) {
                vec4 four = weights[i][row_quad];
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) sum[c] += four * tokens[i][column + c];
            }
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
