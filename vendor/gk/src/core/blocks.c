/* Reads one element of a row in the GGUF layout, for every weight type. The only place that decodes the bits of a
 * block. */
#include "gk_internal.h"

static double half_at(const unsigned char *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return (double)gk_f32_of_f16(half);
}

/* A 6-bit scale and a 6-bit minimum for each of the 8 sub-blocks of q4_k, packed in 12 bytes. */
void gk_q4_k_scales(const unsigned char *s, uint32_t j, uint32_t *scale, uint32_t *minimum) {
    if (j < 4) {
        *scale = s[j] & 63u;
        *minimum = s[j + 4] & 63u;
    } else {
        *scale = (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4;
        *minimum = (uint32_t)(s[j + 4] >> 4) | (uint32_t)(s[j] >> 6) << 4;
    }
}

static double q4_k_value(const unsigned char *block, uint32_t k) {
    const uint32_t j = k / 32;
    const unsigned char byte = block[16 + k / 64 * 32 + k % 32];
    uint32_t scale, minimum;
    gk_q4_k_scales(block + 4, j, &scale, &minimum);
    return half_at(block) * scale * (j % 2 ? byte >> 4 : byte & 15) - half_at(block + 2) * minimum;
}

/* Low four bits, high two bits, a signed scale per 16 elements, then the scale of the block. */
static double q6_k_value(const unsigned char *block, uint32_t k) {
    const uint32_t half = k / 128, quarter = k % 128 / 32, l = k % 32;
    const unsigned char low = block[64 * half + 32 * (quarter % 2) + l], high = block[128 + 32 * half + l];
    const int quant = (quarter / 2 ? low >> 4 : low & 15) | (high >> (2 * quarter) & 3) << 4;
    return half_at(block + 208) * (int8_t)block[192 + k / 16] * (quant - 32);
}

/* The sizes are constants here, so that nothing is divided by a variable: the reference calls this for every product. */
double gk_row_value(uint32_t type, const unsigned char *row, uint64_t column) {
    const uint32_t k = (uint32_t)(column % 32), k_256 = (uint32_t)(column % 256);
    switch (type) {
    case GK_F16: return half_at(row + 2 * column);
    case GK_BF16: {
        uint16_t bits;
        memcpy(&bits, row + 2 * column, sizeof bits);
        return (double)gk_f32_of_bf16(bits);
    }
    case GK_Q8_0: {
        const unsigned char *block = row + column / 32 * 34;
        return half_at(block) * (int8_t)block[2 + k];
    }
    case GK_Q4_0: {
        const unsigned char *block = row + column / 32 * 18;
        return half_at(block) * ((k < 16 ? block[2 + k] & 15 : block[2 + k - 16] >> 4) - 8);
    }
    case GK_Q4_K: return q4_k_value(row + column / 256 * 144, k_256);
    case GK_Q6_K: return q6_k_value(row + column / 256 * 210, k_256);
    default: {
        float value;
        memcpy(&value, row + 4 * column, sizeof value);
        return (double)value;
    }
    }
}
