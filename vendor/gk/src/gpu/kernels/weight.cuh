// Reads weights as weight_put lays them out (src/core/planes.h): what matvec, matmul_tile and embed know of the types.
//
// A type W has pieces, which are what a lane loads at once: 16 bytes of plane 0 with what belongs to them. A piece is
// W::QUADS quads of four neighbouring elements; the first W::SCALES-th of them share W::scale(piece, 0), and so on. Elements
// are numbered through the whole weight: row * k + column.
//   load(g, element, piece)    element: of an aligned piece
//   quad(piece, q, out)        q known when compiling; without the factor `scale`
//   load4(g, element, out)     a multiple of 4 in an aligned row
//   one(g, element)            any element
#ifndef GK_GPU_WEIGHT_CUH
#define GK_GPU_WEIGHT_CUH

GK_DEVICE const char *plane(const gk_gpu_args &g, int number) {
    return pointer<const char>(g.a) + (number == 0 ? 0 : static_cast<size_t>(g.plane[number - 1]) * 64);
}

GK_DEVICE unsigned int word_at(const char *address) { return *reinterpret_cast<const unsigned int *>(address); }
GK_DEVICE float half_at(const char *address) { return half_to_float(*reinterpret_cast<const unsigned short *>(address)); }

struct weight_of_f32 {
    enum { QUADS = 1, SCALES = 1 };
    struct piece {
        uint4 bits;
    };
    GK_DEVICE const char *at(const gk_gpu_args &g, size_t element) { return plane(g, 0) + element * 4; }
    GK_DEVICE void load(const gk_gpu_args &g, size_t element, piece &p) {
        p.bits = load_stream(at(g, element));
    }
    GK_DEVICE float scale(const piece &, int) { return 1.0f; }
    GK_DEVICE void quad(const piece &p, int, float *out) {
        out[0] = bits_to_float(p.bits.x);
        out[1] = bits_to_float(p.bits.y);
        out[2] = bits_to_float(p.bits.z);
        out[3] = bits_to_float(p.bits.w);
    }
    GK_DEVICE void load4(const gk_gpu_args &g, size_t element, float *out) {
        const float4 values = *reinterpret_cast<const float4 *>(at(g, element));
        out[0] = values.x;
        out[1] = values.y;
        out[2] = values.z;
        out[3] = values.w;
    }
    GK_DEVICE float one(const gk_gpu_args &g, size_t element) {
        return *reinterpret_cast<const float *>(at(g, element));
    }
};

