// Activations as f16 in the scratch memory of a matmul: a factor for each row, then rows of halves, padded with zeros
// to complete slices of 32. Written by narrow.comp, read by matmul_matrices.comp; n of both: k, n_out, rows of b.
layout(buffer_reference, std430, buffer_reference_align = 8) buffer WordPairs { uvec2 v[]; };

uint narrowed_width() { return (p.n[0] + 31u) / 32u * 32u; }

uint64_t narrowed_row(uint row) {
    return p.extra + uint64_t((p.n[2] + 15u) / 16u) * 64 + uint64_t(row) * narrowed_width() * 2;
}
