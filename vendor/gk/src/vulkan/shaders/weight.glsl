// Reads weights in the layout of weight_put (src/core/planes.h), for all types. A piece is what one invocation loads at
// once: 16 bytes of plane 0 and the matching parts of the other planes; kernels read it in quads of elements.
layout(constant_id = 2) const uint WEIGHT_TYPE = 0;
// Rows of weights and activations are multiples of a piece and aligned, so complete pieces are loaded. Always true for
// blocks.
layout(constant_id = 3) const uint ALIGNED = 1;

const bool IS_HALVES = WEIGHT_TYPE == TYPE_F16 || WEIGHT_TYPE == TYPE_BF16;
const uint QUADS = WEIGHT_TYPE == TYPE_F32 ? 1 : IS_HALVES ? 2 : WEIGHT_TYPE == TYPE_Q8_0 ? 4 : 8; // quads of a piece
const uint CHUNK = QUADS * 4; // elements of a piece

struct Piece {
    uvec4 bits;
    uvec2 high;    // q6_k: two more bits per element
    vec2 scale;    // of the first and second half
    float minimum; // q4_k: subtracted
};

// Address of the weight to read; kernels with two weights change it.
uint64_t weight_base = p.a;

uint64_t plane(uint number) { return weight_base + uint64_t(p.n[4u + number]) * 64; }

vec4 load_vec4(uint64_t base, uint element, uint limit) {
    if (ALIGNED != 0u) return uintBitsToFloat(load_16_bytes(base, element / 4u));
    vec4 value = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        if (element + i < limit) value[i] = Floats(base).v[element + i];
    return value;
}

// Four 16-bit elements; elements at `limit` and above are 0.
uvec2 load_four_halves(uint64_t base, uint element, uint limit) {
    if (ALIGNED != 0u) return load_8_bytes(base, element / 4u);
    uvec2 bits = uvec2(0u);
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        if (element + i < limit) bits[i / 2u] |= uint(Halves(base).v[element + i]) << (i % 2u * 16u);
    return bits;
}

// Scales, minimum and high bits of the piece with this number in its row.
void load_scales(uint row, uint chunk, uint k, inout Piece w) {
    if (WEIGHT_TYPE == TYPE_Q8_0 || WEIGHT_TYPE == TYPE_Q4_0) {
        w.scale = vec2(load_half(plane(1u) + uint64_t(row) * (k / 32u) * 2, chunk * CHUNK / 32u));
    } else if (WEIGHT_TYPE == TYPE_Q4_K) {
        uvec4 all = load_16_bytes(plane(1u) + uint64_t(row) * (k / 256u) * 16, chunk / 8u);
        uint j = chunk % 8u;
        uint low = (j < 4u ? all.y : all.z) >> (j % 4u * 8u);
        uint high = all.w >> (j * 4u);
        w.scale = vec2(half_to_float(all.x & 0xffffu) * float((low & 15u) | (high & 3u) << 4));
        w.minimum = half_to_float(all.x >> 16) * float((low >> 4 & 15u) | (high & 12u) << 2);
    } else if (WEIGHT_TYPE == TYPE_Q6_K) {
        uint64_t first = uint64_t(row) * (k / 32u);
        w.high = load_8_bytes(plane(1u) + first * 8, chunk);
        int scales = int(Halves(plane(2u) + first * 2).v[chunk]);
        float scale = load_half(plane(3u) + uint64_t(row) * (k / 256u) * 2, chunk / 8u);
        w.scale = scale * vec2(bitfieldExtract(scales, 0, 8), bitfieldExtract(scales, 8, 8));
    }
}

// Piece number `chunk` of row `row`, k elements long; elements past the end are 0.
Piece load_piece(uint row, uint chunk, uint k) {
    uint64_t first = uint64_t(row) * k;
    Piece w;
    if (WEIGHT_TYPE == TYPE_F32) {
        w.bits = floatBitsToUint(load_vec4(weight_base + first * 4, chunk * 4u, k));
    } else if (IS_HALVES) {
        if (ALIGNED != 0u) {
            w.bits = load_16_bytes(weight_base + first * 2, chunk);
        } else {
            w.bits = uvec4(load_four_halves(weight_base + first * 2, chunk * 8u, k), load_four_halves(weight_base + first * 2, chunk * 8u + 4u, k));
        }
    } else {
        w.bits = load_16_bytes(weight_base + (WEIGHT_TYPE == TYPE_Q8_0 ? first : first / 2), chunk);
        load_scales(row, chunk, k, w);
    }
    return w;
}

