/* The helpers of gk-core, and the reference itself on values that can be checked manually. */
#include <math.h>

#include "gk_test.h"
#include "planes.h"

static void half_floats(suite *s) {
    case_begin(s, "core", "f16", "all 65536 patterns, and the points between them");
    for (uint32_t n = 0; n < 65536 && case_going(s); n++) {
        uint16_t half = (uint16_t)n;
        float value = gk_f32_of_f16(half);
        bool special = (n & 0x7c00) == 0x7c00;
        double expected = ldexp((n & 0x7c00) ? 1024.0 + (n & 0x3ff) : (double)(n & 0x3ff), ((n & 0x7c00) ? (int)(n >> 10 & 31) : 1) - 25);
        if (!special && (double)value != (n & 0x8000 ? -expected : expected)) case_fail(s, "pattern %04x becomes %g", n, (double)value);
        if (isnan(value) ? !isnan(gk_f32_of_f16(gk_f16_of_f32(value))) : gk_f16_of_f32(value) != half) case_fail(s, "pattern %04x does not round-trip", n);
        if ((n & 0x7fff) >= 0x7bff) continue;
        float next = gk_f32_of_f16((uint16_t)(half + 1));
        float middle = (value + next) / 2; /* exact in f32 */
        uint16_t even = (uint16_t)(n & 1 ? n + 1 : n);
        if (gk_f16_of_f32(middle) != even) case_fail(s, "the tie above %04x does not round to even", n);
        if (gk_f16_of_f32(nextafterf(middle, value)) != half) case_fail(s, "just below the tie above %04x", n);
        if (gk_f16_of_f32(nextafterf(middle, next)) != half + 1) case_fail(s, "just above the tie above %04x", n);
    }
    if (gk_f16_of_f32(65519.99f) != 0x7bff || gk_f16_of_f32(65520.0f) != 0x7c00 || gk_f16_of_f32(-1e30f) != 0xfc00) case_fail(s, "large values");
    if (gk_f16_of_f32(1e-10f) != 0 || gk_f16_of_f32(-1e-10f) != 0x8000) case_fail(s, "small values");
    case_end(s);
}

/* 64 blocks of random bits per type, compared with gguf 0.19.0 (gguf.quants.dequantize) bit by bit: FNV-1a of its
 * floats. Bits 2 to 6 of a scale's second byte are 01010, so that it is finite. */
static void blocks(suite *s) {
    static const struct {
        uint32_t type;
        int scales[2]; /* offsets of f16 in a block, or -1 */
        uint32_t hash;
    } wanted[] = {{GK_Q8_0, {0, -1}, 0xf1c9493eu}, {GK_Q4_0, {0, -1}, 0x7daafd94u}, {GK_Q4_K, {0, 2}, 0x07266953u},
                  {GK_Q6_K, {208, -1}, 0x0b3e8b69u}, {GK_BF16, {-1, -1}, 0x538855bfu}};
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++) {
        const uint32_t type = wanted[n].type, bytes = gk_type_block_bytes(type);
        case_begin(s, "core", gk_type_name(type), "blocks");
        uint32_t hash = 0x811c9dc5u;
        for (uint32_t seed = 1; seed <= 64; seed++) {
            unsigned char block[256];
            uint32_t state = seed;
            for (uint32_t k = 0; k < bytes; k++) {
                state = state * 1664525u + 1013904223u;
                block[k] = (unsigned char)(state >> 24);
            }
            for (int k = 0; k < 2; k++) {
                int at = wanted[n].scales[k];
                if (at >= 0) block[at + 1] = (unsigned char)((block[at + 1] & 0x83) | 0x28);
            }
            if (type == GK_BF16) block[1] &= 0xbf;
            for (uint32_t k = 0; k < gk_type_block_elements(type); k++) {
                uint32_t bits = gk_bits_of_float((float)gk_row_value(type, block, k));
                for (int byte = 0; byte < 4; byte++) hash = (hash ^ (bits >> (8 * byte) & 0xffu)) * 0x01000193u;
            }
        }
        if (hash != wanted[n].hash) case_fail(s, "the floats' hash is %08x, not %08x", (unsigned)hash, (unsigned)wanted[n].hash);
        case_end(s);
    }
}

