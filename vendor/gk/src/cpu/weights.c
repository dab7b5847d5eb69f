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

#if defined(__clang__)
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector((type)(a), (type)(b), __VA_ARGS__)
#elif defined(__GNUC__) /* has the other function only since version 12 */
#define SHUFFLE(type, a, b, ...) __builtin_shuffle((type)(a), (type)(b), (type){__VA_ARGS__})
#endif
#if defined(SHUFFLE)
typedef uint32_t words __attribute__((vector_size(16)));
typedef uint16_t shorts __attribute__((vector_size(16)));

/* Transposes a square of 8 x 8 units of 2 bytes, or 4 x 4 of 4 bytes. Interleaving its two halves rotates the bits of the
 * index of every unit by one; after three or two times, row and column are swapped. */
INLINE void transpose(unsigned char *out, size_t out_step, const unsigned char *in, size_t in_step, const size_t unit, uint32_t flip) {
    const size_t side = 16 / unit, half = side / 2;
    words a[8], b[8];
    for (size_t n = 0; n < side; n++) memcpy(&a[n], in + n * in_step, sizeof *a);
    for (size_t times = 1; times < side; times *= 2) {
        for (size_t n = 0; n < side; n++) b[n] = a[n];
        for (size_t n = 0; n < half; n++) {
            const words x = b[n], y = b[n + half];
            a[2 * n] = unit == 4 ? SHUFFLE(words, x, y, 0, 4, 1, 5) : (words)SHUFFLE(shorts, x, y, 0, 8, 1, 9, 2, 10, 3, 11);
            a[2 * n + 1] = unit == 4 ? SHUFFLE(words, x, y, 2, 6, 3, 7) : (words)SHUFFLE(shorts, x, y, 4, 12, 5, 13, 6, 14, 7, 15);
        }
    }
    for (size_t n = 0; n < side; n++) {
        a[n] ^= flip;
        memcpy(out + n * out_step, &a[n], sizeof *a);
    }
}
#endif

/* Rows of a group in the GGUF layout. */
typedef struct given_rows {
    unsigned char *at;
    uint64_t count, bytes; /* rows; from one to the next */
} given_rows;

/* Moves `count` pieces of at most 4 bytes between consecutive positions in each given row, starting at byte `from`, and
 * positions `stride` bytes apart, where the pieces of the next row follow. Inverts the bits `flip`. */
INLINE void move(bool in, unsigned char *there, given_rows rows, size_t from, size_t count, size_t stride, const size_t size, uint32_t flip) {
    unsigned char *here = rows.at + from;
    size_t squares = 0; /* pieces that are moved in squares */
#if defined(SHUFFLE)
    const size_t side = 16 / size;
    if (in && size > 1 && rows.count == CPU_GROUP) squares = count / side * side;
    for (size_t n = 0; n < squares; n += side) {
        for (size_t row = 0; row < CPU_GROUP; row += side)
            transpose(there + n * stride + row * size, stride, here + row * rows.bytes + n * size, (size_t)rows.bytes, size, flip);
    }
#endif
    for (size_t row = 0; row < rows.count; row++) {
        for (size_t n = squares; n < count; n++) {
            unsigned char *stored = there + n * stride + row * size, *given = here + row * rows.bytes + n * size;
            uint32_t piece = 0;
            memcpy(&piece, in ? given : stored, size);
            piece ^= flip;
            memcpy(in ? stored : given, &piece, size);
        }
    }
}

/* Moves the bits of 128 quants of q6_k in each row between the layout of cpu.h and that of GGUF: the low bits of the first and
 * third of four quants in one byte, those of the second and fourth in the next, their high bits in the last. */
INLINE void move_six_bits(bool in, uint32_t *to, const uint32_t *from, uint64_t rows) {
    enum { NEXT = 8 * CPU_GROUP };
#define EACH(byte) (byte * 0x01010101u)
    for (size_t n = 0; n < NEXT; n += CPU_GROUP) {
        for (size_t at = n; at < n + rows; at++) {
            const uint32_t a = from[at], b = from[at + NEXT], c = from[at + 2 * NEXT];
            to[at] = (a & EACH(15)) | (in ? (c << 4 & EACH(48)) | (c & EACH(192)) : c << 4 & EACH(240));
            to[at + NEXT] = (b & EACH(207)) | ((in ? c << 2 : c >> 2) & EACH(48));
            to[at + 2 * NEXT] = (c & EACH(48)) | (in ? (a >> 4 & EACH(15)) | (b << 2 & EACH(192))
                                                    : (a >> 4 & EACH(3)) | (b >> 2 & EACH(12)) | (a & EACH(192)));
        }
    }
}

