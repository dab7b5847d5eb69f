/* Tests kernels whose instructions not every driver implements correctly, before the first plan that uses them: a
 * small integer matmul, in which nothing is rounded, must have the exact result. If it does not, the device does not
 * use these kernels. */
#include "vulkan.h"

#include <stdlib.h>

enum {
    K = 64,
    ROWS = 64,
    TOKENS = 16, /* enough for the kernels for many tokens */
    BLOCK = 34,  /* bytes of a block of q8_0 */
    ROW_BYTES = 2 * K, /* of f16, which has the longer rows */
    X_AT = ROWS * ROW_BYTES,
    DST_AT = X_AT + 4 * K * TOKENS,
    BYTES = DST_AT + 4 * ROWS * TOKENS
};
typedef struct trial {
    gk_buffer *buffer;
    gk_plan *plan;
    unsigned char rows[ROWS * ROW_BYTES];
    float x[TOKENS * K];
    float result[TOKENS * ROWS];
} trial;

/* Bytes of both signs; the first of a block of activations is 127, so that a step of int8 is 1. */
static int weight_of(int row, int k) { return (row * 37 + k * 101) % 255 - 127; }
static int activation_of(int token, int k) { return k % 32 == 0 ? 127 : (token * 53 + k * 29) % 255 - 127; }

static void put_weight(trial *t, uint32_t type, int row, int k) {
    const uint16_t one = 0x3c00, half = gk_f16_of_f32((float)weight_of(row, k));
    unsigned char *block = t->rows + (row * K + k) / 32 * BLOCK;
    if (type == GK_F16) {
        memcpy(t->rows + row * ROW_BYTES + 2 * k, &half, sizeof half);
    } else {
        memcpy(block, &one, sizeof one);
        block[2 + k % 32] = (unsigned char)weight_of(row, k);
    }
}

static void fill(trial *t, uint32_t type) {
    for (int n = 0; n < ROWS * K; n++) put_weight(t, type, n / K, n % K);
    for (int n = 0; n < TOKENS * K; n++) t->x[n] = (float)activation_of(n / K, n % K);
}

static bool is_right(const trial *t) {
    for (int token = 0; token < TOKENS; token++) {
        for (int row = 0; row < ROWS; row++) {
            int sum = 0;
            for (int k = 0; k < K; k++) sum += weight_of(row, k) * activation_of(token, k);
            if (t->result[token * ROWS + row] != (float)sum) return false;
        }
    }
    return true;
}

static gk_status run(gk_device *device, trial *t, uint32_t type) {
    gk_status status = gkv_alloc(device, BYTES, GK_USAGE_STATE, &t->buffer);
    if (status != GK_OK) return status;
    const gk_op op = {.code = GK_OP_MATMUL,
                      .a = {.buffer = t->buffer, .type = type, .ne = {K, ROWS, 1, 1}},
                      .b = {.buffer = t->buffer, .offset = X_AT, .type = GK_F32, .ne = {K, TOKENS, 1, 1}},
                      .dst = {.buffer = t->buffer, .offset = DST_AT, .type = GK_F32, .ne = {ROWS, TOKENS, 1, 1}}};
    status = gkv_weight_put(device, &op.a, t->rows, 0, ROWS);
    if (status == GK_OK) status = gkv_write(device, t->buffer, X_AT, t->x, sizeof t->x);
    if (status == GK_OK) status = gkv_plan_build(device, &op, 1, &t->plan);
    if (status == GK_OK) status = gkv_plan_run(device, t->plan, &(gk_step){.n_tok = TOKENS}, 1);
    if (status == GK_OK) status = gkv_read(device, t->buffer, DST_AT, t->result, sizeof t->result);
    return status;
}

gk_status gkv_try(gk_device *device, gkv_extra extra) {
    static const uint32_t types[] = {[GKV_DOT] = GK_Q8_0, [GKV_MATRICES] = GK_F16};
    if (device->tried[extra]) return GK_OK;
    device->tried[extra] = true; /* set first: the trial builds a plan itself */
    trial *t = calloc(1, sizeof *t);
    if (t == NULL) return gkv_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    const gk_traffic before = device->traffic;
    fill(t, types[extra]);
    gk_status status = run(device, t, types[extra]);
    device->has[extra] = status == GK_OK && is_right(t);
    gkv_plan_free(device, t->plan);
    gkv_release(device, t->buffer);
    free(t);
    device->traffic = before;
    /* Other kernels may work after any other failure. */
    return status == GK_DEVICE_LOST ? status : GK_OK;
}