// Types of 16 bits; T::widen makes a float of one.
template <class T> struct weight_of_sixteen {
    enum { QUADS = 2, SCALES = 1 };
    struct piece {
        unsigned int bits[4];
    };
    GK_DEVICE const char *at(const gk_gpu_args &g, size_t element) { return plane(g, 0) + element * 2; }
    GK_DEVICE void load(const gk_gpu_args &g, size_t element, piece &p) {
        const uint4 bits = load_stream(at(g, element));
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
    GK_DEVICE void load4(const gk_gpu_args &g, size_t element, float *out) {
        const uint2 bits = *reinterpret_cast<const uint2 *>(at(g, element));
        pair(bits.x, out);
        pair(bits.y, out + 2);
    }
    GK_DEVICE float one(const gk_gpu_args &g, size_t element) {
        return T::widen(*reinterpret_cast<const unsigned short *>(at(g, element)));
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

// Types of blocks. A quant is an unsigned byte less T::OFFSET, times a factor, less a minimum.
struct block_piece {
    unsigned int bits[4];
    unsigned int high[2]; // q6_k: two more bits of each element
    float scale[2];       // of the first and of the second half
    float minimum;        // q4_k: is subtracted
};

// T has: rest(g, element, piece) for all but the bits of a piece, word(piece, q) for the four bytes of a quad, word4(g, element)
// for those of a quad in memory, and factor(g, element, minimum).
template <class T, int QUADS_, int SCALES_, int OFFSET> struct weight_of_blocks {
    enum { QUADS = QUADS_, SCALES = SCALES_ };
    typedef block_piece piece;
    GK_DEVICE void load(const gk_gpu_args &g, size_t element, piece &p) {
        const uint4 bits = load_stream(plane(g, 0) + element * 4 / QUADS);
        p.bits[0] = bits.x;
        p.bits[1] = bits.y;
        p.bits[2] = bits.z;
        p.bits[3] = bits.w;
        T::rest(g, element, p);
    }
    GK_DEVICE float scale(const piece &p, int part) { return p.scale[part]; }
    GK_DEVICE void quad(const piece &p, int q, float *out) {
        const unsigned int word = T::word(p, q);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = quant_to_float(word, i, OFFSET);
    }
    GK_DEVICE void load4(const gk_gpu_args &g, size_t element, float *out) {
        const unsigned int word = T::word4(g, element);
        float minimum = 0.0f;
        const float factor = T::factor(g, element, minimum);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = factor * quant_to_float(word, i, OFFSET) - minimum;
    }
    GK_DEVICE float one(const gk_gpu_args &g, size_t element) {
        const unsigned int word = T::word4(g, element / 4 * 4) >> (8 * (element % 4));
        float minimum = 0.0f;
        const float factor = T::factor(g, element, minimum);
        return factor * quant_to_float(word, 0, OFFSET) - minimum;
    }
};

// Signed bytes, made unsigned by their highest bit.
struct weight_of_q8_0 : weight_of_blocks<weight_of_q8_0, 4, 1, 128> {
    GK_DEVICE unsigned int biased(unsigned int word) { return word ^ 0x80808080u; }
    GK_DEVICE float factor(const gk_gpu_args &g, size_t element, float &) {
        return half_at(plane(g, 1) + element / 32 * 2);
    }
    GK_DEVICE void rest(const gk_gpu_args &g, size_t element, block_piece &p) {
        p.scale[0] = factor(g, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) { return biased(p.bits[q]); }
    GK_DEVICE unsigned int word4(const gk_gpu_args &g, size_t element) {
        return biased(word_at(plane(g, 0) + element));
    }
};

// Quad q of 32 elements has the low nibbles of word q, or the high ones of word q - 4.
GK_DEVICE unsigned int nibbles(unsigned int word, unsigned int q) { return (q < 4 ? word : word >> 4) & 0x0f0f0f0fu; }
GK_DEVICE unsigned int nibbles_at(const gk_gpu_args &g, size_t element) {
    return nibbles(word_at(plane(g, 0) + element / 32 * 16 + element % 16), static_cast<unsigned int>(element % 32 / 4));
}

struct weight_of_q4_0 : weight_of_blocks<weight_of_q4_0, 8, 1, 8> {
    GK_DEVICE float factor(const gk_gpu_args &g, size_t element, float &) {
        return half_at(plane(g, 1) + element / 32 * 2);
    }
    GK_DEVICE void rest(const gk_gpu_args &g, size_t element, block_piece &p) {
        p.scale[0] = factor(g, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const gk_gpu_args &g, size_t element) { return nibbles_at(g, element); }
};

struct weight_of_q4_k : weight_of_blocks<weight_of_q4_k, 8, 1, 0> {
    GK_DEVICE float factor(const gk_gpu_args &g, size_t element, float &minimum) {
        const uint4 all = *reinterpret_cast<const uint4 *>(plane(g, 1) + element / 256 * 16);
        const unsigned int j = static_cast<unsigned int>(element % 256 / 32);
        const unsigned int low = (j < 4 ? all.y : all.z) >> (j % 4 * 8);
        const unsigned int high = all.w >> (j * 4);
        minimum = half_to_float(static_cast<unsigned short>(all.x >> 16)) * static_cast<float>((low >> 4 & 15u) | (high & 12u) << 2);
        return half_to_float(static_cast<unsigned short>(all.x & 0xffffu)) * static_cast<float>((low & 15u) | (high & 3u) << 4);
    }
    GK_DEVICE void rest(const gk_gpu_args &g, size_t element, block_piece &p) {
        p.scale[0] = factor(g, element, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const gk_gpu_args &g, size_t element) { return nibbles_at(g, element); }
    // With the minimum, the factor cannot wait for the end of the piece.
    GK_DEVICE float scale(const block_piece &, int) { return 1.0f; }
    GK_DEVICE void quad(const block_piece &p, int q, float *out) {
        const unsigned int four = word(p, q);
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = p.scale[0] * quant_to_float(four, i, 0) - p.minimum;
    }
};

struct weight_of_q6_k : weight_of_blocks<weight_of_q6_k, 8, 2, 32> {
    // The high bits of quad q of 32 elements lie in a word of 16, two bits of each byte.
    GK_DEVICE unsigned int high_bits(unsigned int word, unsigned int q) {
        return ((word >> (q % 4 * 2)) & 0x03030303u) << 4;
    }
    GK_DEVICE float factor(const gk_gpu_args &g, size_t element, float &) {
        const int scale = *reinterpret_cast<const signed char *>(plane(g, 2) + element / 16);
        return half_at(plane(g, 3) + element / 256 * 2) * static_cast<float>(scale);
    }
    GK_DEVICE void rest(const gk_gpu_args &g, size_t element, block_piece &p) {
        const uint2 high = *reinterpret_cast<const uint2 *>(plane(g, 1) + element / 4);
        p.high[0] = high.x;
        p.high[1] = high.y;
        p.scale[0] = factor(g, element, p.minimum);
        p.scale[1] = factor(g, element + 16, p.minimum);
    }
    GK_DEVICE unsigned int word(const block_piece &p, int q) {
        return nibbles(p.bits[q % 4], static_cast<unsigned int>(q)) | high_bits(p.high[q / 4], static_cast<unsigned int>(q));
    }
    GK_DEVICE unsigned int word4(const gk_gpu_args &g, size_t element) {
        return nibbles_at(g, element) |
               high_bits(word_at(plane(g, 1) + element / 16 * 4), static_cast<unsigned int>(element % 16 / 4));
    }
};

// X(type, whether it has blocks), in the order of gpu_type_index.
#define GK_GPU_WEIGHTS(X) X(f32, 0) X(f16, 0) X(bf16, 0) X(q8_0, 1) X(q4_0, 1) X(q4_k, 1) X(q6_k, 1)

#endif
