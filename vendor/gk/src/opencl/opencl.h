/* Shared by the files of the OpenCL backend. Symbols start with gkcl_ and are hidden.
 *
 *   cl.h        declarations of the used part of OpenCL 1.2
 *   loader.c    the loader library and its functions
 *   probe.c     platforms and devices: descriptions, requirements, memory
 *   device.c    open, close, errors, the queue
 *   memory.c    buffers, uploads, downloads, repacking of weights
 *   program.c   compiled kernels and their cache on disk
 *   lower.c     one op -> dispatches
 *   plan.c      plans: dispatches -> kernel objects whose arguments are set once; runs
 *   backend.c   the gk_backend table */
#ifndef GKCL_OPENCL_H
#define GKCL_OPENCL_H

#include "loader.h"
#include "planes.h"

/* For tests: treat every device as a GPU, so that a CPU device uses the kernels for GPUs. Set by the CMake option
 * GK_OPENCL_AS_GPU. */
#ifndef GKCL_AS_GPU
#define GKCL_AS_GPU 0
#endif
/* For tests: do not use sub-groups, whatever the device reports (GK_OPENCL_NO_SUBGROUPS). */
#ifndef GKCL_NO_SUBGROUPS
#define GKCL_NO_SUBGROUPS 0
#endif

/* ---- kernels ---- */

/* X(name, helper): the source is common.cl, the helper (unless it is `common`) and <name>.cl. */
#define GKCL_KERNELS(X) \
    X(argmax, common) \
    X(attention, cache) \
    X(attention_cpu, cache) \
    X(attention_merge, common) \
    X(copy, common) \
    X(elementwise, common) \
    X(embed, weight) \
    X(kv_write, cache) \
    X(matmul, weight) \
    X(matvec, weight) \
    X(matvec_cpu, weight) \
    X(rmsnorm, common) \
    X(rope, common) \
    X(softmax, common) \
    X(step, common) \
    X(subgroup_test, common) \
    X(topk, common)

typedef enum gkcl_kernel {
#define GKCL_ENUM(name, helper) GKCL_KERNEL_##name,
    GKCL_KERNELS(GKCL_ENUM)
#undef GKCL_ENUM
    GKCL_KERNEL_COUNT
} gkcl_kernel;

enum {
    GKCL_MAX_SPECIALS = 6,
    GKCL_MAX_WORKGROUP = 256, /* work-items; no kernel uses more */
    GKCL_MAX_REPEATS = 16     /* runs of a plan in the queue */
};

/* A kernel compiled with -DWG=workgroup, -DSUBGROUPS=subgroups and -DS0=special[0], -DS1=...; each kernel documents
 * their meaning. */
typedef struct gkcl_variant {
    uint32_t kernel;
    uint32_t workgroup;
    uint32_t subgroups; /* 1: uses sub-group functions */
    uint32_t special[GKCL_MAX_SPECIALS];
} gkcl_variant;

typedef struct gkcl_program {
    gkcl_variant variant;
    cl_program handle; /* NULL: in the cache, not used yet */
    uint8_t *binary;   /* NULL: the driver returns none */
    uint64_t bytes;
} gkcl_program;

/* The arguments that all kernels have, after six buffers; must match ARGUMENTS in kernels/common.cl. */
typedef struct gkcl_arguments {
    uint64_t at[8];     /* offsets of dst, a, b, c, extra in their buffers, in bytes */
    uint32_t stride[4]; /* elements from row to row of dst, a, b, c */
    uint32_t n[8];
    float f[2];
    uint32_t flags;
} gkcl_arguments;

/* ---- device ---- */

struct gk_buffer {
    gk_buffer *next, *previous;
    cl_mem handle;
    uint64_t bytes; /* as requested */
};

struct gk_device {
    gkcl_api api;
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    bool lost;

    uint32_t kind; /* gk_device_kind */
    bool cpu;      /* uses the kernels for CPUs */
    bool subgroups;
    uint32_t compute_units, max_threads;
    uint64_t local_bytes, max_buffer, total, allocated;
    bool free_of_amd; /* cl_amd_device_attribute_query can return the free memory */
    char language[16]; /* "CL1.2": the value for -cl-std */
    char identity[512]; /* platform, device and driver: the owner of the binaries */

