/* Converts weights between the GGUF layout and that of cpu.h. */
#include "compiler.h"
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

/* Moves `count` pieces of at most 4 bytes between consecutive positions in a GGUF block and positions `stride` bytes
 * apart, and inverts the bits `flip`. */
INLINE void move(bool in, unsigned char *there, unsigned char *here, size_t count, size_t stride, size_t size, uint32_t flip) {
    for (size_t n = 0; n < count; n++) {
        unsigned char *stored = there + n * stride, *given = here + n * size;
        uint32_t piece = 0;
        memcpy(&piece, in ? given : stored, size);
        piece ^= flip;
        memcpy(in ? stored : given, &piece, size);
    }
}

/* Moves a GGUF block to its place, or back. `flip` inverts the signs of q8_0. */
INLINE void move_block(bool in, const uint32_t type, place p, unsigned char *block, uint32_t flip) {
    unsigned char *halves = p.scales + 2 * p.lane;
    switch (type) {
    case GK_Q8_0:
    case GK_Q4_0:
        move(in, p.quants, block + 2, type == GK_Q8_0 ? 8 : 4, CHUNK, QUAD, type == GK_Q8_0 ? flip : 0);
        move(in, halves, block, 1, 0, 2, 0);
        break;
    case GK_Q4_K:
        move(in, p.quants, block + 16, 32, CHUNK, QUAD, 0);
        move(in, halves, block, 2, 2 * CPU_GROUP, 2, 0);
        move(in, p.scales + 64 + p.lane, block + 4, 12, CPU_GROUP, 1, 0);
        break;
    case GK_Q6_K:
        for (size_t half = 0; half < 2; half++) {
            unsigned char *quants = p.quants + half * 24 * CHUNK;
            move(in, quants, block + 128 + 32 * half, 8, 3 * CHUNK, QUAD, 0);
            move(in, quants + CHUNK, block + 64 * half, 8, 3 * CHUNK, QUAD, 0);
            move(in, quants + 2 * CHUNK, block + 64 * half + 32, 8, 3 * CHUNK, QUAD, 0);
        }
        move(in, halves, block + 208, 1, 0, 2, 0);
        move(in, p.scales + 32 + p.lane, block + 192, 16, CPU_GROUP, 1, 0);
        break;
    default: break;
    }
}

static uint32_t flip_of(const cpu_isa *isa) { return isa->unsigned_quants ? 0x80808080u : 0; }

/* Rows of one group, block after block: the blocks of a group are next to each other in memory. */
INLINE void put_blocks(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const unsigned char *source, uint64_t row, uint64_t count,
                       const uint32_t type, const size_t bytes) {
    const uint64_t blocks = w->ne[0] / gk_type_block_elements(type), row_bytes = blocks * bytes;
    const uint32_t flip = flip_of(isa);
    place p = place_of(weight, w, row, 0);
    for (uint64_t b = 0; b < blocks; b++, p.quants += cpu_quant_bytes(type), p.scales += cpu_scale_bytes(type)) {
        for (uint64_t n = 0; n < count; n++) {
            /* move_block only reads the block in this direction. A copy of it would cost more than moving it. */
            unsigned char *block = (unsigned char *)(uintptr_t)(source + n * row_bytes + b * bytes);
            move_block(true, type, (place){p.quants + n * QUAD, p.scales, p.lane + n}, block, flip);
        }
    }
}

/* Which element of a weight of a plain type is stored at this row and k. */
static uint64_t plain_place(const cpu_isa *isa, const gk_tensor *w, uint64_t row, uint64_t k) {
    const uint64_t group = row / CPU_GROUP * CPU_GROUP * w->ne[0], lane = row % CPU_GROUP;
    const bool paired = isa->bf16_pairs && w->type == GK_BF16 && (k | 1) < w->ne[0];
    return paired ? group + k / 2 * 2 * CPU_GROUP + 2 * lane + k % 2 : group + k * CPU_GROUP + lane;
}

INLINE void put_plain(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const unsigned char *source, uint64_t row, uint64_t count,
                      const size_t size) {
    const uint64_t row_bytes = w->ne[0] * size;
    for (uint64_t k = 0; k < w->ne[0]; k++) {
        unsigned char *to = weight + plain_place(isa, w, row, k) * size;
        const size_t step = (size_t)(plain_place(isa, w, row + 1, k) - plain_place(isa, w, row, k)) * size;
        for (uint64_t n = 0; n < count; n++) memcpy(to + n * step, source + n * row_bytes + k * size, size);
    }
}

/* Rows of one group. Types and sizes of blocks are constants for the compiler. */
static void put_rows(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const unsigned char *source, uint64_t row, uint64_t count) {
    switch (w->type) {
    case GK_Q8_0: put_blocks(isa, weight, w, source, row, count, GK_Q8_0, 34); break;
    case GK_Q4_0: put_blocks(isa, weight, w, source, row, count, GK_Q4_0, 18); break;
    case GK_Q4_K: put_blocks(isa, weight, w, source, row, count, GK_Q4_K, 144); break;
    case GK_Q6_K: put_blocks(isa, weight, w, source, row, count, GK_Q6_K, 210); break;
    case GK_F32: put_plain(isa, weight, w, source, row, count, sizeof(float)); break;
    default: put_plain(isa, weight, w, source, row, count, sizeof(uint16_t)); break;
    }
}

void gk_cpu_weight_put(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const void *rows, uint64_t first,
                       uint64_t count) {
    const uint64_t bytes = gk_row_bytes(w->type, w->ne[0]);
    for (uint64_t row = first, here; row < first + count; row += here) {
        const uint64_t left = first + count - row, of_group = CPU_GROUP - row % CPU_GROUP;
        here = left < of_group ? left : of_group;
        put_rows(isa, weight, w, (const unsigned char *)rows + (row - first) * bytes, row, here);
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
        move_block(false, w->type, place_of(weight, w, row, b), block, flip_of(isa));
        for (uint32_t k = 0; k < elements; k++) out[b * elements + k] = (float)gk_row_value(w->type, block, k);
    }
}