// Quad `quad` of a block: `word` has its four bytes, or its four nibbles and those of the quad 16 elements later.
vec4 block_quad(Piece w, uint word, uint quad) {
    if (WEIGHT_TYPE == TYPE_Q8_0) return w.scale.x * bytes_to_floats(word);
    word = (quad < 4u ? word : word >> 4) & 0x0f0f0f0fu;
    if (WEIGHT_TYPE == TYPE_Q4_0) return w.scale.x * (unsigned_bytes_to_floats(word) - 8.0);
    if (WEIGHT_TYPE == TYPE_Q4_K) return w.scale.x * unsigned_bytes_to_floats(word) - w.minimum;
    word |= (((quad < 4u ? w.high.x : w.high.y) >> (quad % 4u * 2u)) & 0x03030303u) << 4;
    return (quad < 4u ? w.scale.x : w.scale.y) * (unsigned_bytes_to_floats(word) - 32.0);
}

// Two of the eight quads of 32 neighbouring elements of a block type, `pair` and `pair` + 4 of block `block`: signed
// bytes, without their scale and without q4_k's minimum.
uvec2 load_byte_quads(uint row, uint block, uint pair, uint k) {
    uint64_t first = uint64_t(row) * k;
    if (WEIGHT_TYPE == TYPE_Q8_0) {
        Uints words = Uints(weight_base + first);
        return uvec2(words.v[block * 8u + pair], words.v[block * 8u + 4u + pair]);
    }
    uint word = Uints(weight_base + first / 2).v[block * 4u + pair];
    uvec2 quads = uvec2(word, word >> 4) & 0x0f0f0f0fu;
    if (WEIGHT_TYPE == TYPE_Q4_K) return quads;
    uint middle = 0x08080808u;
    if (WEIGHT_TYPE == TYPE_Q6_K) {
        uvec2 high = load_8_bytes(plane(1u) + uint64_t(row) * (k / 32u) * 8, block);
        quads |= (high >> (pair * 2u) & 0x03030303u) << 4;
        middle = 0x20202020u;
    }
    return ((quads | 0x80808080u) - middle) ^ 0x80808080u; // no byte borrows from its neighbour
}

vec4 halves_quad(uvec2 bits) {
    if (WEIGHT_TYPE == TYPE_F16) return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
    return uintBitsToFloat(uvec4(bits.x << 16, bits.x & 0xffff0000u, bits.y << 16, bits.y & 0xffff0000u));
}

// Elements quad * 4 .. + 3 of a piece.
vec4 piece_quad(Piece w, uint quad) {
    if (WEIGHT_TYPE == TYPE_F32) return uintBitsToFloat(w.bits);
    if (IS_HALVES) return halves_quad(quad == 0u ? w.bits.xy : w.bits.zw);
    return block_quad(w, w.bits[quad % 4u], quad);
}

// Four neighbouring elements of a row, without the rest of their piece. `element` is a multiple of 4.
vec4 load_weight_quad(uint row, uint element, uint k) {
    uint64_t first = uint64_t(row) * k;
    if (WEIGHT_TYPE == TYPE_F32) return load_vec4(weight_base + first * 4, element, k);
    if (IS_HALVES) return halves_quad(load_four_halves(weight_base + first * 2, element, k));
    Piece w;
    load_scales(row, element / CHUNK, k, w);
    uint quad = element % CHUNK / 4u;
    if (WEIGHT_TYPE == TYPE_Q8_0) return block_quad(w, Uints(weight_base + first).v[element / 4u], quad);
    return block_quad(w, Uints(weight_base + first / 2).v[element / 32u * 4u + quad % 4u], quad);
}
