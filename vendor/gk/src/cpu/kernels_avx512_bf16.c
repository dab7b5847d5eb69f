/* Products with bf16 weights in pairs, with the BF16 instructions of AVX-512. All functions are static except the
 * one declared in cpu.h.
 *
 * Few rows use their activations unchanged: they are bound by memory, and a pair becomes two floats with a shift and
 * a mask. From four rows on, activations are rounded to bf16 (to nearest, ties to even). VDPBF16PS multiplies pairs
 * and adds the second product, then the first, to an f32, rounding to nearest after each; it treats denormal inputs
 * and results as zero (Intel's manual; AMD gives the same bits). */
#include "avx512.h"
#include "compiler.h"

#include "products.inc"

enum { PAIR_BYTES = 4 * CPU_GROUP }; /* bytes of a group */

INLINE __m512i load_pairs(const unsigned char *w) { return _mm512_loadu_si512(w); }
/* The column after the last pair, if k is odd, as a pair with 0. */
INLINE __m512i load_column(const unsigned char *w) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)w)); }
INLINE v16 first_of_pairs(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
INLINE v16 second_of_pairs(__m512i pairs) { return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536))); }

/* ---- few rows ---- */

/* Four sums per output, so that additions do not wait for each other's latency. */
INLINE void few_pair_rows(const cpu_matmul *m, uint32_t group, uint32_t row, const uint32_t tile) {
    enum { SUMS = 4 };
    const size_t k = m->k;
    const unsigned char *w = m->weight + group * k * CPU_GROUP * 2;
    const float *x = m->x + row * m->x_stride;
    v16 sums[2 * SUMS];
    for (size_t n = 0; n < tile * SUMS; n++) sums[n] = v16_zero();
    size_t at = 0;
    for (; at + SUMS <= k; at += SUMS, w += 2 * PAIR_BYTES) {
        const __m512i pairs = load_pairs(w), more = load_pairs(w + PAIR_BYTES);
        const v16 weights[SUMS] = {first_of_pairs(pairs), second_of_pairs(pairs), first_of_pairs(more), second_of_pairs(more)};
        for (size_t t = 0; t < tile; t++) {
            for (size_t n = 0; n < SUMS; n++) {
                sums[t * SUMS + n] = v16_fma(weights[n], v16_set1(x[t * m->x_stride + at + n]), sums[t * SUMS + n]);
            }
        }
    }
    for (; at < k; at += 2, w += PAIR_BYTES) {
        const bool both = at + 1 < k;
        const __m512i pairs = both ? load_pairs(w) : load_column(w);
        for (size_t t = 0; t < tile; t++) {
            const float *there = x + t * m->x_stride + at;
            sums[t * SUMS] = v16_fma(first_of_pairs(pairs), v16_set1(there[0]), sums[t * SUMS]);
            if (both) sums[t * SUMS + 1] = v16_fma(second_of_pairs(pairs), v16_set1(there[1]), sums[t * SUMS + 1]);
        }
    }
    for (size_t t = 0; t < tile; t++) {
        const v16 *of_row = sums + t * SUMS;
        store_outputs(m, group, row + (uint32_t)t, v16_add(v16_add(of_row[0], of_row[1]), v16_add(of_row[2], of_row[3])));
    }
}

OUTLINE void one_pair_row(const cpu_matmul *m, uint32_t group, uint32_t row) { few_pair_rows(m, group, row, 1); }
OUTLINE void two_pair_rows(const cpu_matmul *m, uint32_t group, uint32_t row) { few_pair_rows(m, group, row, 2); }

/* ---- many rows ---- */

enum { PAIR_SLICE = 64, PAIR_TILE = 8, PAIR_GROUPS = 2 };

/* A slice of the weights of two groups: each loaded pair of activations is used for both. With an odd number of
 * groups the last one is computed twice, and the extra sums are dropped. */
typedef struct pair_slice {
    const unsigned char *at[PAIR_GROUPS];
    ahead next[PAIR_GROUPS];
    size_t count;
} pair_slice;

INLINE __m512bh bf16_of_bits(__m512i bits) {
    __m512bh pairs;
    memcpy(&pairs, &bits, sizeof pairs);
    return pairs;
}

INLINE void pair_slice_rows(const pair_slice *w, const uint32_t *x, const uint32_t tile, float *sums) {
    v16 in_registers[PAIR_TILE * PAIR_GROUPS];
    UNROLL(8) for (size_t t = 0; t < tile; t++) {
        UNROLL(2) for (size_t g = 0; g < PAIR_GROUPS; g++) in_registers[t * PAIR_GROUPS + g] = v16_load(sums_of(sums, g, t));
    }
    for (size_t n = 0; n < w->count; n++) {
        const __m512bh weights[PAIR_GROUPS] = {bf16_of_bits(load_pairs(w->at[0] + n * PAIR_BYTES)),
                                               bf16_of_bits(load_pairs(w->at[1] + n * PAIR_BYTES))};
        UNROLL(8) for (size_t t = 0; t < tile; t++) {
            const __m512bh factor = bf16_of_bits(_mm512_set1_epi32((int32_t)x[t * PAIR_SLICE + n]));
            UNROLL(2) for (size_t g = 0; g < PAIR_GROUPS; g++) {
                in_registers[t * PAIR_GROUPS + g] = _mm512_dpbf16_ps(in_registers[t * PAIR_GROUPS + g], weights[g], factor);
            }
        }
    }
    UNROLL(8) for (size_t t = 0; t < tile; t++) {
        UNROLL(2) for (size_t g = 0; g < PAIR_GROUPS; g++) v16_store(sums_of(sums, g, t), in_registers[t * PAIR_GROUPS + g]);
    }
}

