/* Buffers and plans in host memory. */
#include "host.h"

#include <stdlib.h>

static gk_status fail(gk_device *device, gk_status status, const char *text) {
    gk_text(device->error, sizeof device->error, "%s", text);
    return status;
}

static gk_status fail_op(gk_device *device, gk_status status, const gk_op *op, uint32_t index, const char *error) {
    gk_op_error(device->error, sizeof device->error, op, index, error);
    return status;
}

/* ---- devices ---- */

gk_status gk_host_open(const gk_host_kernels *kernels, void *state, gk_device **out, char *why, size_t why_capacity) {
    gk_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        if (kernels->close) kernels->close(state);
        gk_text(why, why_capacity, "out of memory");
        return GK_OUT_OF_MEMORY;
    }
    device->kernels = kernels;
    device->state = state;
    *out = device;
    return GK_OK;
}

void gk_host_close(gk_device *device) {
    if (device == NULL) return;
    while (device->plans) gk_host_plan_free(device, device->plans);
    while (device->buffers) gk_host_release(device, device->buffers);
    if (device->kernels->close) device->kernels->close(device->state);
    free(device);
}

const char *gk_host_last_error(gk_device *device) { return device ? device->error : ""; }

gk_status gk_host_memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    uint64_t available, total;
    gk_host_memory_of_machine(&available, &total);
    if (free_bytes) *free_bytes = available;
    if (total_bytes) *total_bytes = total;
    return GK_OK;
}

void gk_host_traffic(gk_device *device, gk_traffic *out) {
    if (out) *out = device ? device->traffic : (gk_traffic){0, 0};
}

gk_status gk_host_sync(gk_device *device) { return device ? GK_OK : GK_BAD_ARGUMENT; }

/* ---- buffers ---- */

static bool owns(const gk_device *device, const gk_buffer *buffer) {
    for (const gk_buffer *b = device->buffers; b; b = b->next) {
        if (b == buffer) return true;
    }
    return false;
}

static uint64_t buffer_bytes(void *context, const gk_buffer *buffer) {
    return owns(context, buffer) ? buffer->bytes : 0;
}

gk_status gk_host_alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    if (out) *out = NULL;
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (out == NULL || bytes == 0) return fail(device, GK_BAD_ARGUMENT, "alloc: `out` is NULL, or 0 bytes");
    if (usage < GK_USAGE_WEIGHT || usage > GK_USAGE_STAGING) return fail(device, GK_BAD_ARGUMENT, "alloc: unknown usage");
    uint64_t available, total;
    gk_host_memory_of_machine(&available, &total);
    /* The system may overcommit memory and kill the process later. */
    if (total != 0 && bytes > total) return fail(device, GK_OUT_OF_MEMORY, "alloc: more than this machine's memory");
    gk_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return fail(device, GK_OUT_OF_MEMORY, "alloc: out of memory");
    buffer->data = gk_host_map(bytes, &buffer->mapped);
    if (buffer->data == NULL) {
        free(buffer);
        return fail(device, GK_OUT_OF_MEMORY, "alloc: out of memory");
    }
    buffer->bytes = bytes;
    buffer->next = device->buffers;
    device->buffers = buffer;
    *out = buffer;
    return GK_OK;
}

void gk_host_release(gk_device *device, gk_buffer *buffer) {
    if (device == NULL || buffer == NULL) return;
    for (gk_buffer **link = &device->buffers; *link; link = &(*link)->next) {
        if (*link != buffer) continue;
        *link = buffer->next;
        gk_host_unmap(buffer->data, buffer->mapped);
        free(buffer);
        return;
    }
}

static gk_status check_transfer(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *host,
                                uint64_t bytes) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (buffer == NULL || !owns(device, buffer)) return fail(device, GK_BAD_ARGUMENT, "the buffer does not belong to this device");
    if (host == NULL && bytes != 0) return fail(device, GK_BAD_ARGUMENT, "no host memory given");
    if (!gk_range_fits(offset, bytes, buffer->bytes)) return fail(device, GK_BAD_ARGUMENT, "the range is outside the buffer");
    return GK_OK;
}

gk_status gk_host_write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    gk_status status = check_transfer(device, buffer, offset, source, bytes);
    if (status != GK_OK || bytes == 0) return status;
    memcpy(buffer->data + offset, source, (size_t)bytes);
    device->traffic.up += bytes;
    return GK_OK;
}

gk_status gk_host_read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    gk_status status = check_transfer(device, buffer, offset, destination, bytes);
    if (status != GK_OK || bytes == 0) return status;
    memcpy(destination, buffer->data + offset, (size_t)bytes);
    device->traffic.down += bytes;
    return GK_OK;
}

/* The type in which the kernels see this weight. */
static uint32_t kept_type(const gk_device *device, uint32_t type) {
    return device->exact && gk_is_block_type(type) ? GK_F32 : type;
}

uint64_t gk_host_weight_bytes(gk_device *device, uint32_t type, uint64_t ne0, uint64_t ne1) {
    if (device == NULL || ne0 == 0 || ne1 == 0) return 0;
    if (!gk_is_weight_type(type) || gk_row_bytes(type, ne0) == 0) return 0;
    return device->kernels->weight_bytes(kept_type(device, type), ne0, ne1);
}

/* Widens rows of blocks to f32 and passes them to the kernels one at a time. */
static gk_status put_widened(gk_device *device, const gk_tensor *dst, const unsigned char *rows, uint64_t first, uint64_t count) {
    gk_tensor wide = *dst;
    wide.type = GK_F32;
    float *row = malloc(dst->ne[0] * sizeof *row);
    if (row == NULL) return fail(device, GK_OUT_OF_MEMORY, "weight_put: out of memory");
    for (uint64_t n = 0; n < count; n++, rows += gk_row_bytes(dst->type, dst->ne[0])) {
        for (uint32_t k = 0; k < dst->ne[0]; k++) row[k] = (float)gk_row_value(dst->type, rows, k);
        device->kernels->weight_put(device->state, gk_host_pointer(dst), &wide, row, first + n, 1);
    }
    free(row);
    return GK_OK;
}

