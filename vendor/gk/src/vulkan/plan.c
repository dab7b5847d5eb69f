/* Plans: ops become dispatches, and all dispatches one command buffer that is submitted for every run. There is a
 * barrier only before a dispatch that accesses what another has written since the last barrier, or writes what
 * another has read. */
#include "vulkan.h"

#include <stdlib.h>

struct gk_plan {
    gk_plan *next, *previous;
    gk_plan_limits limits;
    VkCommandBuffer commands;
    gk_buffer *scratch;
    uint64_t busy_until;
    uint32_t launches;
};

/* ---- hazards ---- */

typedef struct range {
    const gk_buffer *buffer;
    uint64_t first, last; /* last = one past the end */
    bool written;
} range;

enum { MAX_RANGES = 96, MAX_OP_RANGES = 7 };

typedef struct hazards {
    range pending[MAX_RANGES];
    uint32_t count;
} hazards;

static bool collide(const range *x, const range *y) {
    return x->buffer == y->buffer && (x->written || y->written) && x->first < y->last && y->first < x->last;
}

/* Is a barrier needed before a dispatch with these ranges? Records the ranges. */
static bool needs_barrier(hazards *h, const range *ranges, uint32_t count) {
    bool needed = h->count + count > MAX_RANGES;
    for (uint32_t i = 0; i < h->count && !needed; i++) {
        for (uint32_t k = 0; k < count && !needed; k++) needed = collide(&h->pending[i], &ranges[k]);
    }
    if (needed) h->count = 0;
    for (uint32_t k = 0; k < count; k++) h->pending[h->count++] = ranges[k];
    return needed;
}

static uint64_t operand_bytes(gk_device *device, const gk_op *op, gk_operand operand) {
    const gk_tensor *t = gk_operand_of(op, operand);
    switch (gk_operand_role(op, operand)) {
    case GK_ROLE_WEIGHT: return gkv_weight_bytes(device, t->type, t->ne[0], t->ne[1]);
    case GK_ROLE_CACHE: return gk_row_bytes(t->type, t->ne[0]) * t->ne[1];
    case GK_ROLE_PLAIN: return gk_tensor_span(t);
    default: return 0;
    }
}

static uint32_t ranges_of(gk_device *device, const gk_op *op, const gk_buffer *scratch, range *out) {
    uint32_t count = 0;
    for (int operand = GK_DST; operand <= GK_D; operand++) {
        const gk_tensor *t = gk_operand_of(op, (gk_operand)operand);
        uint64_t bytes = t->buffer != NULL ? operand_bytes(device, op, (gk_operand)operand) : 0;
        if (bytes == 0) continue;
        out[count++] = (range){t->buffer, t->offset, t->offset + bytes, gk_operand_written(op, (gk_operand)operand)};
    }
    out[count++] = (range){device->step_block, 0, sizeof(gk_step), op->code == GK_OP_STEP};
    /* Must be the last range: record_op relies on it. */
    if (scratch != NULL) out[count++] = (range){scratch, 0, scratch->bytes, false};
    return count;
}

/* ---- building ---- */

static uint64_t buffer_bytes(void *context, const gk_buffer *buffer) { return gkv_buffer_bytes(context, buffer); }
static uint64_t weight_bytes(void *context, uint32_t type, uint64_t ne0, uint64_t ne1) {
    return gkv_weight_bytes(context, type, ne0, ne1);
}

gk_status gkv_supports(gk_device *device, const gk_op *op) {
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    const char *error = gk_op_check(op);
    if (error == NULL) error = gk_op_bounds(op, &bounds);
    if (error != NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "%s", error);
    gkv_lowered lowered;
    error = gkv_lower(device, op, &lowered);
    return error == NULL ? GK_OK : gkv_fail(device, GK_UNSUPPORTED, "%s", error);
}

static gk_status fail_op(gk_device *device, gk_status status, const gk_op *op, uint32_t index, const char *error) {
    gk_op_error(device->error, sizeof device->error, op, index, error);
    return status;
}

