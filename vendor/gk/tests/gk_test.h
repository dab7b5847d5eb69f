/* Shared by the parts of gk-test: the pair of devices, memory with sentinels, random data, and the report. */
#ifndef GK_TEST_H
#define GK_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "gk_internal.h"
#include "thread.h"

/* ---- report ---- */

/* The note of a case that was skipped because the time limit was reached. */
#define NOT_RUN "not run: the time limit was reached"

typedef struct report_case {
    char op[32];
    char type[24];
    char shape[120];
    char note[200]; /* error or reason to skip */
    double nmse;    /* negative if not measured */
    enum { CASE_OK, CASE_FAILED, CASE_SKIPPED } state;
} report_case;

typedef struct report {
    report_case *cases;
    size_t count, capacity;
    size_t passed, failed, skipped;
    size_t not_run; /* skipped because the time limit was reached */
} report;

/* ---- two devices ---- */

typedef struct side {
    const gk_backend *backend;
    gk_device *device;
    gk_buffer *arena[3];    /* weights, state, staging */
    uint64_t arena_bytes[3];
    uint64_t used[3];
} side;

enum { SIDE_REF = 0, SIDE_TESTED = 1 };
enum { ARENA_WEIGHT = 0, ARENA_STATE = 1, ARENA_STAGING = 2 };

typedef struct suite {
    side sides[2];
    report report;
    uint64_t seed;
    double deadline; /* in gk_seconds: later cases are skipped; 0 = no limit */
    bool exact; /* the device is opened with GK_OPEN_EXACT */
    uint32_t nodes; /* not 0: the device is opened with GK_OPEN_BIND and this many pretended memory nodes */
    uint32_t same_as; /* not 0: compare with the same device and this many threads, bit by bit */
    uint64_t random; /* state of the generator; every case resets it */
    char name[128];  /* of the tested device */
    report_case now; /* the current case */
    bool case_open;
} suite;

/* The same tensor on both devices. */
typedef struct mirror {
    gk_tensor on[2];
} mirror;

/* threads = 0: the backend decides. */
const char *suite_open(suite *, const gk_backend *, int device, uint32_t threads, gk_status *status, char *why, size_t why_capacity);
void suite_close(suite *);
/* May products round activations to int8, f16 or bf16, as the kernels of cuda and rocm do on devices that can use it? */
bool may_round_on_gpu(const suite *);

/* ---- cases: begin, then at most one of fail / skip, then end ---- */

void case_begin(suite *, const char *op, const char *type, const char *shape, ...) GK_PRINTF(4, 5);
void case_fail(suite *, const char *format, ...) GK_PRINTF(2, 3); /* the first reason counts */
void case_skip(suite *, const char *format, ...) GK_PRINTF(2, 3);
bool case_going(const suite *);
void case_end(suite *);

/* Fails the case unless the status is `wanted`. Returns true if it is. */
bool expect_status(suite *, int which, gk_status got, gk_status wanted, const char *what);

/* ---- random ---- */

uint64_t random_u64(suite *);
double random_uniform(suite *); /* in [0, 1) */
double random_gauss(suite *);
uint32_t random_below(suite *, uint32_t n);

/* ---- tensors ---- */

/* A plain tensor between sentinel bytes, `stride` elements from row to row (0 = dense); elements are NaN, or
 * INT32_MIN in an i32. */
mirror tensor_new(suite *, uint32_t type, uint32_t ne0, uint32_t ne1, uint32_t stride);
mirror tensor_ids(suite *, uint32_t n); /* i32 {n} in the staging arena */
mirror tensor_none(void);
/* Rows of values, dense, rounded to the tensor's type. */
void tensor_set(suite *, const mirror *, const float *values);
void tensor_set_i32(suite *, const mirror *, const int32_t *values);
/* A weight from GGUF rows, uploaded in chunks of different sizes. */
mirror weight_new(suite *, uint32_t type, uint32_t ne0, uint32_t ne1, const void *gguf_rows);
/* Zeroed caches. */
mirror cache_new(suite *, uint32_t type, uint32_t ne0, uint32_t ne1);

/* Dense copy of the rows of one side; f16 becomes f32. The caller frees it. */
float *tensor_get(suite *, int which, const mirror *);
int32_t *tensor_get_i32(suite *, int which, const mirror *);
/* Fails the case if a byte outside the elements of the tested side's tensor changed. */
void tensor_check_sentinels(suite *, const mirror *);

/* GGUF rows of random values; the caller frees them. */
typedef enum weight_kind {
    WEIGHT_GAUSS,
    WEIGHT_POSITIVE,
    WEIGHT_ZERO,
    WEIGHT_LARGE,
    WEIGHT_TINY,    /* denormal scales */
    WEIGHT_NEGATIVE /* q8_0: negative and zero scales, quants at -128 and 127 */
} weight_kind;
void *weight_rows(suite *, uint32_t type, uint32_t ne0, uint32_t ne1, weight_kind);
float *gauss_values(suite *, size_t count, double scale);
void *must_alloc(size_t bytes);

/* ---- running ---- */

typedef struct mirror_op {
    gk_op op;             /* code, flags, i, f */
    mirror dst, a, b, c, d;
} mirror_op;

gk_op op_on(const mirror_op *, int which);
/* Builds a plan of these ops on both sides and runs it. Returns false if the case failed or was skipped. */
bool run_both(suite *, const mirror_op *ops, uint32_t count, const gk_step *step);

/* Squared error over squared reference of the first `rows` rows. Fails the case if it is above the bound, if a
 * single element is far off, or if a value is not finite where the reference is. */
void compare_values(suite *, const float *got, const float *wanted, size_t count, double bound);
void compare_bits(suite *, const float *, const float *, size_t count, const char *what);
void compare_tensor(suite *, const mirror *, uint32_t rows, double bound);
void compare_i32(suite *, const mirror *, uint32_t rows);
double nmse_of(const float *got, const float *wanted, size_t count);

/* ---- parts ---- */

/* A product with a weight against the reference. */
typedef struct matmul_case {
    uint16_t code; /* 0 = MATMUL; GATE_UP, NORM_MATMUL */
    uint32_t type, k, n, rows;
    uint16_t flags;
    weight_kind kind;
    bool one_hot;    /* row t of the activations is 1 at element t (mod k), else 0 */
    double scale;    /* of the activations; 0 = zeros */
    uint32_t padded; /* row strides longer than the rows; 2: strides that no vector size divides */
    uint32_t n_tok;  /* 0 = rows */
    bool normed;     /* GATE_UP with a norm of b; NORM_MATMUL always has one */
} matmul_case;
/* k is rounded up to complete blocks. */
void matmul(suite *, matmul_case);

/* A table for ROPE, {n_rot, n_ctx}. */
mirror rope_table(suite *, uint32_t n_rot, uint32_t n_ctx);

void test_core(suite *);
void test_topology(suite *);
void test_share(suite *);
/* Devices that are opened from now on see this many memory nodes, among which this process's processors are dealt out; 0: those
 * of this machine. Returns an error. */
const char *pretend_nodes(uint32_t count);
void test_fuse(suite *);
void test_fused(suite *);
void test_matmul(suite *);
void test_attention(suite *);
void test_small_ops(suite *);
void test_plans(suite *);
void test_bad_arguments(suite *);
void print_json_text(const char *text);
int bench(const gk_backend *, int device, uint64_t bytes, const gk_open_options *);

#endif
