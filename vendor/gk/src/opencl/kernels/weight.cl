// Reads weights in the layout of weight_put (src/core/planes.h), for all types. A piece is what one work-item loads at
// once: 16 bytes of plane 0 and the matching parts of the other planes; kernels read it in quads of elements. In the
// argument n, s0 is k, and s5, s6, s7 are the starts of planes 1 to 3, in units of 64 bytes from the weight. S0: the
// type. S1: rows of weights and activations are multiples of a piece and aligned, so that complete pieces can be
// loaded.
#define WEIGHT_TYPE S0
#define ALIGNED S1

#if WEIGHT_TYPE == TYPE_F32
#define QUADS 1
#elif WEIGHT_TYPE == TYPE_F16 || WEIGHT_TYPE == TYPE_BF16
#define QUADS 2
#elif WEIGHT_TYPE == TYPE_Q8_0
#define QUADS 4
#else
#define QUADS 8
#endif
#define CHUNK (QUADS * 4) // elements of a piece
#define BLOCKS (QUADS >= 4)
#define PLANE(units) (weight + (ulong)(units) * 64)

// Four elements of a row of f32; elements at `limit` and above are 0.
float4 load_quad(const_floats row, uint element, uint limit) {
#if ALIGNED
    return *(__global const float4 *)(row + element);
#else
    float4 value = (float4)(0.0f);
    if (element < limit) value.s0 = row[element];
    if (element + 1u < limit) value.s1 = row[element + 1u];
    if (element + 2u < limit) value.s2 = row[element + 2u];
    if (element + 3u < limit) value.s3 = row[element + 3u];
    return value;
#endif
}

#if BLOCKS

typedef struct piece {
    uint bits[4];
    uint high[2];   // q6_k: two more bits per element
    float scale[2]; // of the first and second half
    float minimum;  // q4_k: subtracted
} piece;

// Loads scales, minimum and high bits for the 32 elements of block `block`, counted through the whole weight.
void load_scales(const_bytes weight, uint8 n, ulong block, piece *w) {
#if WEIGHT_TYPE == TYPE_Q4_K
    uint4 all = *(__global const uint4 *)(PLANE(n.s5) + block / 8u * 16u);
    uint j = (uint)(block % 8u);
    uint low = (j < 4u ? all.s1 : all.s2) >> (j % 4u * 8u);
    uint high = all.s3 >> (j * 4u);
    w->scale[0] = load_half(PLANE(n.s5), block / 8u * 8u) * (float)((low & 15u) | (high & 3u) << 4);
    w->minimum = load_half(PLANE(n.s5), block / 8u * 8u + 1u) * (float)((low >> 4 & 15u) | (high & 12u) << 2);
#elif WEIGHT_TYPE == TYPE_Q6_K
    uint2 high = *(__global const uint2 *)(PLANE(n.s5) + block * 8u);
    char2 scales = *(__global const char2 *)(PLANE(n.s6) + block * 2u);
    float scale = load_half(PLANE(n.s7), block / 8u);
    w->high[0] = high.s0;
    w->high[1] = high.s1;
    w->scale[0] = scale * (float)scales.s0;
    w->scale[1] = scale * (float)scales.s1;
#else
    w->scale[0] = load_half(PLANE(n.s5), block);
#endif
}

// Quad `quad` of a piece: `word` has its four bytes, or its four nibbles and those of the quad 16 elements later.
float4 block_quad(const piece *w, uint word, uint quad) {
#if WEIGHT_TYPE == TYPE_Q8_0
    return w->scale[0] * convert_float4(as_char4(word));
#else
    word = (quad < 4u ? word : word >> 4) & 0x0f0f0f0fu;
#if WEIGHT_TYPE == TYPE_Q4_0
    return w->scale[0] * (convert_float4(as_uchar4(word)) - 8.0f);
#elif WEIGHT_TYPE == TYPE_Q4_K
    return w->scale[0] * convert_float4(as_uchar4(word)) - w->minimum;
#else
    word |= (((quad < 4u ? w->high[0] : w->high[1]) >> (quad % 4u * 2u)) & 0x03030303u) << 4;
    return (quad < 4u ? w->scale[0] : w->scale[1]) * (convert_float4(as_uchar4(word)) - 32.0f);
#endif
#endif
}

// Position of the quants of an element, which is numbered through the whole weight and a multiple of CHUNK.
#if WEIGHT_TYPE == TYPE_Q8_0
#define QUANTS(element) (weight + (element))
#else
#define QUANTS(element) (weight + (element) / 2)
#endif

// Piece number `chunk` of row `row`.
void load_piece(const_bytes weight, uint8 n, uint row, uint chunk, piece *w) {
    ulong first = (ulong)row * n.s0 + chunk * CHUNK;
    uint4 bits = *(__global const uint4 *)QUANTS(first);
    w->bits[0] = bits.s0;
    w->bits[1] = bits.s1;
    w->bits[2] = bits.s2;
    w->bits[3] = bits.s3;
    load_scales(weight, n, first / 32u, w);
}

// Elements quad * 4 .. + 3 of a piece.
float4 piece_quad(const piece *w, uint quad) { return block_quad(w, w->bits[quad % 4u], quad); }

// Four neighbouring elements of a row, without the rest of their piece. `element` is a multiple of 4.
float4 load_weight_quad(const_bytes weight, uint8 n, uint row, uint element) {
    ulong first = (ulong)row * n.s0 + element / CHUNK * CHUNK;
    uint quad = element % CHUNK / 4u;
    piece w;
    load_scales(weight, n, first / 32u, &w);
    return block_quad(&w, ((__global const uint *)QUANTS(first))[quad % 4u], quad);
}

#else

typedef struct piece {
    float4 quad[QUADS];
} piece;

#if QUADS == 2
float load_sixteen(const_halves row, uint element) {
#if WEIGHT_TYPE == TYPE_F16
    return load_half((const_bytes)row, element);
#else
    return as_float((uint)row[element] << 16);
#endif
}
#endif

// Four neighbouring elements of a row; those past the end of the row are 0. `element` is a multiple of 4.
float4 load_weight_quad(const_bytes weight, uint8 n, uint row, uint element) {
    uint k = n.s0;
#if WEIGHT_TYPE == TYPE_F32
    return load_quad((const_floats)weight + (ulong)row * k, element, k);
#else
    const_halves at = (const_halves)weight + (ulong)row * k;
#if WEIGHT_TYPE == TYPE_F16 && ALIGNED
    return vload_half4(element / 4u, (__global const half *)at);
#elif ALIGNED
    return as_float4(convert_uint4(*(__global const ushort4 *)(at + element)) << 16);
#else
    float4 value = (float4)(0.0f);
    if (element < k) value.s0 = load_sixteen(at, element);
    if (element + 1u < k) value.s1 = load_sixteen(at, element + 1u);
    if (element + 2u < k) value.s2 = load_sixteen(at, element + 2u);
    if (element + 3u < k) value.s3 = load_sixteen(at, element + 3u);
    return value;
#endif
#endif
}

// Piece number `chunk` of row `row`; elements past the end are 0.
void load_piece(const_bytes weight, uint8 n, uint row, uint chunk, piece *w) {
#pragma unroll
    for (uint q = 0u; q < QUADS; q++) w->quad[q] = load_weight_quad(weight, n, row, chunk * CHUNK + q * 4u);
}

float4 piece_quad(const piece *w, uint quad) { return w->quad[quad]; }

#endif