static gk_status check_ops(gk_device *device, const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint64_t *scratch) {
    uint32_t bad;
    const char *error = gk_plan_check(ops, count, limits, &bad);
    if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, gk_op_at(ops, count, bad), bad, error);
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    *scratch = 0;
    for (uint32_t n = 0; n < count; n++) {
        gkv_lowered lowered;
        error = gk_op_bounds(&ops[n], &bounds);
        if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, &ops[n], n, error);
        error = gkv_lower(device, &ops[n], &lowered);
        if (error == NULL && lowered.extra != GKV_EXTRAS && !device->tried[lowered.extra]) {
            gk_status status = gkv_try(device, lowered.extra);
            if (status != GK_OK) return status;
            error = gkv_lower(device, &ops[n], &lowered);
        }
        if (error != NULL) return fail_op(device, GK_UNSUPPORTED, &ops[n], n, error);
        if (lowered.scratch > *scratch) *scratch = lowered.scratch;
    }
    return GK_OK;
}

static VkDeviceAddress address_of(const gk_tensor *t) { return t->buffer != NULL ? t->buffer->address + t->offset : 0; }

static bool same_rows(const gk_tensor *x, const gk_tensor *y) {
    return x->buffer == y->buffer && x->offset == y->offset && x->ne[0] == y->ne[0] && x->ne[1] == y->ne[1] &&
           gk_stride(x) == gk_stride(y);
}

/* Does the scratch memory still hold the rounding of `rounded` after an op with these ranges? */
static bool stays_rounded(const gk_tensor *rounded, const range *ranges, uint32_t count) {
    const range source = {rounded->buffer, rounded->offset, rounded->offset + gk_tensor_span(rounded), false};
    for (uint32_t n = 0; n < count; n++) {
        if (collide(&source, &ranges[n])) return false;
    }
    return true;
}

/* Contents of the scratch memory and how they were rounded. Products of one source, such as q, k and v, share one
 * rounding. */
typedef struct rounding {
    const gk_tensor *source; /* NULL: nothing */
    gkv_extra extra;
} rounding;

static gk_status record_op(gk_device *device, gk_plan *plan, const gk_op *op, hazards *h, rounding *rounded) {
    gkv_lowered lowered;
    if (gkv_lower(device, op, &lowered) != NULL) return gkv_fail(device, GK_UNSUPPORTED, "no kernel"); /* cannot fail: checked before */
    range ranges[MAX_OP_RANGES];
    uint32_t range_count = ranges_of(device, op, lowered.scratch ? plan->scratch : NULL, ranges);
    const bool rounds = lowered.extra != GKV_EXTRAS;
    const bool skip = rounds && rounded->source != NULL && rounded->extra == lowered.extra && same_rows(rounded->source, &op->b);
    for (uint32_t n = skip ? 1 : 0; n < lowered.count; n++) {
        if (lowered.scratch) ranges[range_count - 1].written = n + 1 < lowered.count;
        gkv_dispatch *d = &lowered.dispatch[n];
        VkPipeline pipeline;
        gk_status status = gkv_pipeline_get(device, &d->variant, &pipeline);
        if (status != GK_OK) return status;
        d->push.dst = address_of(&op->dst);
        d->push.a = address_of(&op->a);
        d->push.b = address_of(&op->b);
        d->push.c = address_of(&op->c);
        d->push.step = device->step_block->address;
        d->push.extra = lowered.scratch ? plan->scratch->address : address_of(&op->d);
        if (needs_barrier(h, ranges, range_count)) gkv_barrier(device, plan->commands, GKV_TO_DEVICE);
        device->api.CmdBindPipeline(plan->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        device->api.CmdPushConstants(plan->commands, device->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof d->push, &d->push);
        plan->launches++;
        device->api.CmdDispatch(plan->commands, d->groups[0], d->groups[1], d->groups[2]);
    }
    if (lowered.scratch) *rounded = (rounding){rounds ? &op->b : NULL, lowered.extra};
    if (rounded->source != NULL && !stays_rounded(rounded->source, ranges, range_count)) rounded->source = NULL;
    return GK_OK;
}

static gk_status record(gk_device *device, gk_plan *plan, const gk_op *ops, uint32_t count) {
    gkv_api *api = &device->api;
    VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = device->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
    VkResult result = api->AllocateCommandBuffers(device->handle, &commands, &plan->commands);
    gk_status status = gkv_check(device, result, "vkAllocateCommandBuffers");
    if (status != GK_OK) return status;
    /* Several runs may be in flight. */
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    status = gkv_check(device, api->BeginCommandBuffer(plan->commands, &begin), "vkBeginCommandBuffer");
    if (status != GK_OK) return status;
    hazards h = {.count = 0};
    rounding rounded = {NULL, GKV_EXTRAS};
    gkv_barrier(device, plan->commands, GKV_TO_DEVICE);
    for (uint32_t n = 0; n < count && status == GK_OK; n++) status = record_op(device, plan, &ops[n], &h, &rounded);
    if (status != GK_OK) return status;
    gkv_barrier(device, plan->commands, GKV_TO_HOST);
    return gkv_check(device, api->EndCommandBuffer(plan->commands), "vkEndCommandBuffer");
}

gk_status gkv_plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    if (out == NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "plan_build: `out` is NULL");
    *out = NULL;
    gk_plan_limits limits;
    uint64_t scratch;
    gk_status status = check_ops(device, ops, count, &limits, &scratch);
    if (status != GK_OK) return status;
    gk_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) return gkv_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    plan->limits = limits;
    plan->next = device->plans;
    if (plan->next != NULL) plan->next->previous = plan;
    device->plans = plan;
    if (scratch != 0) status = gkv_alloc(device, scratch, GK_USAGE_STATE, &plan->scratch);
    if (status == GK_OK) status = record(device, plan, ops, count);
    if (status != GK_OK) {
        gkv_plan_free(device, plan);
        return status;
    }
    gkv_pipelines_save(device);
    *out = plan;
    return GK_OK;
}