static void sizes(suite *s) {
    case_begin(s, "core", "sizes", "rows, blocks, names, overflow");
    if (gk_row_bytes(GK_Q8_0, 64) != 68 || gk_row_bytes(GK_F16, 3) != 6 || gk_row_bytes(GK_Q8_0, 33) != 0) case_fail(s, "gk_row_bytes");
    if (gk_row_bytes(GK_F32, UINT64_MAX / 2) != 0 || gk_row_bytes(GK_Q8_0, UINT64_MAX - 31) != 0 || gk_row_bytes(5, 32) != 0) case_fail(s, "gk_row_bytes on overflow");
    if (gk_align_u64(65, 64) != 128 || gk_align_u64(64, 64) != 64 || gk_align_u64(UINT64_MAX, 64) != 0) case_fail(s, "gk_align_u64");
    uint64_t out;
    if (gk_mul_u64(1ull << 32, 1ull << 32, &out) || !gk_mul_u64(1ull << 32, 1ull << 31, &out) || gk_add_u64(UINT64_MAX, 1, &out)) case_fail(s, "checked arithmetic");
    if (gk_op_name(0) || gk_op_name(19) || strcmp(gk_op_name(GK_OP_STEP), "step") != 0 || strcmp(gk_op_name(GK_OP_NORM_MATMUL), "norm_matmul") != 0) case_fail(s, "gk_op_name");
    if (gk_type_name(1000) || strcmp(gk_type_name(GK_Q8_0), "q8_0") != 0) case_fail(s, "gk_type_name");
    for (int n = 0; n <= GK_FAILED; n++) {
        if (strcmp(gk_status_text((gk_status)n), "unknown status") == 0) case_fail(s, "status %d has no text", n);
    }
    gk_tensor t = {.type = GK_F32, .ne = {10, 3, 1, 1}, .row_stride = 16};
    if (gk_tensor_span(&t) != 4 * (2 * 16 + 10)) case_fail(s, "gk_tensor_span");
    if (!gk_range_fits(10, 0, 10) || gk_range_fits(11, 0, 10) || gk_range_fits(1, UINT64_MAX, 10)) case_fail(s, "gk_range_fits");
    case_end(s);
}

static uint16_t half_of(const unsigned char *halves, uint64_t index) {
    uint16_t half;
    memcpy(&half, halves + 2 * index, sizeof half);
    return half;
}

/* One op on the reference alone. */
static void known(suite *s, const char *name, const mirror_op *op, gk_step step, const mirror *out, const float *wanted, uint32_t count) {
    side *ref = &s->sides[SIDE_REF];
    gk_op list = op_on(op, SIDE_REF);
    gk_plan *plan = NULL;
    expect_status(s, SIDE_REF, ref->backend->plan_build(ref->device, &list, 1, &plan), GK_OK, name);
    if (plan) expect_status(s, SIDE_REF, ref->backend->plan_run(ref->device, plan, &step, 1), GK_OK, name);
    ref->backend->plan_free(ref->device, plan);
    float *got = tensor_get(s, SIDE_REF, out);
    for (uint32_t n = 0; n < count && case_going(s); n++) {
        if (!(fabsf(got[n] - wanted[n]) <= 1e-6f)) case_fail(s, "%s: element %u is %g instead of %g", name, n, (double)got[n], (double)wanted[n]);
    }
    free(got);
}

static mirror filled(suite *s, uint32_t ne0, uint32_t ne1, const float *values) {
    mirror m = tensor_new(s, GK_F32, ne0, ne1, 0);
    tensor_set(s, &m, values);
    return m;
}

