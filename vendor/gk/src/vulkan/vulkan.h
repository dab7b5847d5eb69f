/* Shared by the files of the Vulkan backend. Symbols start with gkv_ and are hidden.
 *
 *   loader.c    the loader library, an instance, functions
 *   probe.c     physical devices: descriptions, required features, memory
 *   device.c    open, close, errors, submission, waiting
 *   memory.c    buffers, uploads, downloads, repacking of weights
 *   pipeline.c  compiled kernels and their cache on disk
 *   lower.c     one op -> dispatches
 *   plan.c      plans: dispatches -> one command buffer; runs
 *   trial.c     tests of instructions that few drivers were verified with
 *   backend.c   the gk_backend table */
#ifndef GKV_VULKAN_H
#define GKV_VULKAN_H

#include "loader.h"
#include "planes.h"

/* ---- kernels ---- */

/* Can the shader compiler emit integer dot products, and cooperative matrices? Determined by CMake. */
#ifndef GKV_HAVE_DOT
#define GKV_HAVE_DOT 0
#endif
#ifndef GKV_HAVE_MATRICES
#define GKV_HAVE_MATRICES 0
#endif
/* For tests: the kernel with matrices is emulated, so every device can run it. Set by GK_VULKAN_EMULATE_MATRICES. */
#ifndef GKV_EMULATE_MATRICES
#define GKV_EMULATE_MATRICES 0
#endif

#if GKV_HAVE_DOT
#define GKV_DOT_KERNELS(X) \
    X(matmul_dot) \
    X(round)
#else
#define GKV_DOT_KERNELS(X)
#endif

#if GKV_HAVE_MATRICES
#define GKV_MATRIX_KERNELS(X) \
    X(matmul_matrices) \
    X(narrow)
#else
#define GKV_MATRIX_KERNELS(X)
#endif

#define GKV_KERNELS(X) \
    GKV_DOT_KERNELS(X) \
    GKV_MATRIX_KERNELS(X) \
    X(argmax) \
    X(attention) \
    X(attention_merge) \
    X(copy) \
    X(elementwise) \
    X(embed) \
    X(kv_write) \
    X(rope_kv) \
    X(matmul) \
    X(matvec) \
    X(rmsnorm) \
    X(rope) \
    X(softmax) \
    X(step) \
    X(topk)

typedef enum gkv_kernel {
#define GKV_ENUM(name) GKV_KERNEL_##name,
    GKV_KERNELS(GKV_ENUM)
#undef GKV_ENUM
    GKV_KERNEL_COUNT
} gkv_kernel;

enum {
    GKV_MAX_SPECIALS = 7,      /* specialisation constants 0 .. 6 */
    GKV_MAX_WORKGROUP = 1024,  /* threads; no kernel uses more */
    GKV_MAX_SUBGROUPS = 32,    /* subgroups of a reduction; common.glsl: size of group_partial */
    GKV_MATRIX_SUBGROUPS = 4,  /* of a workgroup of matmul_matrices.comp */
    GKV_PUSH_BYTES = 128       /* guaranteed by Vulkan */
};

/* Push constants; must match Push in shaders/common.glsl. */
typedef struct gkv_push {
    VkDeviceAddress dst, a, b, c, step, extra;
    uint32_t dst_stride, a_stride, b_stride, c_stride;
    uint32_t n[8];
    float f[2];
    uint32_t flags;
    uint32_t reserved;
} gkv_push;
_Static_assert(sizeof(gkv_push) <= GKV_PUSH_BYTES, "push constants are limited to 128 bytes");

/* special[0] is the workgroup size, special[1] the subgroup size. */
typedef struct gkv_variant {
    uint32_t kernel;
    uint32_t special[GKV_MAX_SPECIALS];
} gkv_variant;

typedef struct gkv_pipeline {
    gkv_variant variant;
    VkPipeline handle;
} gkv_pipeline;

