/* Converts weights between the GGUF layout and that of cpu.h. */
#include "cpu.h"
#include "host.h"

enum { QUAD = 4, CHUNK = CPU_GROUP * QUAD };

uint64_t gk_cpu_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1) {
    uint64_t group, bytes;
    if (!gk_mul_u64(gk_row_bytes(type, ne0), CPU_GROUP, &group)) return 0;
    return gk_mul_u64(group, cpu_groups(ne1), &bytes) ? gk_align_u64(bytes, 64) : 0;
}

/* Where a row stores its part of a block. */
typedef struct place {
    unsigned char *quants; /* the row's quad of the first chunk */
    unsigned char *scales; /* of the block */
    uint64_t lane;
} place;

static place place_of(unsigned char *weight, const gk_tensor *w, uint64_t row, uint64_t block) {
    const uint64_t blocks = w->ne[0] / gk_type_block_elements(w->type), group = row / CPU_GROUP, lane = row % CPU_GROUP;
    unsigned char *scales = weight + cpu_groups(w->ne[1]) * blocks * cpu_quant_bytes(w->type);
    return (place){
        .quants = weight + (group * blocks + block) * cpu_quant_bytes(w->type) + lane * QUAD,
        .scales = scales + (group * blocks + block) * cpu_scale_bytes(w->type),
        .lane = lane,
    };
}

/* Moves `count` pieces of `size` bytes between consecutive positions in a GGUF block and positions `stride` bytes
 * apart. */
static void move(bool in, unsigned char *there, unsigned char *here, size_t count, size_t stride, size_t size) {
    for (size_t n = 0; n < count; n++) {
        if (in) memcpy(there + n * stride, here + n * size, size);
        else memcpy(here + n * size, there + n * stride, size);
    }
}

/* Moves a GGUF block to its place, or back. */
static void move_block(bool in, uint32_t type, place p, unsigned char *block) {
    unsigned char *halves = p.scales + 2 * p.lane;
    switch (type) {
    case GK_Q8_0:
    case GK_Q4_0:
        move(in, p.quants, block + 2, type == GK_Q8_0 ? 8 : 4, CHUNK, QUAD);
        move(in, halves, block, 1, 0, 2);
        break;
    case GK_Q4_K:
        move(in, p.quants, block + 16, 32, CHUNK, QUAD);
        move(in, halves, block, 2, 2 * CPU_GROUP, 2);
        move(in, p.scales + 64 + p.lane, block + 4, 12, CPU_GROUP, 1);
        break;
    case GK_Q6_K:
        for (size_t half = 0; half < 2; half++) {
            unsigned char *quants = p.quants + half * 24 * CHUNK;
            move(in, quants, block + 128 + 32 * half, 8, 3 * CHUNK, QUAD);
            move(in, quants + CHUNK, block + 64 * half, 8, 3 * CHUNK, QUAD);
            move(in, quants + 2 * CHUNK, block + 64 * half + 32, 8, 3 * CHUNK, QUAD);
        }
        move(in, halves, block + 208, 1, 0, 2);
        move(in, p.scales + 32 + p.lane, block + 192, 16, CPU_GROUP, 1);
        break;
    default: break;
    }
}

static void flip_signs(unsigned char *bytes, size_t count) {
    for (size_t n = 0; n < count; n++) bytes[n] ^= 0x80;
}

static void put_blocks(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const unsigned char *source, uint64_t row) {
    unsigned char block[256];
    const size_t bytes = gk_type_block_bytes(w->type);
    for (uint64_t b = 0; b < w->ne[0] / gk_type_block_elements(w->type); b++, source += bytes) {
        memcpy(block, source, bytes);
        if (w->type == GK_Q8_0 && isa->unsigned_quants) flip_signs(block + 2, 32);
        move_block(true, w->type, place_of(weight, w, row, b), block);
    }
}

/* Which element of a weight of a plain type is stored at this row and k. */
static uint64_t plain_place(const cpu_isa *isa, const gk_tensor *w, uint64_t row, uint64_t k) {
    const uint64_t group = row / CPU_GROUP * CPU_GROUP * w->ne[0], lane = row % CPU_GROUP;
    const bool paired = isa->bf16_pairs && w->type == GK_BF16 && (k | 1) < w->ne[0];
    return paired ? group + k / 2 * 2 * CPU_GROUP + 2 * lane + k % 2 : group + k * CPU_GROUP + lane;
}

static void put_plain(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const unsigned char *source, uint64_t row) {
    const uint64_t size = gk_type_block_bytes(w->type);
    for (uint64_t k = 0; k < w->ne[0]; k++) memcpy(weight + plain_place(isa, w, row, k) * size, source + k * size, (size_t)size);
}

void gk_cpu_weight_put(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const void *rows, uint64_t first,
                       uint64_t count) {
    const uint64_t bytes = gk_row_bytes(w->type, w->ne[0]);
    for (uint64_t n = 0; n < count; n++) {
        const unsigned char *source = (const unsigned char *)rows + n * bytes;
        if (gk_is_block_type(w->type)) put_blocks(isa, weight, w, source, first + n);
        else put_plain(isa, weight, w, source, first + n);
    }
}

void gk_cpu_weight_row(const cpu_isa *isa, const gk_tensor *w, uint64_t row, float *out) {
    unsigned char *weight = gk_host_pointer(w), block[256];
    if (!gk_is_block_type(w->type)) {
        const uint64_t size = gk_type_block_bytes(w->type);
        for (uint64_t k = 0; k < w->ne[0]; k++) {
            memcpy(block, weight + plain_place(isa, w, row, k) * size, (size_t)size);
            out[k] = (float)gk_row_value(w->type, block, 0);
        }
        return;
    }
    const uint32_t elements = gk_type_block_elements(w->type);
    for (uint64_t b = 0; b < w->ne[0] / elements; b++) {
        move_block(false, w->type, place_of(weight, w, row, b), block);
        if (w->type == GK_Q8_0 && isa->unsigned_quants) flip_signs(block + 2, 32);
        for (uint32_t k = 0; k < elements; k++) out[b * elements + k] = (float)gk_row_value(w->type, block, k);
    }
}
