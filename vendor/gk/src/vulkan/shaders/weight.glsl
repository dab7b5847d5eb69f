// Weights as weight_put lays them out: f32 and f16 rows as they are; q8_0 as a plane of quants, rows * k bytes, and
// at `extra` a plane of f16 scales. A chunk is the 16 bytes that one invocation reads at once.
layout(constant_id = 2) const uint WEIGHT_TYPE = 0;
// Rows of weights and activations are multiples of a chunk and aligned: whole chunks are loaded.
layout(constant_id = 3) const uint ALIGNED = 1;

const uint CHUNK = WEIGHT_TYPE == TYPE_F32 ? 4 : WEIGHT_TYPE == TYPE_F16 ? 8 : 16;
const uint QUADS = CHUNK / 4;

vec4 load_vec4(uint64_t base, uint element, uint limit) {
    if (ALIGNED != 0u) return uintBitsToFloat(load_16_bytes(base, element / 4u));
    vec4 value = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        if (element + i < limit) value[i] = Floats(base).v[element + i];
    return value;
}

// Chunk number `chunk` of row `row`, k elements long; elements past the end are 0.
void load_weight(uint row, uint chunk, uint k, out vec4 w[4]) {
    uint64_t first = uint64_t(row) * k;
    if (WEIGHT_TYPE == TYPE_F32) {
        w[0] = load_vec4(p.a + first * 4, chunk * 4u, k);
    } else if (WEIGHT_TYPE == TYPE_F16) {
        if (ALIGNED != 0u) {
            uvec4 words = load_16_bytes(p.a + first * 2, chunk);
            w[0] = vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
            w[1] = vec4(unpackHalf2x16(words.z), unpackHalf2x16(words.w));
        } else {
            [[unroll]] for (uint i = 0u; i < 8u; i++)
                w[i / 4u][i % 4u] = chunk * 8u + i < k ? load_half(p.a + first * 2, chunk * 8u + i) : 0.0;
        }
    } else {
        // k is a multiple of 32, so these rows are always aligned.
        uvec4 words = load_16_bytes(p.a + first, chunk);
        float scale = load_half(p.extra + first / 16, chunk / 2u);
        w[0] = scale * bytes_to_floats(words.x);
        w[1] = scale * bytes_to_floats(words.y);
        w[2] = scale * bytes_to_floats(words.z);
        w[3] = scale * bytes_to_floats(words.w);
    }
}
