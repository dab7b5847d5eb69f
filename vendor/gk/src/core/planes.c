/* See planes.h. blocks.c decodes the bits of a block. */
#include "planes.h"

typedef struct layout {
    uint32_t type, bytes[GK_PLANES];
} layout;

static const layout LAYOUTS[] = {
    {GK_F32, {4}},          {GK_F16, {2}},     {GK_BF16, {2}},
    {GK_Q8_0, {32, 2}},     {GK_Q4_0, {16, 2}}, {GK_Q4_K, {128, 16}},
    {GK_Q6_K, {128, 64, 16, 2}},
};

bool gk_planes_of(uint32_t type, uint64_t ne0, uint64_t ne1, gk_planes *out) {
    *out = (gk_planes){.block_bytes = gk_type_block_bytes(type)};
    if (ne1 == 0 || gk_row_bytes(type, ne0) == 0) return false;
    out->row_blocks = ne0 / gk_type_block_elements(type);
    uint64_t blocks;
    if (!gk_mul_u64(out->row_blocks, ne1, &blocks)) return false;
    for (size_t n = 0; n < sizeof LAYOUTS / sizeof *LAYOUTS; n++) {
        if (LAYOUTS[n].type != type) continue;
        for (; out->count < GK_PLANES && LAYOUTS[n].bytes[out->count] != 0; out->count++) {
            const uint32_t p = out->count;
            uint64_t bytes;
            out->bytes[p] = LAYOUTS[n].bytes[p];
            out->offset[p] = out->size;
            if (out->size / GK_PLANE_UNIT > UINT32_MAX || !gk_mul_u64(blocks, out->bytes[p], &bytes)) return false;
            bytes = gk_align_u64(bytes, GK_PLANE_UNIT);
            if (bytes == 0 || !gk_add_u64(out->size, bytes, &out->size)) return false;
        }
    }
    return out->count != 0;
}

uint64_t gk_planes_bytes(uint32_t type, uint64_t ne0, uint64_t ne1) {
    gk_planes planes;
    return gk_planes_of(type, ne0, ne1, &planes) ? planes.size : 0;
}

void gk_planes_stage(const gk_planes *planes, unsigned char *memory, uint64_t count, unsigned char *out[GK_PLANES]) {
    for (uint32_t p = 0; p < GK_PLANES; p++) {
        out[p] = memory;
        memory += count * planes->bytes[p];
    }
}

/* 32 numbers of four bits. */
static void pack_nibbles(const unsigned char *values, unsigned char *out) {
    for (int i = 0; i < 16; i++) out[i] = (unsigned char)((values[i] & 15) | (values[16 + i] & 15) << 4);
}

static void split_q4_k(const unsigned char *block, unsigned char *nibbles, unsigned char *scales) {
    unsigned char values[32];
    for (uint32_t j = 0; j < 8; j++) {
        const unsigned char *source = block + 16 + j / 2 * 32;
        for (int i = 0; i < 32; i++) values[i] = (unsigned char)(source[i] >> j % 2 * 4);
        pack_nibbles(values, nibbles + 16 * j);
    }
    memcpy(scales, block, 4);
    memset(scales + 4, 0, 12);
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t scale, minimum;
        gk_q4_k_scales(block + 4, j, &scale, &minimum);
        scales[4 + j] = (unsigned char)((scale & 15) | (minimum & 15) << 4);
        scales[12 + j / 2] |= (unsigned char)((scale >> 4 | minimum >> 4 << 2) << j % 2 * 4);
    }
}

static void split_q6_k(const unsigned char *block, unsigned char *nibbles, unsigned char *high) {
    unsigned char values[32];
    memset(high, 0, 64);
    for (uint32_t part = 0; part < 8; part++, high += 8) { /* 32 elements each */
        const uint32_t half = part / 4, quarter = part % 4;
        const unsigned char *low = block + 64 * half + 32 * (quarter % 2), *rest = block + 128 + 32 * half;
        for (int i = 0; i < 32; i++) {
            values[i] = (unsigned char)(low[i] >> quarter / 2 * 4);
            high[i / 16 * 4 + i % 4] |= (unsigned char)((rest[i] >> 2 * quarter & 3) << i % 16 / 4 * 2);
        }
        pack_nibbles(values, nibbles + 16 * part);
    }
}

void gk_planes_split(uint32_t type, const unsigned char *blocks, uint64_t count, unsigned char *const out[GK_PLANES]) {
    const uint32_t bytes = gk_type_block_bytes(type);
    for (uint64_t n = 0; n < count; n++, blocks += bytes) {
        switch (type) {
        case GK_Q8_0:
        case GK_Q4_0: {
            const uint32_t quants = bytes - 2;
            memcpy(out[0] + n * quants, blocks + 2, quants);
            memcpy(out[1] + n * 2, blocks, 2);
            break;
        }
        case GK_Q4_K: split_q4_k(blocks, out[0] + n * 128, out[1] + n * 16); break;
        case GK_Q6_K:
            split_q6_k(blocks, out[0] + n * 128, out[1] + n * 64);
            memcpy(out[2] + n * 16, blocks + 192, 16);
            memcpy(out[3] + n * 2, blocks + 208, 2);
            break;
        default: break;
        }
    }
}