gk_status gk_host_weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (dst == NULL || dst->buffer == NULL || !owns(device, dst->buffer)) {
        return fail(device, GK_BAD_ARGUMENT, "weight_put: the buffer does not belong to this device");
    }
    uint64_t need = gk_host_weight_bytes(device, dst->type, dst->ne[0], dst->ne[1]);
    const char *error = gk_weight_put_check(dst, rows, first, count, need, dst->buffer->bytes);
    if (error) {
        gk_text(device->error, sizeof device->error, "weight_put: %s", error);
        return GK_BAD_ARGUMENT;
    }
    if (count != 0 && kept_type(device, dst->type) != dst->type) {
        gk_status status = put_widened(device, dst, rows, first, count);
        if (status != GK_OK) return status;
    } else if (count != 0) {
        device->kernels->weight_put(device->state, gk_host_pointer(dst), dst, rows, first, count);
    }
    device->traffic.up += count * gk_row_bytes(dst->type, dst->ne[0]);
    return GK_OK;
}

/* ---- plans ---- */

static uint64_t weight_bytes(void *context, uint32_t type, uint64_t ne0, uint64_t ne1) {
    return gk_host_weight_bytes(context, type, ne0, ne1);
}

/* Checks bounds and kernel support for an op that gk_op_check has accepted. */
static gk_status check_op(gk_device *device, const gk_op *op, uint32_t index) {
    const gk_bounds bounds = {device, buffer_bytes, weight_bytes};
    const char *error = gk_op_bounds(op, &bounds);
    if (error) return fail_op(device, GK_BAD_ARGUMENT, op, index, error);
    error = device->kernels->unsupported ? device->kernels->unsupported(op) : NULL;
    return error ? fail_op(device, GK_UNSUPPORTED, op, index, error) : GK_OK;
}

gk_status gk_host_supports(gk_device *device, const gk_op *op) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    const char *error = gk_op_check(op);
    return error ? fail_op(device, GK_BAD_ARGUMENT, op, 0, error) : check_op(device, op, 0);
}

gk_status gk_host_plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    if (out) *out = NULL;
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (out == NULL) return fail(device, GK_BAD_ARGUMENT, "plan_build: `out` is NULL");
    gk_plan_limits limits;
    uint32_t bad;
    const char *error = gk_plan_check(ops, count, &limits, &bad);
    if (error) return fail_op(device, GK_BAD_ARGUMENT, gk_op_at(ops, count, bad), bad, error);
    for (uint32_t n = 0; n < count; n++) {
        gk_status status = check_op(device, &ops[n], n);
        if (status != GK_OK) return status;
    }
    gk_plan *plan = calloc(1, sizeof *plan);
    gk_op *copy = calloc(count, sizeof *copy);
    for (uint32_t n = 0; copy && n < count; n++) {
        copy[n] = ops[n];
        if (gk_operand_role(&ops[n], GK_A) == GK_ROLE_WEIGHT) copy[n].a.type = kept_type(device, ops[n].a.type);
        if (gk_operand_role(&ops[n], GK_D) == GK_ROLE_WEIGHT) copy[n].d.type = kept_type(device, ops[n].d.type);
    }
    void *prepared = plan && copy ? device->kernels->prepare(device->state, copy, count, &limits) : NULL;
    if (prepared == NULL) {
        free(copy);
        free(plan);
        return fail(device, GK_OUT_OF_MEMORY, "plan_build: out of memory");
    }
    *plan = (gk_plan){.ops = copy, .count = count, .limits = limits, .prepared = prepared, .next = device->plans};
    device->plans = plan;
    *out = plan;
    return GK_OK;
}

static gk_plan **find_plan(gk_device *device, const gk_plan *plan) {
    gk_plan **link = &device->plans;
    while (*link && *link != plan) link = &(*link)->next;
    return link;
}

gk_status gk_host_plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (plan == NULL || *find_plan(device, plan) == NULL) {
        return fail(device, GK_BAD_ARGUMENT, "plan_run: the plan does not belong to this device");
    }
    const char *error = gk_step_check(&plan->limits, step, repeat);
    if (error) {
        gk_text(device->error, sizeof device->error, "plan_run: %s", error);
        return GK_BAD_ARGUMENT;
    }
    gk_step now = *step;
    device->traffic.up += sizeof now;
    for (uint32_t n = 0; n < repeat; n++) device->kernels->run(device->state, plan->prepared, plan->ops, plan->count, &now);
    return GK_OK;
}

gk_status gk_host_plan_info(gk_device *device, gk_plan *plan, gk_plan_info *out) {
    if (device == NULL) return GK_BAD_ARGUMENT;
    if (out == NULL) return fail(device, GK_BAD_ARGUMENT, "plan_info: `out` is NULL");
    if (plan == NULL || *find_plan(device, plan) == NULL) {
        return fail(device, GK_BAD_ARGUMENT, "plan_info: the plan does not belong to this device");
    }
    *out = (gk_plan_info){.replay = GK_REPLAY_HOST};
    return GK_OK;
}

void gk_host_plan_free(gk_device *device, gk_plan *plan) {
    if (device == NULL || plan == NULL) return;
    gk_plan **link = find_plan(device, plan);
    if (*link == NULL) return;
    *link = plan->next;
    device->kernels->discard(plan->prepared);
    free(plan->ops);
    free(plan);
}
