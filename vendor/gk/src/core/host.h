/* Shared by the backends in host memory (ref, cpu): buffers, plans, traffic, errors. Everything of gk_backend except
 * enumerate, open and the kernels. Internal. */
#ifndef GK_HOST_H
#define GK_HOST_H

#include "gk_internal.h"

struct gk_buffer {
    unsigned char *data; /* aligned to at least 64 bytes, to 2 MiB if large */
    uint64_t bytes;
    uint64_t mapped; /* bytes requested from the system */
    gk_buffer *next;
};

/* The kernels of a backend. `state` is the argument of gk_host_open. */
typedef struct gk_host_kernels {
    uint64_t (*weight_bytes)(uint32_t type, uint64_t ne0, uint64_t ne1);
    /* The arguments are already checked. `weight` points at dst->offset. */
    void (*weight_put)(void *state, unsigned char *weight, const gk_tensor *dst, const void *rows, uint64_t first,
                       uint64_t count);
    /* Why there is no kernel for a valid op, or NULL. The function may be NULL: every valid op then has a kernel. */
    const char *(*unsupported)(const gk_op *op);
    /* Scratch memory and decisions for a checked plan; NULL if out of memory. */
    void *(*prepare)(void *state, const gk_op *ops, uint32_t count, const gk_plan_limits *limits);
    void (*discard)(void *prepared);
    /* Runs every op once. STEP changes *step. */
    void (*run)(void *state, void *prepared, const gk_op *ops, uint32_t count, gk_step *step);
    void (*close)(void *state);
} gk_host_kernels;

struct gk_plan {
    gk_op *ops;
    uint32_t count;
    gk_plan_limits limits;
    void *prepared;
    gk_plan *next;
};

struct gk_device {
    const gk_host_kernels *kernels;
    void *state;
    bool exact; /* GK_OPEN_EXACT: the kernels see weights of block types as f32 */
    gk_buffer *buffers;
    gk_plan *plans;
    gk_traffic traffic;
    char error[256];
};

static inline unsigned char *gk_host_pointer(const gk_tensor *t) { return t->buffer->data + t->offset; }

/* Takes ownership of `state`, also on failure. */
gk_status gk_host_open(const gk_host_kernels *, void *state, gk_device **out, char *why, size_t why_capacity);
void gk_host_close(gk_device *);
const char *gk_host_last_error(gk_device *);
gk_status gk_host_memory(gk_device *, uint64_t *free_bytes, uint64_t *total_bytes);
void gk_host_traffic(gk_device *, gk_traffic *);
gk_status gk_host_alloc(gk_device *, uint64_t bytes, uint32_t usage, gk_buffer **);
void gk_host_release(gk_device *, gk_buffer *);
gk_status gk_host_write(gk_device *, gk_buffer *, uint64_t offset, const void *source, uint64_t bytes);
gk_status gk_host_read(gk_device *, gk_buffer *, uint64_t offset, void *destination, uint64_t bytes);
uint64_t gk_host_weight_bytes(gk_device *, uint32_t type, uint64_t ne0, uint64_t ne1);
gk_status gk_host_weight_put(gk_device *, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count);
gk_status gk_host_supports(gk_device *, const gk_op *);
gk_status gk_host_plan_build(gk_device *, const gk_op *, uint32_t count, gk_plan **);
gk_status gk_host_plan_run(gk_device *, gk_plan *, const gk_step *, uint32_t repeat);
gk_status gk_host_plan_info(gk_device *, gk_plan *, gk_plan_info *);
void gk_host_plan_free(gk_device *, gk_plan *);
gk_status gk_host_sync(gk_device *);

/* The entries of gk_backend from `close` on. */
#define GK_HOST_ENTRIES \
    .close = gk_host_close, .last_error = gk_host_last_error, .memory = gk_host_memory, .traffic = gk_host_traffic, \
    .alloc = gk_host_alloc, .release = gk_host_release, .write = gk_host_write, .read = gk_host_read, \
    .weight_bytes = gk_host_weight_bytes, .weight_put = gk_host_weight_put, .supports = gk_host_supports, \
    .plan_build = gk_host_plan_build, .plan_run = gk_host_plan_run, .plan_info = gk_host_plan_info, \
    .plan_free = gk_host_plan_free, .sync = gk_host_sync

/* Memory of this machine that this process can use (container limits apply); 0 if unknown. */
void gk_host_memory_of_machine(uint64_t *free_bytes, uint64_t *total_bytes);
/* Zeroed pages, with huge pages if the system has them; NULL if out of memory. */
void *gk_host_map(uint64_t bytes, uint64_t *mapped);
void gk_host_unmap(void *pages, uint64_t mapped);

#endif
