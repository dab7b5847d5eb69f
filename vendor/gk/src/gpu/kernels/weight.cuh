// Reads weights in the layout of weight_put (src/core/planes.h), for matvec, matmul_tile and embed.
//
// A type W has pieces, the unit that a lane loads at once: 16 bytes of plane 0 and the matching parts of the other
// planes. A piece is W::QUADS quads of four neighbouring elements; the first W::SCALES-th of them share W::scale(piece,
// 0), and so on. Elements are numbered through the whole weight: row * k + column.
//   load(w, element, piece)    element: first of an aligned piece
//   quad(piece, q, out)        q is a compile-time constant; without the factor `scale`
//   sixteen(piece, q, out)     quads q and q + 1 as f16 (bf16 for bf16 weights), with the factor; q is even
//   load4(w, element, out)     element: a multiple of 4 in an aligned row
//   one(w, element)            any element
#ifndef GK_GPU_WEIGHT_CUH
#define GK_GPU_WEIGHT_CUH

// Address of a weight and its planes: a kernel may read two weights.
struct weight_place {
    uint64_t address;
    unsigned int plane[3];
};

// All weights of a kernel have one type and shape, so only the address differs.
GK_DEVICE weight_place place_of(const gk_gpu_args &g, uint64_t address) {
    weight_place w;
    w.address = address;
    w.plane[0] = g.plane[0];
    w.plane[1] = g.plane[1];
    w.plane[2] = g.plane[2];
    return w;
}

GK_DEVICE const char *plane(const weight_place &w, int number) {
    return pointer<const char>(w.address) + (number == 0 ? 0 : static_cast<size_t>(w.plane[number - 1]) * 64);
}

GK_DEVICE unsigned int word_at(const char *address) { return *reinterpret_cast<const unsigned int *>(address); }
GK_DEVICE float half_at(const char *address) { return half_to_float(*reinterpret_cast<const unsigned short *>(address)); }

struct weight_of_f32 {
    enum { QUADS = 1, SCALES = 1 };
    struct piece {
        uint4 bits;
    };
    GK_DEVICE const char *at(const weight_place &w, size_t element) { return plane(w, 0) + element * 4; }
    GK_DEVICE void load(const weight_place &w, size_t element, piece &p) {
        p.bits = load_stream(at(w, element));
    }
    GK_DEVICE float scale(const piece &, int) { return 1.0f; }
    GK_DEVICE void quad(const piece &p, int, float *out) {
        out[0] = bits_to_float(p.bits.x);
        out[1] = bits_to_float(p.bits.y);
        out[2] = bits_to_float(p.bits.z);
        out[3] = bits_to_float(p.bits.w);
    }
    GK_DEVICE void load4(const weight_place &w, size_t element, float *out) {
        const float4 values = *reinterpret_cast<const float4 *>(at(w, element));
        out[0] = values.x;
        out[1] = values.y;
        out[2] = values.z;
        out[3] = values.w;
    }
    GK_DEVICE float one(const weight_place &w, size_t element) {
        return *reinterpret_cast<const float *>(at(w, element));
    }
};

// 16-bit types; T::widen converts one element to float.
template <class T> struct weight_of_sixteen {
    enum { QUADS = 2, SCALES = 1 };
    struct piece {
        unsigned int bits[4];
    };
    GK_DEVICE const char *at(const weight_place &w, size_t element) { return plane(w, 0) + element * 2; }
    GK_DEVICE void load(const weight_place &w, size_t element, piece &p) {
        const uint4 bits = load_stream(at(w, element));
        p.bits[0] = bits.x;
        p.bits[1] = bits.y;
        p.bits[2] = bits.z;
        p.bits[3] = bits.w;
    }
    GK_DEVICE float scale(const piece &, int) { return 1.0f; }
    GK_DEVICE void pair(unsigned int bits, float *out) {
        out[0] = T::widen(static_cast<unsigned short>(bits & 0xffffu));
        out[1] = T::widen(static_cast<unsigned short>(bits >> 16));
    }
    GK_DEVICE void quad(const piece &p, int q, float *out) {
        pair(p.bits[2 * q], out);
        pair(p.bits[2 * q + 1], out + 2);
    }
    GK_DEVICE void sixteen(const piece &p, int, uint4 &out) {
        out.x = p.bits[0];
        out.y = p.bits[1];
        out.z = p.bits[2];
        out.w = p.bits[3];
    }
    GK_DEVICE void load4(const weight_place &w, size_t element, float *out) {
        const uint2 bits = *reinterpret_cast<const uint2 *>(at(w, element));
        pair(bits.x, out);
        pair(bits.y, out + 2);
    }
    GK_DEVICE float one(const weight_place &w, size_t element) {
        return T::widen(*reinterpret_cast<const unsigned short *>(at(w, element)));
    }
};