/* Moves a GGUF block of each row to its place, or back. `flip` inverts the signs of q8_0. */
INLINE void move_block(bool in, const uint32_t type, place p, given_rows block, uint32_t flip) {
    unsigned char *halves = p.scales + 2 * p.lane;
    switch (type) {
    case GK_Q8_0:
    case GK_Q4_0:
        move(in, p.quants, block, 2, type == GK_Q8_0 ? 8 : 4, CHUNK, QUAD, type == GK_Q8_0 ? flip : 0);
        move(in, halves, block, 0, 1, 0, 2, 0);
        break;
    case GK_Q4_K:
        move(in, p.quants, block, 16, 32, CHUNK, QUAD, 0);
        move(in, halves, block, 0, 2, 2 * CPU_GROUP, 2, 0);
        move(in, p.scales + 64 + p.lane, block, 4, 12, CPU_GROUP, 1, 0);
        break;
    case GK_Q6_K:
        for (size_t half = 0; half < 2; half++) {
            uint32_t bits[3 * 8 * CPU_GROUP], *quants = (uint32_t *)(void *)(p.quants + half * sizeof bits);
            unsigned char *const bytes = (unsigned char *)bits;
            if (!in) move_six_bits(in, bits, quants, block.count);
            for (size_t n = 0; n < 3; n++) move(in, bytes + n * 8 * CHUNK, block, n < 2 ? 64 * half + 32 * n : 128 + 32 * half, 8, CHUNK, QUAD, 0);
            if (in) move_six_bits(in, quants, bits, block.count);
        }
        move(in, halves, block, 208, 1, 0, 2, 0);
        move(in, p.scales + 32 + p.lane, block, 192, 16, CPU_GROUP, 1, 0);
        break;
    default: break;
    }
}

static uint32_t flip_of(const cpu_isa *isa) { return isa->unsigned_quants ? 0x80808080u : 0; }

/* Rows of one group, block after block: the blocks of a group are next to each other in memory. */
INLINE void put_blocks(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, given_rows rows, uint64_t row, const uint32_t type,
                       const size_t bytes) {
    const uint64_t blocks = rows.bytes / bytes;
    const uint32_t flip = flip_of(isa);
    place p = place_of(weight, w, row, 0);
    for (uint64_t b = 0; b < blocks; b++, p.quants += cpu_quant_bytes(type), p.scales += cpu_scale_bytes(type), rows.at += bytes)
        move_block(true, type, p, rows, flip);
}

/* Which element of a weight of a plain type is stored at this row and k. */
static uint64_t plain_place(const cpu_isa *isa, const gk_tensor *w, uint64_t row, uint64_t k) {
    const uint64_t group = row / CPU_GROUP * CPU_GROUP * w->ne[0], lane = row % CPU_GROUP;
    const bool paired = isa->bf16_pairs && w->type == GK_BF16 && (k | 1) < w->ne[0];
    return paired ? group + k / 2 * 2 * CPU_GROUP + 2 * lane + k % 2 : group + k * CPU_GROUP + lane;
}

/* Units are elements, or pairs of them. */
INLINE void put_plain(unsigned char *weight, given_rows rows, uint64_t row, const size_t unit) {
    const uint64_t lane = row % CPU_GROUP, units = rows.bytes / unit;
    unsigned char *group = weight + (row - lane) * rows.bytes, *rest = group + units * unit * CPU_GROUP;
    move(true, group + lane * unit, rows, 0, (size_t)units, CPU_GROUP * unit, unit, 0);
    if (rows.bytes % unit) move(true, rest + 2 * lane, rows, (size_t)units * unit, 1, 0, 2, 0);
}

/* Rows of one group. Types and sizes are constants for the compiler. */
static void put_rows(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, given_rows rows, uint64_t row) {
    switch (w->type) {
    case GK_Q8_0: put_blocks(isa, weight, w, rows, row, GK_Q8_0, 34); break;
    case GK_Q4_0: put_blocks(isa, weight, w, rows, row, GK_Q4_0, 18); break;
    case GK_Q4_K: put_blocks(isa, weight, w, rows, row, GK_Q4_K, 144); break;
    case GK_Q6_K: put_blocks(isa, weight, w, rows, row, GK_Q6_K, 210); break;
    default:
        if (w->type == GK_F32 || (w->type == GK_BF16 && isa->bf16_pairs)) put_plain(weight, rows, row, 4);
        else put_plain(weight, rows, row, 2);
    }
}

void gk_cpu_weight_put(const cpu_isa *isa, unsigned char *weight, const gk_tensor *w, const void *rows, uint64_t first,
                       uint64_t count) {
    const uint64_t bytes = gk_row_bytes(w->type, w->ne[0]);
    for (uint64_t row = first, here; row < first + count; row += here) {
        const uint64_t left = first + count - row, of_group = CPU_GROUP - row % CPU_GROUP;
        here = left < of_group ? left : of_group;
        /* They are only read in this direction. */
        unsigned char *at = (unsigned char *)(uintptr_t)rows + (row - first) * bytes;
        put_rows(isa, weight, w, (given_rows){at, here, bytes}, row);
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
        move_block(false, w->type, place_of(weight, w, row, b), (given_rows){block, 1, 0}, flip_of(isa));
        for (uint32_t k = 0; k < elements; k++) out[b * elements + k] = (float)gk_row_value(w->type, block, k);
    }
}
