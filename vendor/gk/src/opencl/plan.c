/* Plans: ops become dispatches, each with its own kernel object whose arguments are set once. A run enqueues them in
 * order; the queue is in-order, so no dependencies are declared. */
#include "opencl.h"

#include <stdlib.h>

typedef struct launch {
    cl_kernel kernel;
    cl_uint dimensions;
    size_t global[3], local[3];
} launch;

struct gk_plan {
    gk_plan *next, *previous;
    gk_plan_limits limits;
    gk_buffer *scratch;
    launch *launches;
    uint32_t launch_count;
};

/* ---- building ---- */

static uint64_t buffer_bytes(void *context, const gk_buffer *buffer) { return gkcl_buffer_bytes(context, buffer); }
static uint64_t weight_bytes(void *context, uint32_t type, uint64_t ne0, uint64_t ne1) {
    (void)context;
    return gkcl_weight_bytes(type, ne0, ne1);
}

gk_status gkcl_supports(gk_device *device, const gk_op *op) {
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    const char *error = gk_op_check(op);
    if (error == NULL) error = gk_op_bounds(op, &bounds);
    if (error != NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "%s", error);
    gkcl_lowered lowered;
    error = gkcl_lower(device, op, &lowered);
    return error == NULL ? GK_OK : gkcl_fail(device, GK_UNSUPPORTED, "%s", error);
}

static gk_status fail_op(gk_device *device, gk_status status, const gk_op *op, uint32_t index, const char *error) {
    gk_op_error(device->error, sizeof device->error, op, index, error);
    return status;
}

static gk_status check_ops(gk_device *device, const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint64_t *scratch,
                           uint32_t *launches) {
    uint32_t bad;
    const char *error = gk_plan_check(ops, count, limits, &bad);
    if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, gk_op_at(ops, count, bad), bad, error);
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    *scratch = 0;
    *launches = 0;
    for (uint32_t n = 0; n < count; n++) {
        gkcl_lowered lowered;
        error = gk_op_bounds(&ops[n], &bounds);
        if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, &ops[n], n, error);
        error = gkcl_lower(device, &ops[n], &lowered);
        if (error != NULL) return fail_op(device, GK_UNSUPPORTED, &ops[n], n, error);
        if (lowered.scratch > *scratch) *scratch = lowered.scratch;
        if (*launches > UINT32_MAX - lowered.count) return fail_op(device, GK_UNSUPPORTED, &ops[n], n, "too many ops in one plan");
        *launches += lowered.count;
    }
    return GK_OK;
}

/* Missing operands use the step block, because every argument has to be a buffer. */
static cl_mem memory_of(const gk_device *device, const gk_tensor *t) {
    return t->buffer != NULL ? t->buffer->handle : device->step_block->handle;
}

static uint64_t offset_of(const gk_tensor *t) { return t->buffer != NULL ? t->offset : 0; }

static gk_status record_op(gk_device *device, gk_plan *plan, const gk_op *op) {
    gkcl_lowered lowered;
    if (gkcl_lower(device, op, &lowered) != NULL) return gkcl_fail(device, GK_UNSUPPORTED, "no kernel"); /* checked before */
    const cl_mem operands[6] = {
        memory_of(device, &op->dst), memory_of(device, &op->a), memory_of(device, &op->b), memory_of(device, &op->c),
        lowered.scratch ? plan->scratch->handle : memory_of(device, &op->a), device->step_block->handle,
    };
    for (uint32_t n = 0; n < lowered.count; n++) {
        gkcl_dispatch *d = &lowered.dispatch[n];
        const uint64_t at[8] = {offset_of(&op->dst), offset_of(&op->a), offset_of(&op->b), offset_of(&op->c),
                                0};
        memcpy(d->arguments.at, at, sizeof at);
        launch *l = &plan->launches[plan->launch_count];
        gk_status status = gkcl_kernel_new(device, &d->variant, &l->kernel);
        if (status != GK_OK) return status;
        plan->launch_count++;
        l->dimensions = d->groups[2] > 1 ? 3 : d->groups[1] > 1 ? 2 : 1;
        for (int i = 0; i < 3; i++) {
            l->local[i] = i == 0 ? d->variant.workgroup : 1;
            if (d->groups[i] > SIZE_MAX / l->local[i]) return gkcl_fail(device, GK_UNSUPPORTED, "the number of work-items overflows");
            l->global[i] = (size_t)d->groups[i] * l->local[i];
        }
        status = gkcl_set_arguments(device, l->kernel, operands, &d->arguments);
        if (status != GK_OK) return status;
    }
    return GK_OK;
}