#define PAIR_SLICE_KERNEL(name, tile)                                                                                                \
    OUTLINE void name(const pair_slice *w, const uint32_t *x, float *sums) { pair_slice_rows(w, x, tile, sums); }
PAIR_SLICE_KERNEL(pair_slice_of_tile, PAIR_TILE)
PAIR_SLICE_KERNEL(pair_slice_of_four, 4)
PAIR_SLICE_KERNEL(pair_slice_of_two, 2)
PAIR_SLICE_KERNEL(pair_slice_of_one, 1)

static void all_pair_rows(pair_slice *w, const uint32_t *x, uint32_t rows, float *sums) {
    uint32_t t = 0;
    for (;; t += PAIR_TILE) {
        for (size_t g = 0; g < PAIR_GROUPS; g++) prefetch_part(&w->next[g]);
        if (rows - t < PAIR_TILE) break;
        pair_slice_of_tile(w, x + t * PAIR_SLICE, sums_of(sums, 0, t));
    }
    for (; t + 4 <= rows; t += 4) pair_slice_of_four(w, x + t * PAIR_SLICE, sums_of(sums, 0, t));
    for (; t + 2 <= rows; t += 2) pair_slice_of_two(w, x + t * PAIR_SLICE, sums_of(sums, 0, t));
    for (; t < rows; t++) pair_slice_of_one(w, x + t * PAIR_SLICE, sums_of(sums, 0, t));
}

/* Rounds numbers to pairs; an odd number at the end is paired with 0. */
INLINE void round_to_pairs(uint32_t *out, const float *in, size_t count) {
    for (size_t n = 0; n < count; n += 2 * CPU_GROUP) {
        float rest[2 * CPU_GROUP] = {0};
        const bool whole = count - n >= 2 * CPU_GROUP;
        if (!whole) memcpy(rest, in + n, (count - n) * sizeof *rest);
        const float *from = whole ? in + n : rest;
        const __m512bh pairs = _mm512_cvtne2ps_pbh(v16_load(from + CPU_GROUP), v16_load(from));
        memcpy(out + n / 2, &pairs, sizeof pairs);
    }
}

/* Adds the products of the last column of two groups, if k is odd. */
static void add_column(const pair_slice *w, const uint32_t *x, uint32_t rows, float *sums) {
    unsigned char column[PAIR_GROUPS][PAIR_BYTES];
    pair_slice last = {.at = {column[0], column[1]}, .count = 1};
    for (size_t g = 0; g < PAIR_GROUPS; g++) _mm512_storeu_si512(column[g], load_column(w->at[g] + w->count * PAIR_BYTES));
    all_pair_rows(&last, x + w->count, rows, sums);
}

OUTLINE void many_pair_rows(const cpu_matmul *m, uint32_t group, uint32_t groups, uint32_t row, uint32_t rows) {
    enum { COLUMN = 2 * CPU_GROUP }; /* bytes */
    _Alignas(64) uint32_t x[MANY_ROWS * PAIR_SLICE];
    many_sums sums;
    clear_sums(&sums, (groups + PAIR_GROUPS - 1) / PAIR_GROUPS * PAIR_GROUPS, rows);
    for (size_t from = 0; from < m->k; from += 2 * PAIR_SLICE) {
        const size_t columns = m->k - from < 2 * PAIR_SLICE ? m->k - from : 2 * PAIR_SLICE;
        for (uint32_t t = 0; t < rows; t++) round_to_pairs(x + t * PAIR_SLICE, m->x + (row + t) * m->x_stride + from, columns);
        for (uint32_t g = 0; g < groups; g += PAIR_GROUPS) {
            pair_slice w = {.count = columns / 2};
            for (uint32_t n = 0; n < PAIR_GROUPS; n++) {
                const uint32_t here = g + n < groups ? g + n : g, there = here + PAIR_GROUPS;
                w.at[n] = m->weight + ((group + here) * (size_t)m->k + from) * COLUMN;
                w.next[n] = look_ahead(w.at[n] + PAIR_GROUPS * (size_t)m->k * COLUMN, there < groups ? columns * COLUMN : 0, rows / PAIR_TILE + 1);
            }
            all_pair_rows(&w, x, rows, sums.of[g]);
            if (columns % 2) add_column(&w, x, rows, sums.of[g]);
        }
    }
    store_sums(&sums, m, group, groups, row, rows);
}

void gk_cpu_matmul_pairs(const cpu_matmul *m, uint32_t first, uint32_t last) {
    /* Either all rows of a run are rounded, or none. */
    static const type_kernels kernels = {one_pair_row, two_pair_rows, many_pair_rows, .fewest_more = 1};
    walk_rows(m, first, last, &kernels);
}