static bool is_plan(const gk_device *device, const gk_plan *plan) {
    for (const gk_plan *p = device->plans; p != NULL; p = p->next) {
        if (p == plan) return true;
    }
    return false;
}

gk_status gkv_plan_info(gk_device *device, const gk_plan *plan, gk_plan_info *out) {
    if (out == NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "plan_info: `out` is NULL");
    if (!is_plan(device, plan)) return gkv_fail(device, GK_BAD_ARGUMENT, "plan_info: the plan does not belong to this device");
    *out = (gk_plan_info){.launches = plan->launches, .replay = GK_REPLAY_COMMANDS};
    return GK_OK;
}

void gkv_plan_free(gk_device *device, gk_plan *plan) {
    if (plan == NULL || !is_plan(device, plan)) return;
    if (!device->lost) (void)gkv_wait(device, plan->busy_until);
    if (plan->next != NULL) plan->next->previous = plan->previous;
    if (plan->previous != NULL) plan->previous->next = plan->next;
    else device->plans = plan->next;
    if (plan->commands != VK_NULL_HANDLE) device->api.FreeCommandBuffers(device->handle, device->pool, 1, &plan->commands);
    gkv_release(device, plan->scratch);
    free(plan);
}

/* ---- running ---- */

gk_status gkv_plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    if (!is_plan(device, plan)) return gkv_fail(device, GK_BAD_ARGUMENT, "plan_run: the plan does not belong to this device");
    const char *error = gk_step_check(&plan->limits, step, repeat);
    if (error != NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "plan_run: %s", error);
    VkCommandBuffer runs[GKV_MAX_REPEATS];
    for (int n = 0; n < GKV_MAX_REPEATS; n++) runs[n] = plan->commands;

    gkv_slot *slot;
    gk_status status = gkv_slot_begin(device, &slot);
    if (status != GK_OK) return status;
    device->api.CmdUpdateBuffer(slot->commands, device->step_block->handle, 0, sizeof *step, step);
    uint32_t now = repeat < GKV_MAX_REPEATS ? repeat : GKV_MAX_REPEATS;
    status = gkv_slot_submit(device, slot, runs, now);
    if (status != GK_OK) return status;
    plan->busy_until = slot->busy_until;
    device->traffic.up += sizeof *step;
    for (repeat -= now; repeat != 0; repeat -= now) {
        now = repeat < GKV_MAX_REPEATS ? repeat : GKV_MAX_REPEATS;
        status = gkv_submit(device, runs, now, &plan->busy_until);
        if (status != GK_OK) return status;
    }
    return GK_OK;
}