gk_status gkcl_plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    if (out == NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "plan_build: `out` is NULL");
    *out = NULL;
    gk_plan_limits limits;
    uint64_t scratch;
    uint32_t launches;
    gk_status status = check_ops(device, ops, count, &limits, &scratch, &launches);
    if (status == GK_OK) status = gkcl_alive(device);
    if (status != GK_OK) return status;
    gk_plan *plan = calloc(1, sizeof *plan);
    launch *room = calloc(launches, sizeof *room);
    if (plan == NULL || room == NULL) {
        free(plan);
        free(room);
        return gkcl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    }
    plan->launches = room;
    plan->limits = limits;
    plan->next = device->plans;
    if (plan->next != NULL) plan->next->previous = plan;
    device->plans = plan;
    if (scratch != 0) status = gkcl_alloc(device, scratch, GK_USAGE_STATE, &plan->scratch);
    for (uint32_t n = 0; n < count && status == GK_OK; n++) status = record_op(device, plan, &ops[n]);
    if (status != GK_OK) {
        gkcl_plan_free(device, plan);
        return status;
    }
    gkcl_programs_save(device);
    *out = plan;
    return GK_OK;
}

static bool is_plan(const gk_device *device, const gk_plan *plan) {
    for (const gk_plan *p = device->plans; p != NULL; p = p->next) {
        if (p == plan) return true;
    }
    return false;
}

gk_status gkcl_plan_info(gk_device *device, const gk_plan *plan, gk_plan_info *out) {
    if (out == NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "plan_info: `out` is NULL");
    if (!is_plan(device, plan)) return gkcl_fail(device, GK_BAD_ARGUMENT, "plan_info: the plan does not belong to this device");
    *out = (gk_plan_info){.launches = plan->launch_count, .replay = GK_REPLAY_LAUNCHES};
    return GK_OK;
}

void gkcl_plan_free(gk_device *device, gk_plan *plan) {
    if (plan == NULL || !is_plan(device, plan)) return;
    if (plan->next != NULL) plan->next->previous = plan->previous;
    if (plan->previous != NULL) plan->previous->next = plan->next;
    else device->plans = plan->next;
    /* The driver retains kernels that are still in the queue; gkcl_release waits before it frees the scratch buffer. */
    for (uint32_t n = 0; n < plan->launch_count; n++) device->api.ReleaseKernel(plan->launches[n].kernel);
    gkcl_release(device, plan->scratch);
    free(plan->launches);
    free(plan);
}

/* ---- running ---- */

gk_status gkcl_plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    if (!is_plan(device, plan)) return gkcl_fail(device, GK_BAD_ARGUMENT, "plan_run: the plan does not belong to this device");
    const char *error = gk_step_check(&plan->limits, step, repeat);
    if (error != NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "plan_run: %s", error);
    gk_status status = gkcl_alive(device);
    if (status != GK_OK) return status;
    const gkcl_api *api = &device->api;
    /* A fill instead of a write: the driver copies the 16 bytes, so there is no need to wait. */
    cl_int result = api->EnqueueFillBuffer(device->queue, device->step_block->handle, step, sizeof *step, 0, sizeof *step, 0, NULL, NULL);
    status = gkcl_check(device, result, "clEnqueueFillBuffer");
    if (status != GK_OK) return status;
    device->traffic.up += sizeof *step;
    for (uint32_t run = 0; run < repeat; run++) {
        for (uint32_t n = 0; n < plan->launch_count && result == CL_SUCCESS; n++) {
            const launch *l = &plan->launches[n];
            result = api->EnqueueNDRangeKernel(device->queue, l->kernel, l->dimensions, NULL, l->global, l->local, 0, NULL, NULL);
        }
        status = gkcl_check(device, result, "clEnqueueNDRangeKernel");
        if (status != GK_OK) return status;
        if (run % GKCL_MAX_REPEATS == GKCL_MAX_REPEATS - 1) status = gkcl_sync(device);
        if (status != GK_OK) return status;
    }
    return gkcl_check(device, api->Flush(device->queue), "clFlush");
}