static void known_answers(suite *s) {
    case_begin(s, "core", "ref", "results computed manually");
    mirror_op op = {.op = {.code = GK_OP_MATMUL}};
    op.a = weight_new(s, GK_F32, 2, 2, (const float[]){1, 2, 3, 4});
    op.b = filled(s, 2, 1, (const float[]){10, 100});
    op.dst = tensor_new(s, GK_F32, 2, 1, 0);
    known(s, "matmul", &op, (gk_step){.n_tok = 1}, &op.dst, (const float[]){210, 430}, 2);

    op = (mirror_op){.op = {.code = GK_OP_RMSNORM, .f = {0.5f}}};
    op.a = filled(s, 4, 1, (const float[]){1, 2, 0.5f, 0.5f}); /* mean of squares 2.5 and 0.25 */
    op.b = filled(s, 2, 1, (const float[]){1, 2});
    op.dst = tensor_new(s, GK_F32, 4, 1, 0);
    known(s, "rmsnorm", &op, (gk_step){.n_tok = 1}, &op.dst, (const float[]){0.57735027f, 2.30940108f, 0.57735027f, 1.15470054f}, 4);

    /* Position 1 rotates a pair by a quarter turn: (x, y) becomes (-y, x). Two heads of four, two rotated. */
    op = (mirror_op){.op = {.code = GK_OP_ROPE, .i = {1, 6, 4}}};
    op.a = filled(s, 6, 1, (const float[]){1, 2, 3, 4, 5, 6});
    op.b = filled(s, 4, 2, (const float[]){1, 0, 1, 0, 0, 1, 0, 1});
    op.dst = tensor_new(s, GK_F32, 6, 1, 0);
    known(s, "rope", &op, (gk_step){.n_tok = 1, .pos = 1}, &op.dst, (const float[]){-2, 1, -4, 3, 5, 6}, 6);
    op.op.flags = GK_NEOX;
    known(s, "rope neox", &op, (gk_step){.n_tok = 1, .pos = 1}, &op.dst, (const float[]){-3, -4, 1, 2, 5, 6}, 6);

    op = (mirror_op){.op = {.code = GK_OP_SWIGLU}};
    op.a = filled(s, 2, 1, (const float[]){0, 2});
    op.b = filled(s, 2, 1, (const float[]){3, 3});
    op.dst = tensor_new(s, GK_F32, 2, 1, 0);
    known(s, "swiglu", &op, (gk_step){.n_tok = 1}, &op.dst, (const float[]){0, 5.28478247f}, 2);

    op = (mirror_op){.op = {.code = GK_OP_SOFTMAX, .f = {2}}};
    op.a = filled(s, 2, 1, (const float[]){0, 0.54930614f}); /* ln(3) / 2 */
    op.dst = tensor_new(s, GK_F32, 2, 1, 0);
    known(s, "softmax", &op, (gk_step){.n_tok = 1}, &op.dst, (const float[]){0.25f, 0.75f}, 2);

    /* Two query heads share one key head; the second row sees both positions, the first row one. */
    mirror keys = cache_new(s, GK_F32, 1, 4), values = cache_new(s, GK_F32, 1, 4);
    op = (mirror_op){.op = {.code = GK_OP_KV_WRITE, .i = {1, 1}}, .dst = keys, .c = values};
    op.a = filled(s, 1, 2, (const float[]){0, 1});
    op.b = filled(s, 1, 2, (const float[]){8, 16});
    known(s, "kv_write", &op, (gk_step){.n_tok = 2}, &values, (const float[]){8, 16, 0, 0}, 4);
    op = (mirror_op){.op = {.code = GK_OP_ATTENTION, .i = {2, 1, 1}, .f = {1}}, .b = keys, .c = values};
    op.a = filled(s, 2, 2, (const float[]){5, 7, 0, 1.09861229f});
    op.dst = tensor_new(s, GK_F32, 2, 2, 0);
    known(s, "attention", &op, (gk_step){.n_tok = 2}, &op.dst, (const float[]){8, 8, 12, 14}, 4);
    case_end(s);
}

