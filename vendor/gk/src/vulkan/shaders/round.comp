#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weight.glsl"
#include "rounded.glsl"
// Rounds b to int8 in blocks of 32, as the cpu backend does. One invocation rounds one block.

const uint INFINITY = 0x7f800000u, NOT_A_NUMBER = 0x7fc00000u;
const float SMALLEST = 1e-30; // a block without larger elements becomes zero: 127 / largest must stay finite

uint pack(ivec4 quad) {
    uvec4 bytes = uvec4(quad) & 255u;
    return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

void round_block(uint row, uint block, uint k) {
    vec4 x[8];
    uvec4 all = uvec4(0u); // as bits, magnitudes are ordered, and infinity and NaN are above all of them
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        x[i] = load_vec4(p.b + uint64_t(row) * p.b_stride * 4, block * 32u + i * 4u, k);
        all = max(all, floatBitsToUint(x[i]) & 0x7fffffffu);
    }
    uint bits = max(max(all.x, all.y), max(all.z, all.w));
    float largest = uintBitsToFloat(bits);
    float inverse = bits < INFINITY && largest > SMALLEST ? 127.0 / largest : 0.0;
    ivec4 sums = ivec4(0);
    uint words[8];
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        ivec4 quad = ivec4(roundEven(x[i] * inverse));
        sums += quad;
        words[i] = pack(quad);
    }
    WordQuads quads = WordQuads(rounded_words(row));
    quads.v[block * 2u] = uvec4(words[0], words[1], words[2], words[3]);
    quads.v[block * 2u + 1u] = uvec4(words[4], words[5], words[6], words[7]);
    float scale = bits < INFINITY ? largest / 127.0 : uintBitsToFloat(NOT_A_NUMBER); // a block with NaN or infinity becomes NaN
    rounded_factors(row).v[block] = vec2(scale, scale * float(sums.x + sums.y + sums.z + sums.w));
}

void main() {
    uint k = p.n[0];
    uint live = live_rows(p.n[2]);
    uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    for (uint row = gl_WorkGroupID.y; row < live; row += gl_NumWorkGroups.y)
        for (uint block = gl_GlobalInvocationID.x; block < k / 32u; block += step) round_block(row, block, k);
}
