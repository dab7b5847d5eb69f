/* Shared by the files of the Metal backend. Symbols start with gkmtl_ and are hidden.
 *
 *   objc.h, .c  Objective-C and Metal, opened at run time
 *   device.c    devices: descriptions, requirements, memory; open, close, errors, the queue
 *   memory.c    buffers, uploads, downloads, repacking of weights
 *   program.c   compiled kernels
 *   lower.c     one op -> dispatches
 *   plan.c      plans: dispatches with their operands and arguments; runs
 *   backend.c   the gk_backend table */
#ifndef GKMTL_METAL_H
#define GKMTL_METAL_H

#include "objc.h"
#include "planes.h"

/* ---- kernels ---- */

/* X(name, helper): the source is common.metal, the helper (unless it is `common`) and <name>.metal. */
#define GKMTL_KERNELS(X) \
    X(argmax, common) \
    X(attention, cache) \
    X(attention_merge, common) \
    X(copy, common) \
    X(elementwise, common) \
    X(embed, weight) \
    X(kv_write, cache) \
    X(matmul, weight) \
    X(matvec, weight) \
    X(rmsnorm, common) \
    X(rope, common) \
    X(set_step, common) \
    X(softmax, common) \
    X(step, common) \
    X(topk, common)

typedef enum gkmtl_kernel {
#define GKMTL_ENUM(name, helper) GKMTL_KERNEL_##name,
    GKMTL_KERNELS(GKMTL_ENUM)
#undef GKMTL_ENUM
    GKMTL_KERNEL_COUNT
} gkmtl_kernel;

enum {
    GKMTL_MAX_SPECIALS = 6,
    GKMTL_WIDTH = 32,          /* threads of a simdgroup; the kernels require it */
    GKMTL_MAX_THREADS = 256,   /* of a threadgroup; no kernel uses more */
    GKMTL_OPERANDS = 6,        /* dst, a, b, c, extra, step */
    GKMTL_MAX_PENDING = 16     /* command buffers in flight */
};

/* A kernel compiled with WG = threads and S0 = special[0], S1 = ...; each kernel documents their meaning. */
typedef struct gkmtl_variant {
    uint32_t kernel;
    uint32_t threads;
    uint32_t special[GKMTL_MAX_SPECIALS];
} gkmtl_variant;

typedef struct gkmtl_program {
    gkmtl_variant variant;
    gkmtl_id pipeline;
} gkmtl_program;

/* Must match `arguments` in kernels/common.metal. */
typedef struct gkmtl_arguments {
    uint32_t stride[4]; /* elements from row to row of dst, a, b, c */
    uint32_t n[8];
    float f[2];
    uint32_t flags, unused;
} gkmtl_arguments;

/* ---- device ---- */

struct gk_buffer {
    gk_buffer *next, *previous;
    gkmtl_id handle;
    unsigned char *contents; /* mapping of the shared memory */
    uint64_t bytes;          /* as requested */
};

struct gk_device {
    gkmtl_api api;
    gkmtl_id id;
    gkmtl_id queue;
    bool lost;
    uint64_t max_buffer, threadgroup_memory, total;

    gk_buffer *buffers;
    gk_plan *plans;
    gk_buffer *step_block;

    gkmtl_program *programs;
    uint32_t program_count, program_capacity;

    gkmtl_id pending[GKMTL_MAX_PENDING]; /* committed, oldest first */
    uint32_t pending_count;

    gk_traffic traffic;
    char error[512];
};

/* Stores an error text and returns `status`. */
gk_status gkmtl_fail(gk_device *, gk_status status, const char *format, ...) GK_PRINTF(3, 4);

gk_status gkmtl_enumerate(gk_device_info *, int capacity, int *count, char *why, size_t why_capacity);
gk_status gkmtl_open(int index, const gk_open_options *, gk_device **out, char *why, size_t why_capacity);
void gkmtl_close(gk_device *);
gk_status gkmtl_memory(gk_device *, uint64_t *free_bytes, uint64_t *total_bytes);
/* Waits for all committed commands. An error here is an error of the device. */
gk_status gkmtl_sync(gk_device *);
/* Takes ownership of committed commands; waits for the oldest when too many are in flight. */
gk_status gkmtl_keep_pending(gk_device *, gkmtl_id commands);
/* GK_DEVICE_LOST after the device was lost. */
gk_status gkmtl_alive(gk_device *);

/* ---- memory ---- */

gk_status gkmtl_alloc(gk_device *, uint64_t bytes, uint32_t usage, gk_buffer **);
void gkmtl_release(gk_device *, gk_buffer *);
gk_status gkmtl_write(gk_device *, gk_buffer *, uint64_t offset, const void *source, uint64_t bytes);
gk_status gkmtl_read(gk_device *, gk_buffer *, uint64_t offset, void *destination, uint64_t bytes);
/* Size of a live buffer of this device, else 0. */
uint64_t gkmtl_buffer_bytes(const gk_device *, const gk_buffer *);
gk_status gkmtl_weight_put(gk_device *, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count);

/* ---- programs ---- */

/* The pipeline of a variant, compiled on first use and owned by the device. */
gk_status gkmtl_pipeline(gk_device *, const gkmtl_variant *, gkmtl_id *out);
void gkmtl_programs_close(gk_device *);

/* ---- plans ---- */

/* One launch of a kernel: threadgroups. */
typedef struct gkmtl_launch {
    gkmtl_variant variant;
    gkmtl_arguments arguments;
    uint64_t groups[3];
} gkmtl_launch;

enum { GKMTL_MAX_LAUNCHES = 2 }; /* of one op */

/* The launches of an op. `scratch`: bytes of memory for these launches, passed to them as `extra`. */
typedef struct gkmtl_lowered {
    uint32_t count;
    gkmtl_launch launch[GKMTL_MAX_LAUNCHES];
    uint64_t scratch;
} gkmtl_lowered;

/* For a valid op; does not access buffers. NULL, or why there is no kernel for it. */
const char *gkmtl_lower(const gk_device *, const gk_op *op, gkmtl_lowered *out);

gk_status gkmtl_supports(gk_device *, const gk_op *);
gk_status gkmtl_plan_build(gk_device *, const gk_op *, uint32_t count, gk_plan **);
gk_status gkmtl_plan_run(gk_device *, gk_plan *, const gk_step *, uint32_t repeat);
gk_status gkmtl_plan_info(gk_device *, const gk_plan *, gk_plan_info *);
void gkmtl_plan_free(gk_device *, gk_plan *);

#endif
