/* Weights in the layout of the GPU backends: GGUF blocks split into planes, so that every piece a kernel loads is
 * aligned and as wide as possible. A plane holds the same part of every block, in the order of the blocks; a row is
 * a whole number of blocks, so any run of rows is one run of bytes in each plane. Bits are moved, never rounded: the
 * layout is lossless.
 *
 *   type      plane 0                          plane 1           plane 2        plane 3
 *   f32 ...   the rows, unchanged
 *   q8_0      32 x i8                          f16 scale
 *   q4_0      16 bytes, nibbles                f16 scale
 *   q4_k      8 x 16 bytes, nibbles            16 bytes, below
 *   q6_k      8 x 16 bytes, low nibbles        8 x 8 bytes       16 x i8 scale  f16 scale
 *
 * Nibbles: 16 bytes are 32 neighbouring elements; byte i has element i in its low nibble and element 16 + i in its
 * high nibble.
 * q4_k, plane 1: f16 scale, f16 minimum; 8 bytes, byte j: four low bits of scale j, then of minimum j; 4 bytes,
 * nibble j: two high bits of scale j, then of minimum j.
 * q6_k, plane 1: the two high bits of 32 elements as two words of 16; bits 2i and 2i + 1 of byte j of a word are
 * those of its element 4i + j.
 * q6_k, plane 2: scale s applies to elements 16 s to 16 s + 15. */
#ifndef GK_PLANES_H
#define GK_PLANES_H

#include "gk_internal.h"

enum { GK_PLANES = 4, GK_PLANE_UNIT = 64 /* bytes; planes begin at multiples of this */ };

typedef struct gk_planes {
    uint32_t count;              /* planes in use */
    uint32_t bytes[GK_PLANES];   /* bytes of one block in each plane */
    uint32_t block_bytes;        /* bytes of a GGUF block: the sum of the above */
    uint64_t row_blocks;         /* blocks in a row */
    uint64_t offset[GK_PLANES];  /* start of each plane, relative to the weight */
    uint64_t size;               /* bytes of all planes, a multiple of 64 */
} gk_planes;

/* Computes the planes of a weight {ne0, ne1}. False if `type` is not a weight type, if rows end inside a block, or
 * if an offset in units of GK_PLANE_UNIT, as passed to kernels, does not fit 32 bits. */
bool gk_planes_of(uint32_t type, uint64_t ne0, uint64_t ne1, gk_planes *out);

/* gk_backend.weight_bytes for backends with planes: 0 if gk_planes_of fails. */
uint64_t gk_planes_bytes(uint32_t type, uint64_t ne0, uint64_t ne1);

/* Offset of a plane as passed to kernels; 0 for planes that the type does not have. */
static inline uint32_t gk_plane_units(const gk_planes *planes, uint32_t plane) {
    return plane < planes->count ? (uint32_t)(planes->offset[plane] / GK_PLANE_UNIT) : 0;
}

/* Splits GGUF blocks into the given position of each plane. For block types only. */
void gk_planes_split(uint32_t type, const unsigned char *blocks, uint64_t count, unsigned char *const out[GK_PLANES]);

/* Sets `out` to consecutive areas for `count` blocks of each plane in `memory`, which has count * block_bytes bytes. */
void gk_planes_stage(const gk_planes *, unsigned char *memory, uint64_t count, unsigned char *out[GK_PLANES]);

#endif
