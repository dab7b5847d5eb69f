// Reads weights in the layout of weight_put (src/core/planes.h), for all types. A piece is what one thread loads at
// once: 16 bytes of plane 0 and the matching parts of the other planes; kernels read it in quads of elements. In
// args.n, 0 is k, and 5, 6, 7 are the starts of planes 1 to 3, in units of 64 bytes from the weight. S0: the type. S1:
// rows of weights and activations are multiples of a piece and aligned, so that complete pieces can be loaded.
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
#define PLANE(number) (weight + ulong(args.n[4 + (number)]) * 64)

// Four elements of a row of f32; elements at `limit` and above are 0.
inline float4 load_quad(device const float *row, uint element, uint limit) {
#if ALIGNED
    return *(device const float4 *)(row + element);
#else
    float4 value = float4(0.0f);
    if (element < limit) value.x = row[element];
    if (element + 1u < limit) value.y = row[element + 1u];
    if (element + 2u < limit) value.z = row[element + 2u];
    if (element + 3u < limit) value.w = row[element + 3u];
    return value;
#endif
}

#if BLOCKS

struct piece {
    uint bits[4];
    uint high[2];   // q6_k: two more bits per element
    float scale[2]; // of the first and second half
    float minimum;  // q4_k: subtracted
};

// Loads scales, minimum and high bits for the 32 elements of block `block`, counted through the whole weight.
inline void load_scales(device const uchar *weight, constant arguments &args, ulong block, thread piece &w) {
#if WEIGHT_TYPE == TYPE_Q4_K
    uint4 all = *(device const uint4 *)(PLANE(1) + block / 8u * 16u);
    uint j = uint(block % 8u);
    uint low = (j < 4u ? all.y : all.z) >> (j % 4u * 8u);
    uint high = all.w >> (j * 4u);
    w.scale[0] = load_half(PLANE(1), block / 8u * 8u) * float((low & 15u) | (high & 3u) << 4);
    w.minimum = load_half(PLANE(1), block / 8u * 8u + 1u) * float((low >> 4 & 15u) | (high & 12u) << 2);
#elif WEIGHT_TYPE == TYPE_Q6_K
    uint2 high = *(device const uint2 *)(PLANE(1) + block * 8u);
    char2 scales = *(device const char2 *)(PLANE(2) + block * 2u);
    float scale = load_half(PLANE(3), block / 8u);
    w.high[0] = high.x;
    w.high[1] = high.y;
    w.scale[0] = scale * float(scales.x);
    w.scale[1] = scale * float(scales.y);
#else
    w.scale[0] = load_half(PLANE(1), block);
#endif
}

// Quad `quad` of a piece: `word` has its four bytes, or its four nibbles and those of the quad 16 elements later.
inline float4 block_quad(thread const piece &w, uint word, uint quad) {
#if WEIGHT_TYPE == TYPE_Q8_0
    return w.scale[0] * float4(as_type<char4>(word));
#else
    word = (quad < 4u ? word : word >> 4) & 0x0f0f0f0fu;
#if WEIGHT_TYPE == TYPE_Q4_0
    return w.scale[0] * (float4(as_type<uchar4>(word)) - 8.0f);
#elif WEIGHT_TYPE == TYPE_Q4_K
    return w.scale[0] * float4(as_type<uchar4>(word)) - w.minimum;
#else
    word |= (((quad < 4u ? w.high[0] : w.high[1]) >> (quad % 4u * 2u)) & 0x03030303u) << 4;
    return (quad < 4u ? w.scale[0] : w.scale[1]) * (float4(as_type<uchar4>(word)) - 32.0f);
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
inline void load_piece(device const uchar *weight, constant arguments &args, uint row, uint chunk, thread piece &w) {
    ulong first = ulong(row) * args.n[0] + chunk * CHUNK;
    uint4 bits = *(device const uint4 *)QUANTS(first);
    w.bits[0] = bits.x;
    w.bits[1] = bits.y;
    w.bits[2] = bits.z;
    w.bits[3] = bits.w;
    load_scales(weight, args, first / 32u, w);
}

// Elements quad * 4 .. + 3 of a piece.
inline float4 piece_quad(thread const piece &w, uint quad) { return block_quad(w, w.bits[quad % 4u], quad); }

// Four neighbouring elements of a row, without the rest of their piece. `element` is a multiple of 4.
inline float4 load_weight_quad(device const uchar *weight, constant arguments &args, uint row, uint element) {
    ulong first = ulong(row) * args.n[0] + element / CHUNK * CHUNK;
    uint quad = element % CHUNK / 4u;
    piece w;
    load_scales(weight, args, first / 32u, w);
    return block_quad(w, ((device const uint *)QUANTS(first))[quad % 4u], quad);
}

#else

struct piece {
    float4 quad[QUADS];
};

#if QUADS == 2
inline float load_sixteen(device const ushort *row, uint element) {
#if WEIGHT_TYPE == TYPE_F16
    return load_half((device const uchar *)row, element);
#else
    return as_type<float>(uint(row[element]) << 16);
#endif
}
#endif

// Four neighbouring elements of a row; those past the end of the row are 0. `element` is a multiple of 4.
inline float4 load_weight_quad(device const uchar *weight, constant arguments &args, uint row, uint element) {
    uint k = args.n[0];
#if WEIGHT_TYPE == TYPE_F32
    return load_quad((device const float *)weight + ulong(row) * k, element, k);
#else
    device const ushort *at = (device const ushort *)weight + ulong(row) * k;
#if WEIGHT_TYPE == TYPE_F16 && ALIGNED
    return float4(*(device const half4 *)(at + element));
#elif ALIGNED
    return as_type<float4>(uint4(*(device const ushort4 *)(at + element)) << 16u);
#else
    float4 value = float4(0.0f);
    if (element < k) value.x = load_sixteen(at, element);
    if (element + 1u < k) value.y = load_sixteen(at, element + 1u);
    if (element + 2u < k) value.z = load_sixteen(at, element + 2u);
    if (element + 3u < k) value.w = load_sixteen(at, element + 3u);
    return value;
#endif
#endif
}

// Piece number `chunk` of row `row`; elements past the end are 0.
inline void load_piece(device const uchar *weight, constant arguments &args, uint row, uint chunk, thread piece &w) {
    for (uint q = 0u; q < QUADS; q++) w.quad[q] = load_weight_quad(weight, args, row, chunk * CHUNK + q * 4u);
}

inline float4 piece_quad(thread const piece &w, uint quad) { return w.quad[quad]; }

#endif
