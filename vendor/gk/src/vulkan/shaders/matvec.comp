#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "matmul.glsl"
// dst[t][r] = sum a[r][k] b[t][k] for few t: a subgroup processes ROWS rows of the weight and COLUMNS tokens, its
// invocations stride over k, and each weight is read once for all of these tokens. n: k, n_out, rows of b. With two
// weights (gate_up; extra: the second) it processes ROWS rows of each, and dst = silu(sum of a) * sum of the second.
layout(constant_id = 4) const uint ROWS = 2;
layout(constant_id = 5) const uint COLUMNS = 1;
layout(constant_id = 6) const uint WEIGHTS = 1;
const uint LINES = ROWS * WEIGHTS;

void main() {
    uint k = p.n[0];
    uint n_out = p.n[1];
    uint live = live_rows(p.n[2]);
    bool last_row = (p.flags & LAST_ROW) != 0u;
    uint first_column = last_row ? live - 1u : gl_WorkGroupID.y * COLUMNS;
    if (first_column >= live) return;
    uint chunks = (k + CHUNK - 1u) / CHUNK;
    uint tiles = (n_out + ROWS - 1u) / ROWS;
    uint step = gl_NumWorkGroups.x * gl_NumSubgroups;
    for (uint tile = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID; tile < tiles; tile += step) {
        float sum[LINES * COLUMNS];
        [[unroll]] for (uint i = 0u; i < LINES * COLUMNS; i++) sum[i] = 0.0;
        for (uint chunk = lane(); chunk < chunks; chunk += SUBGROUP) {
            Piece piece[LINES];
            [[unroll]] for (uint r = 0u; r < LINES; r++) {
                weight_base = r < ROWS ? p.a : p.extra;
                piece[r] = load_piece(min(tile * ROWS + r % ROWS, n_out - 1u), chunk, k);
            }
            [[unroll]] for (uint q = 0u; q < QUADS; q++) {
                vec4 w[LINES];
                [[unroll]] for (uint r = 0u; r < LINES; r++) w[r] = piece_quad(piece[r], q);
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    uint column = min(first_column + c, live - 1u);
                    vec4 x = load_vec4(p.b + uint64_t(column) * p.b_stride * 4, chunk * CHUNK + q * 4u, k);
                    [[unroll]] for (uint r = 0u; r < LINES; r++) sum[r * COLUMNS + c] += dot(w[r], x);
                }
            }
        }
        [[unroll]] for (uint i = 0u; i < LINES * COLUMNS; i++) sum[i] = subgroupAdd(sum[i]);
        if (subgroupElect()) {
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    uint row = tile * ROWS + r;
                    uint column = first_column + c;
                    if (row >= n_out || column >= live) continue;
                    Floats dst = floats(p.dst, last_row ? 0ul : uint64_t(column) * p.dst_stride);
                    float value = sum[r * COLUMNS + c];
                    if (WEIGHTS == 2u) value = value / (1.0 + exp(-value)) * sum[(r + LINES - ROWS) * COLUMNS + c];
                    store_sum(dst, row, value);
                }
            }
        }
    }
}