struct weight_of_f16 : weight_of_sixteen<weight_of_f16> {
    GK_DEVICE float widen(unsigned short bits) { return half_to_float(bits); }
};

struct weight_of_bf16 : weight_of_sixteen<weight_of_bf16> {
    GK_DEVICE float widen(unsigned short bits) {
        return bits_to_float(static_cast<unsigned int>(bits) << 16);
    }
};

// Block types. A value is (an unsigned byte minus T::OFFSET) times a factor, minus a minimum.
struct block_piece {
    unsigned int bits[4];
    unsigned int high[2]; // q6_k: two more bits per element
    float scale[2];       // of the first and second half
    float minimum;        // q4_k: subtracted
};

// T defines rest(w, element, piece), which loads everything but the bits of a piece, word(piece, q), the four bytes of
// a quad, word4(w, element), those of a quad in memory, and factor(w, element, minimum).
template <class T, int QUADS_, int SCALES_, int OFFSET> struct weight_of_blocks {
    enum { QUADS = QUADS_, SCALES = SCALES_ };
    // For products of integers: signed bytes, what is subtracted from each, and whether pieces have a minimum.
    enum { DOT_OFFSET = OFFSET, MINIMUM = 0 };
    GK_DEVICE unsigned int signed_word(const block_piece &p, int q) { return T::word(p, q); }
    typedef block_piece piece;
    GK_DEVICE void load(const weight_place &w, size_t element, piece &p) {
        const uint4 bits = load_stream(plane(w, 0) + element * 4 / QUADS);
        p.bits[0] = bits.x;
        p.bits[1] = bits.y;
        p.bits[2] = bits.z;
        p.bits[3] = bits.w;
        T::rest(w, element, p);
    }
    GK_DEVICE float scale(const piece &p, int part) { return p.scale[part]; }
    GK_DEVICE void quad(const piece &p, int q, float *out) {
        const unsigned int word = T::word(p, q);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = quant_to_float(word, i, OFFSET);
    }
#if GK_MMA
    // A byte b in the lower half of 0x6400 is 1024 + b as f16; the difference is exact.
    GK_DEVICE unsigned int two(unsigned int word, unsigned int selector, unsigned int scale, unsigned int minimum) {
        const unsigned int bytes = add_two(select_bytes(word, 0x64u, selector), 0xe400e400u + OFFSET * 0x10001u);
        return T::MINIMUM ? multiply_add_two(bytes, scale, minimum) : multiply_two(bytes, scale);
    }
    GK_DEVICE void sixteen(const piece &p, int q, uint4 &out) {
        const float factor = p.scale[q * SCALES / QUADS];
        const unsigned int scale = pack_sixteen<false>(factor, factor);
        const unsigned int minimum = T::MINIMUM ? pack_sixteen<false>(-p.minimum, -p.minimum) : 0u;
        const unsigned int low = T::word(p, q), high = T::word(p, q + 1);
        out.x = two(low, 0x4140u, scale, minimum);
        out.y = two(low, 0x4342u, scale, minimum);
        out.z = two(high, 0x4140u, scale, minimum);
        out.w = two(high, 0x4342u, scale, minimum);
    }
#endif
    GK_DEVICE void load4(const weight_place &w, size_t element, float *out) {
        const unsigned int word = T::word4(w, element);
        float minimum = 0.0f;
        const float factor = T::factor(w, element, minimum);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = factor * quant_to_float(word, i, OFFSET) - minimum;
    }
    GK_DEVICE float one(const weight_place &w, size_t element) {
        const unsigned int word = T::word4(w, element / 4 * 4) >> (8 * (element % 4));
        float minimum = 0.0f;
        const float factor = T::factor(w, element, minimum);
        return factor * quant_to_float(word, 0, OFFSET) - minimum;
    }
};