/* Reads an element from the planes as planes.h defines. */
static double plane_value(uint32_t type, unsigned char *const out[GK_PLANES], uint64_t element) {
    const uint64_t piece = element / 32, block = element / 256;
    const uint32_t i = element % 32, j = piece % 8;
    if (type == GK_Q8_0) return (double)gk_f32_of_f16(half_of(out[1], piece)) * (int8_t)out[0][element];
    const uint32_t nibble = i < 16 ? out[0][16 * piece + i] & 15u : out[0][16 * piece + i - 16] >> 4;
    if (type == GK_Q4_0) return (double)gk_f32_of_f16(half_of(out[1], piece)) * ((int)nibble - 8);
    if (type == GK_Q4_K) {
        const unsigned char *all = out[1] + 16 * block;
        const uint32_t low = all[4 + j], high = all[12 + j / 2] >> 4 * (j % 2) & 15u;
        return (double)gk_f32_of_f16(half_of(all, 0)) * ((low & 15) | (high & 3) << 4) * nibble -
               (double)gk_f32_of_f16(half_of(all, 1)) * (low >> 4 | high >> 2 << 4);
    }
    const uint32_t rest = out[1][8 * piece + i / 16 * 4 + i % 4] >> 2 * (i % 16 / 4) & 3u;
    return (double)gk_f32_of_f16(half_of(out[3], block)) * (int8_t)out[2][2 * piece + i / 16] * ((int)(nibble | rest << 4) - 32);
}

static void planes(suite *s) {
    static const uint32_t types[] = {GK_Q8_0, GK_Q4_0, GK_Q4_K, GK_Q6_K};
    enum { COLUMNS = 512, ROWS = 3 };
    for (size_t n = 0; n < sizeof types / sizeof *types; n++) {
        const uint32_t type = types[n];
        case_begin(s, "core", gk_type_name(type), "planes keep every bit");
        gk_planes planes;
        if (!gk_planes_of(type, COLUMNS, ROWS, &planes)) case_fail(s, "no planes");
        const uint64_t row = gk_row_bytes(type, COLUMNS), blocks = ROWS * planes.row_blocks;
        unsigned char *rows = must_alloc((size_t)(ROWS * row)), *memory = must_alloc((size_t)planes.size), *out[GK_PLANES];
        for (uint64_t m = 0; m < ROWS * row; m++) rows[m] = (unsigned char)random_below(s, 256);
        memset(memory, 0xa5, (size_t)planes.size);
        for (uint32_t p = 0; p < GK_PLANES; p++) out[p] = memory + planes.offset[p];
        gk_planes_split(type, rows, blocks, out);
        for (uint64_t m = 0; m < ROWS * COLUMNS && case_going(s); m++) {
            const double got = plane_value(type, out, m), wanted = gk_row_value(type, rows + m / COLUMNS * row, m % COLUMNS);
            if (got != wanted && !(isnan(got) && isnan(wanted))) case_fail(s, "element %llu is %g instead of %g", (unsigned long long)m, got, wanted);
        }
        /* Block by block, and through packed memory: the bytes must be equal. */
        unsigned char *parts = must_alloc((size_t)planes.size), *staging = must_alloc((size_t)row), *from[GK_PLANES];
        memset(parts, 0xa5, (size_t)planes.size);
        for (uint64_t b = 0; b < blocks; b += planes.row_blocks) {
            gk_planes_stage(&planes, staging, planes.row_blocks, from);
            gk_planes_split(type, rows + b * planes.block_bytes, planes.row_blocks, from);
            for (uint32_t p = 0; p < planes.count; p++)
                memcpy(parts + planes.offset[p] + b * planes.bytes[p], from[p], (size_t)(planes.row_blocks * planes.bytes[p]));
        }
        if (memcmp(parts, memory, (size_t)planes.size) != 0) case_fail(s, "single rows give different planes");
        uint32_t sum = 0;
        for (uint32_t p = 0; p < planes.count; p++) {
            sum += planes.bytes[p];
            if (planes.offset[p] % 64 != 0 || gk_plane_units(&planes, p) * (uint64_t)64 != planes.offset[p]) case_fail(s, "plane %u is at %llu", p, (unsigned long long)planes.offset[p]);
        }
        if (sum != planes.block_bytes || planes.size < ROWS * row || planes.size % 64 != 0) case_fail(s, "%llu bytes", (unsigned long long)planes.size);
        if (gk_planes_of(type, COLUMNS + 16, ROWS, &planes)) case_fail(s, "planes for half a block");
        if (gk_planes_bytes(type, UINT64_C(1) << 20, UINT64_C(1) << 30) != 0) case_fail(s, "an offset that does not fit 32 bits");
        free(parts);
        free(staging);
        free(memory);
        free(rows);
        case_end(s);
    }
}

void test_core(suite *s) {
    half_floats(s);
    blocks(s);
    sizes(s);
    planes(s);
    known_answers(s);
}