    gk_buffer *buffers;
    gk_plan *plans;
    gk_buffer *step_block;

    gkcl_program *programs;
    uint32_t program_count, program_capacity;
    char *cache_path; /* NULL: no cache */
    bool cache_changed;

    gk_traffic traffic;
    char error[512];
};

/* Stores an error text and returns `status`. */
gk_status gkcl_fail(gk_device *, gk_status status, const char *format, ...) GK_PRINTF(3, 4);
/* The same for an OpenCL result; GK_OK for CL_SUCCESS. Records that the device is lost. */
gk_status gkcl_check(gk_device *, cl_int, const char *what);

gk_status gkcl_open(int index, const gk_open_options *, gk_device **out, char *why, size_t why_capacity);
void gkcl_close(gk_device *);
/* Waits for all enqueued commands. An error here is an error of the device. */
gk_status gkcl_sync(gk_device *);
/* GK_DEVICE_LOST after the device was lost. */
gk_status gkcl_alive(gk_device *);

/* ---- platforms and devices ---- */

gk_status gkcl_enumerate(gk_device_info *, int capacity, int *count, char *why, size_t why_capacity);
/* Selects device number `index`, checks its requirements, and fills in its properties. */
gk_status gkcl_pick_device(gk_device *, int index, char *why, size_t why_capacity);
gk_status gkcl_memory(gk_device *, uint64_t *free_bytes, uint64_t *total_bytes);

/* ---- memory ---- */

gk_status gkcl_alloc(gk_device *, uint64_t bytes, uint32_t usage, gk_buffer **);
void gkcl_release(gk_device *, gk_buffer *);
gk_status gkcl_write(gk_device *, gk_buffer *, uint64_t offset, const void *source, uint64_t bytes);
gk_status gkcl_read(gk_device *, gk_buffer *, uint64_t offset, void *destination, uint64_t bytes);
/* Size of a live buffer of this device, else 0. */
uint64_t gkcl_buffer_bytes(const gk_device *, const gk_buffer *);

uint64_t gkcl_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1);
gk_status gkcl_weight_put(gk_device *, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count);

/* ---- programs ---- */

/* Reads the cache, then tests whether sub-group functions compile and give correct sums on this device. */
gk_status gkcl_programs_open(gk_device *, const char *cache_dir);
void gkcl_programs_close(gk_device *);
/* Creates a separate kernel object, so that its arguments persist. */
gk_status gkcl_kernel_new(gk_device *, const gkcl_variant *, cl_kernel *);
/* Sets all arguments; operands: dst, a, b, c, extra, step. */
gk_status gkcl_set_arguments(gk_device *, cl_kernel, const cl_mem operands[6], const gkcl_arguments *);
/* Writes the cache file if there are new entries; failures are not errors. */
void gkcl_programs_save(gk_device *);

/* ---- plans ---- */

/* One launch of a kernel: groups of work-groups. */
typedef struct gkcl_dispatch {
    gkcl_variant variant;
    gkcl_arguments arguments;
    uint64_t groups[3];
} gkcl_dispatch;

enum { GKCL_MAX_DISPATCHES = 2 }; /* of one op */

/* The dispatches of an op. plan.c fills arguments.at; extra is `scratch` bytes of memory for these dispatches. */
typedef struct gkcl_lowered {
    uint32_t count;
    gkcl_dispatch dispatch[GKCL_MAX_DISPATCHES];
    uint64_t scratch;
} gkcl_lowered;

/* For a valid op; does not access buffers. NULL, or why there is no kernel for it. */
const char *gkcl_lower(const gk_device *, const gk_op *op, gkcl_lowered *out);

gk_status gkcl_supports(gk_device *, const gk_op *);
gk_status gkcl_plan_build(gk_device *, const gk_op *, uint32_t count, gk_plan **);
gk_status gkcl_plan_run(gk_device *, gk_plan *, const gk_step *, uint32_t repeat);
gk_status gkcl_plan_info(gk_device *, const gk_plan *, gk_plan_info *);
void gkcl_plan_free(gk_device *, gk_plan *);

#endif