/* ---- device ---- */

/* For tests: treat every device as a discrete GPU without mapped memory, so that llvmpipe uses the copies and kernel
 * shapes for GPUs. Set by the CMake option GK_VULKAN_AS_DISCRETE. */
#ifndef GKV_AS_DISCRETE
#define GKV_AS_DISCRETE 0
#endif

enum {
    GKV_SLOTS = 4,
    GKV_MAX_REPEATS = 16 /* runs of a plan in one submission: drivers abort one that takes seconds */
};
#define GKV_SLOT_BYTES ((uint64_t)8 << 20)

/* Host-visible memory with a command buffer. Uploads, downloads, and the step block of a run rotate through the
 * slots, so that the host can fill one while the device reads another. */
typedef struct gkv_slot {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint8_t *mapped;
    VkCommandBuffer commands;
    uint64_t busy_until; /* value of the timeline */
} gkv_slot;

struct gk_buffer {
    gk_buffer *next, *previous;
    VkBuffer handle;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint64_t bytes; /* as requested */
    uint8_t *mapped; /* NULL if the host cannot see it */
    bool cached; /* by the host: reads and scattered writes can use the mapping */
};

/* Instructions beyond Vulkan 1.2 that matmuls of many tokens use, with rounded activations, if a device has them. */
typedef enum gkv_extra {
    GKV_DOT,      /* integer dot products: block types, activations as int8 */
    GKV_MATRICES, /* cooperative matrices: f16, activations as f16 */
    GKV_EXTRAS    /* the number of extras; also: no extra */
} gkv_extra;

struct gk_device {
    gkv_api api;
    VkPhysicalDevice physical;
    VkDevice handle;
    VkQueue queue;
    uint32_t queue_family;
    VkCommandPool pool;
    VkSemaphore timeline;
    uint64_t submitted; /* the last value that a submission will signal */
    uint64_t completed; /* the last value known to be reached */
    bool lost;

    uint32_t subgroup; /* invocations */
    bool choose_subgroup; /* pipelines request exactly this size */
    uint32_t max_subgroups; /* of one workgroup, if the size can be chosen */
    uint32_t kind; /* gk_device_kind */
    uint32_t max_threads, max_shared;
    bool exact; /* opened with GK_OPEN_EXACT */
    bool has[GKV_EXTRAS];
    bool tried[GKV_EXTRAS]; /* gkv_try has run */
    VkPhysicalDeviceMemoryProperties memory;
    bool memory_budget;
    uint64_t max_buffer, allocated;

    gk_buffer *buffers;
    gk_plan *plans;
    gk_buffer *step_block;
    gkv_slot slots[GKV_SLOTS];
    uint32_t next_slot;

    VkShaderModule modules[GKV_KERNEL_COUNT];
    VkPipelineLayout layout;
    VkPipelineCache cache;
    char *cache_path; /* NULL: no cache */
    bool cache_changed;
    gkv_pipeline *pipelines;
    uint32_t pipeline_count, pipeline_capacity;

    gk_traffic traffic;
    char error[256];
};

/* Stores an error text and returns `status`. */
gk_status gkv_fail(gk_device *, gk_status status, const char *format, ...) GK_PRINTF(3, 4);
/* The same for a VkResult; GK_OK for VK_SUCCESS. Records that the device is lost. */
gk_status gkv_check(gk_device *, VkResult, const char *what);

gk_status gkv_open(int index, const gk_open_options *, gk_device **out, char *why, size_t why_capacity);
void gkv_close(gk_device *);

/* Submits command buffers in order; the device signals *value (may be NULL) when they are done. */
gk_status gkv_submit(gk_device *, const VkCommandBuffer *, uint32_t count, uint64_t *value);
gk_status gkv_wait(gk_device *, uint64_t value);
gk_status gkv_sync(gk_device *);
/* A barrier: everything before it is complete and visible to everything after it, with GKV_TO_HOST also to the host. */
typedef enum gkv_reach { GKV_TO_DEVICE, GKV_TO_HOST } gkv_reach;
void gkv_barrier(gk_device *, VkCommandBuffer, gkv_reach);

