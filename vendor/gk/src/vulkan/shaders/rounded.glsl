// Activations as int8 in the scratch memory of a matmul: quads as words, [row][k / 4], then for each 32 elements their scale
// and scale * sum, [row][k / 32]. Written by round.comp, read by matmul_dot.comp; n of both: k, n_out, rows of b.
layout(buffer_reference, std430, buffer_reference_align = 16) buffer WordQuads { uvec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer FloatPairs { vec2 v[]; };

uint64_t rounded_words(uint row) { return p.extra + uint64_t(row) * p.n[0]; }

FloatPairs rounded_factors(uint row) {
    return FloatPairs(p.extra + uint64_t(p.n[2]) * p.n[0] + uint64_t(row) * (p.n[0] / 32u) * 8);
}