// Signed bytes, made unsigned by flipping the highest bit.
struct weight_of_q8_0 : weight_of_blocks<weight_of_q8_0, 4, 1, 128> {
    enum { DOT_OFFSET = 0 };
    GK_DEVICE unsigned int signed_word(const block_piece &p, int q) { return p.bits[q]; }
    GK_DEVICE unsigned int biased(unsigned int word) { return word ^ 0x80808080u; }
    GK_DEVICE float factor(const weight_place &w, size_t element, float &) {
        return half_at(plane(w, 1) + element / 32 * 2);
    }
    GK_DEVICE void rest(const weight_place &w, size_t element, block_piece &p) {
        p.scale[0] = factor(w, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) { return biased(p.bits[q]); }
    GK_DEVICE unsigned int word4(const weight_place &w, size_t element) {
        return biased(word_at(plane(w, 0) + element));
    }
};

// Quad q of 32 elements has the low nibbles of word q, or the high ones of word q - 4.
GK_DEVICE unsigned int nibbles(unsigned int word, unsigned int q) { return (q < 4 ? word : word >> 4) & 0x0f0f0f0fu; }
GK_DEVICE unsigned int nibbles_at(const weight_place &w, size_t element) {
    return nibbles(word_at(plane(w, 0) + element / 32 * 16 + element % 16), static_cast<unsigned int>(element % 32 / 4));
}

struct weight_of_q4_0 : weight_of_blocks<weight_of_q4_0, 8, 1, 8> {
    GK_DEVICE float factor(const weight_place &w, size_t element, float &) {
        return half_at(plane(w, 1) + element / 32 * 2);
    }
    GK_DEVICE void rest(const weight_place &w, size_t element, block_piece &p) {
        p.scale[0] = factor(w, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const weight_place &w, size_t element) { return nibbles_at(w, element); }
};

struct weight_of_q4_k : weight_of_blocks<weight_of_q4_k, 8, 1, 0> {
    enum { MINIMUM = 1 };
    GK_DEVICE float factor(const weight_place &w, size_t element, float &minimum) {
        const uint4 all = *reinterpret_cast<const uint4 *>(plane(w, 1) + element / 256 * 16);
        const unsigned int j = static_cast<unsigned int>(element % 256 / 32);
        const unsigned int low = (j < 4 ? all.y : all.z) >> (j % 4 * 8);
        const unsigned int high = all.w >> (j * 4);
        minimum = half_to_float(static_cast<unsigned short>(all.x >> 16)) * static_cast<float>((low >> 4 & 15u) | (high & 12u) << 2);
        return half_to_float(static_cast<unsigned short>(all.x & 0xffffu)) * static_cast<float>((low & 15u) | (high & 3u) << 4);
    }
    GK_DEVICE void rest(const weight_place &w, size_t element, block_piece &p) {
        p.scale[0] = factor(w, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const weight_place &w, size_t element) { return nibbles_at(w, element); }
    // Because of the minimum, the factor has to be applied to each quad.
    GK_DEVICE float scale(const block_piece &, int) { return 1.0f; }
    GK_DEVICE void quad(const block_piece &p, int q, float *out) {
        const unsigned int four = word(p, q);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = p.scale[0] * quant_to_float(four, i, 0) - p.minimum;
    }
};

struct weight_of_q6_k : weight_of_blocks<weight_of_q6_k, 8, 2, 32> {
    // The high bits of quad q of 32 elements, in a word for 16 elements, two bits of each byte.
    GK_DEVICE unsigned int high_bits(unsigned int word, unsigned int q) {
        return ((word >> (q % 4 * 2)) & 0x03030303u) << 4;
    }
    GK_DEVICE float factor(const weight_place &w, size_t element, float &) {
        const int scale = *reinterpret_cast<const signed char *>(plane(w, 2) + element / 16);
        return half_at(plane(w, 3) + element / 256 * 2) * static_cast<float>(scale);
    }
    GK_DEVICE void rest(const weight_place &w, size_t element, block_piece &p) {
        const uint2 high = *reinterpret_cast<const uint2 *>(plane(w, 1) + element / 4);
        p.high[0] = high.x;
        p.high[1] = high.y;
        p.scale[0] = factor(w, element, p.minimum);
        p.scale[1] = factor(w, element + 16, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q)) | high_bits(p.high[q / 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const weight_place &w, size_t element) {
        return nibbles_at(w, element) |
               high_bits(word_at(plane(w, 1) + element / 16 * 4), static_cast<unsigned int>(element % 16 / 4));
    }
};

// X(type, whether it has blocks), in the order of gpu_type_index.
#define GK_GPU_WEIGHTS(X) X(f32, 0) X(f16, 0) X(bf16, 0) X(q8_0, 1) X(q4_0, 1) X(q4_k, 1) X(q6_k, 1)

#endif