/* ---- physical devices ---- */

gk_status gkv_enumerate(gk_device_info *, int capacity, int *count, char *why, size_t why_capacity);
/* Selects device number `index`, checks its requirements, and creates a VkDevice with a queue. */
gk_status gkv_create_device(gk_device *, int index, char *why, size_t why_capacity);
gk_status gkv_memory(gk_device *, uint64_t *free_bytes, uint64_t *total_bytes);

/* ---- memory ---- */

gk_status gkv_slots_open(gk_device *);
void gkv_slots_close(gk_device *);
/* Waits until the next slot is free and begins its command buffer, ordered after everything submitted so far. */
gk_status gkv_slot_begin(gk_device *, gkv_slot **);
/* Ends the command buffer, ordered before everything submitted later. At most GKV_MAX_REPEATS `extra` command
 * buffers follow in the same submission. */
gk_status gkv_slot_submit(gk_device *, gkv_slot *, const VkCommandBuffer *extra, uint32_t extra_count);

gk_status gkv_alloc(gk_device *, uint64_t bytes, uint32_t usage, gk_buffer **);
void gkv_release(gk_device *, gk_buffer *);
gk_status gkv_write(gk_device *, gk_buffer *, uint64_t offset, const void *source, uint64_t bytes);
gk_status gkv_read(gk_device *, gk_buffer *, uint64_t offset, void *destination, uint64_t bytes);
/* Size of a live buffer of this device, else 0. */
uint64_t gkv_buffer_bytes(const gk_device *, const gk_buffer *);

uint64_t gkv_weight_bytes(gk_device *, uint32_t type, uint64_t ne0, uint64_t ne1);
gk_status gkv_weight_put(gk_device *, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count);

/* ---- pipelines ---- */

gk_status gkv_pipelines_open(gk_device *, const char *cache_dir);
void gkv_pipelines_close(gk_device *);
gk_status gkv_pipeline_get(gk_device *, const gkv_variant *, VkPipeline *);
/* Writes the cache file if there are new entries; failures are not errors. */
void gkv_pipelines_save(gk_device *);

/* ---- plans ---- */

/* One launch of a kernel. */
typedef struct gkv_dispatch {
    gkv_variant variant;
    gkv_push push;
    uint32_t groups[3];
} gkv_dispatch;

enum { GKV_MAX_DISPATCHES = 2 }; /* of one op */

/* The dispatches of an op. plan.c fills the addresses in push: dst, a, b, c are the operands of the op, and extra is
 * `scratch` bytes of memory for these dispatches, which all but the last write and the last only reads. */
typedef struct gkv_lowered {
    uint32_t count;
    gkv_dispatch dispatch[GKV_MAX_DISPATCHES];
    uint64_t scratch;
    gkv_extra extra; /* unless GKV_EXTRAS, the first dispatch only rounds b into the scratch memory */
} gkv_lowered;

/* For a valid op; does not access buffers. NULL, or why there is no kernel for it. */
const char *gkv_lower(const gk_device *, const gk_op *op, gkv_lowered *out);

gk_status gkv_supports(gk_device *, const gk_op *);
gk_status gkv_plan_build(gk_device *, const gk_op *, uint32_t count, gk_plan **);
gk_status gkv_plan_run(gk_device *, gk_plan *, const gk_step *, uint32_t repeat);
gk_status gkv_plan_info(gk_device *, const gk_plan *, gk_plan_info *);
void gkv_plan_free(gk_device *, gk_plan *);

/* Called before the first op whose lowering uses these instructions: tests them, and clears gk_device.has if the
 * result is wrong. An error only if the device is lost. */
gk_status gkv_try(gk_device *, gkv_extra);

#endif
