/* Plans: ops become commands, each with its pipeline, operands and arguments, computed once. Metal's command buffers
 * cannot be reused, so each run encodes the commands into new ones: one per repetition of the plan, with one serial
 * encoder, whose dispatches wait for each other. */
#include "metal.h"

#include <stdlib.h>

typedef struct command {
    gkmtl_id pipeline;
    gkmtl_id operand[GKMTL_OPERANDS];
    uint64_t offset[GKMTL_OPERANDS];
    gkmtl_arguments arguments;
    gkmtl_size groups, threads;
} command;

struct gk_plan {
    gk_plan *next, *previous;
    gk_plan_limits limits;
    gk_buffer *scratch;
    command *commands;
    uint32_t command_count;
};

/* ---- building ---- */

static uint64_t buffer_bytes(void *context, const gk_buffer *buffer) { return gkmtl_buffer_bytes(context, buffer); }
static uint64_t weight_bytes(void *context, uint32_t type, uint64_t ne0, uint64_t ne1) {
    (void)context;
    return gk_planes_bytes(type, ne0, ne1);
}

gk_status gkmtl_supports(gk_device *device, const gk_op *op) {
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    const char *error = gk_op_check(op);
    if (error == NULL) error = gk_op_bounds(op, &bounds);
    if (error != NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "%s", error);
    gkmtl_lowered lowered;
    error = gkmtl_lower(device, op, &lowered);
    return error == NULL ? GK_OK : gkmtl_fail(device, GK_UNSUPPORTED, "%s", error);
}

static gk_status fail_op(gk_device *device, gk_status status, const gk_op *op, uint32_t index, const char *error) {
    gk_op_error(device->error, sizeof device->error, op, index, error);
    return status;
}

static gk_status check_ops(gk_device *device, const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint64_t *scratch,
                           uint32_t *commands) {
    uint32_t bad;
    const char *error = gk_plan_check(ops, count, limits, &bad);
    if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, gk_op_at(ops, count, bad), bad, error);
    const gk_bounds bounds = {.context = device, .buffer_bytes = buffer_bytes, .weight_bytes = weight_bytes};
    *scratch = 0;
    *commands = 0;
    for (uint32_t n = 0; n < count; n++) {
        gkmtl_lowered lowered;
        error = gk_op_bounds(&ops[n], &bounds);
        if (error != NULL) return fail_op(device, GK_BAD_ARGUMENT, &ops[n], n, error);
        error = gkmtl_lower(device, &ops[n], &lowered);
        if (error != NULL) return fail_op(device, GK_UNSUPPORTED, &ops[n], n, error);
        if (lowered.scratch > *scratch) *scratch = lowered.scratch;
        if (*commands > UINT32_MAX - lowered.count) return fail_op(device, GK_UNSUPPORTED, &ops[n], n, "too many ops in one plan");
        *commands += lowered.count;
    }
    return GK_OK;
}

/* Missing operands use the step block, because every argument needs memory. */
static void set_operand(const gk_device *device, command *c, uint32_t which, const gk_tensor *t) {
    c->operand[which] = t->buffer != NULL ? t->buffer->handle : device->step_block->handle;
    c->offset[which] = t->buffer != NULL ? t->offset : 0;
}

static gk_status record_op(gk_device *device, gk_plan *plan, const gk_op *op) {
    gkmtl_lowered lowered;
    if (gkmtl_lower(device, op, &lowered) != NULL) return gkmtl_fail(device, GK_UNSUPPORTED, "no kernel"); /* checked before */
    for (uint32_t n = 0; n < lowered.count; n++) {
        const gkmtl_launch *l = &lowered.launch[n];
        command *c = &plan->commands[plan->command_count];
        gk_status status = gkmtl_pipeline(device, &l->variant, &c->pipeline);
        if (status != GK_OK) return status;
        const gk_tensor *const operands[] = {&op->dst, &op->a, &op->b, &op->c};
        for (uint32_t i = 0; i < 4; i++) set_operand(device, c, i, operands[i]);
        c->operand[4] = lowered.scratch ? plan->scratch->handle : device->step_block->handle;
        c->operand[5] = device->step_block->handle;
        c->arguments = l->arguments;
        c->groups = (gkmtl_size){(uintptr_t)l->groups[0], (uintptr_t)l->groups[1], (uintptr_t)l->groups[2]};
        c->threads = (gkmtl_size){l->variant.threads, 1, 1};
        plan->command_count++;
    }
    return GK_OK;
}

gk_status gkmtl_plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    if (out == NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "plan_build: `out` is NULL");
    *out = NULL;
    gk_plan_limits limits;
    uint64_t scratch;
    uint32_t commands;
    gk_status status = check_ops(device, ops, count, &limits, &scratch, &commands);
    if (status == GK_OK) status = gkmtl_alive(device);
    if (status != GK_OK) return status;
    gk_plan *plan = calloc(1, sizeof *plan);
    command *room = calloc(commands, sizeof *room);
    if (plan == NULL || room == NULL) {
        free(plan);
        free(room);
        return gkmtl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    }
    plan->commands = room;
    plan->limits = limits;
    plan->next = device->plans;
    if (plan->next != NULL) plan->next->previous = plan;
    device->plans = plan;
    if (scratch != 0) status = gkmtl_alloc(device, scratch, GK_USAGE_STATE, &plan->scratch);
    for (uint32_t n = 0; n < count && status == GK_OK; n++) status = record_op(device, plan, &ops[n]);
    if (status != GK_OK) {
        gkmtl_plan_free(device, plan);
        return status;
    }
    *out = plan;
    return GK_OK;
}

static bool is_plan(const gk_device *device, const gk_plan *plan) {
    for (const gk_plan *p = device->plans; p != NULL; p = p->next) {
        if (p == plan) return true;
    }
    return false;
}

gk_status gkmtl_plan_info(gk_device *device, const gk_plan *plan, gk_plan_info *out) {
    if (out == NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "plan_info: `out` is NULL");
    if (!is_plan(device, plan)) return gkmtl_fail(device, GK_BAD_ARGUMENT, "plan_info: the plan does not belong to this device");
    *out = (gk_plan_info){.launches = plan->command_count, .replay = GK_REPLAY_LAUNCHES};
    return GK_OK;
}

void gkmtl_plan_free(gk_device *device, gk_plan *plan) {
    if (plan == NULL || !is_plan(device, plan)) return;
    if (plan->next != NULL) plan->next->previous = plan->previous;
    if (plan->previous != NULL) plan->previous->next = plan->next;
    else device->plans = plan->next;
    gkmtl_release(device, plan->scratch);
    free(plan->commands);
    free(plan);
}

/* ---- running ---- */

static void encode(const gkmtl_api *api, gkmtl_id encoder, const command *c) {
    gkmtl_set_pipeline(api, encoder, c->pipeline);
    for (uint32_t i = 0; i < GKMTL_OPERANDS; i++) gkmtl_set_buffer(api, encoder, c->operand[i], c->offset[i], i);
    gkmtl_set_bytes(api, encoder, &c->arguments, sizeof c->arguments, GKMTL_OPERANDS);
    gkmtl_dispatch(api, encoder, c->groups, c->threads);
}

/* The command that starts a run. It contains the 16 bytes of the step, so it does not wait for earlier runs. */
static gk_status start_command(gk_device *device, const gk_step *step, command *out) {
    const gkmtl_variant variant = {.kernel = GKMTL_KERNEL_set_step, .threads = GKMTL_WIDTH};
    *out = (command){.groups = {1, 1, 1}, .threads = {GKMTL_WIDTH, 1, 1}};
    for (uint32_t i = 0; i < GKMTL_OPERANDS; i++) out->operand[i] = device->step_block->handle;
    memcpy(out->arguments.n, step, sizeof *step);
    return gkmtl_pipeline(device, &variant, &out->pipeline);
}

/* `start` may be NULL. */
static gk_status run_once(gk_device *device, const gk_plan *plan, const command *start) {
    const gkmtl_api *api = &device->api;
    void *pool = gkmtl_pool_push(api);
    gkmtl_id commands = gkmtl_new_commands(api, device->queue);
    gkmtl_id encoder = commands != NULL ? gkmtl_encoder(api, commands) : NULL;
    gk_status status;
    if (encoder != NULL) {
        if (start != NULL) encode(api, encoder, start);
        for (uint32_t n = 0; n < plan->command_count; n++) encode(api, encoder, &plan->commands[n]);
        gkmtl_end(api, encoder);
        gkmtl_commit(api, commands);
        status = gkmtl_keep_pending(device, commands);
    } else {
        gkmtl_release_object(api, commands);
        status = gkmtl_fail(device, GK_FAILED, "Metal returned no %s", commands != NULL ? "encoder" : "command buffer");
    }
    gkmtl_pool_pop(api, pool);
    return status;
}

gk_status gkmtl_plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    if (!is_plan(device, plan)) return gkmtl_fail(device, GK_BAD_ARGUMENT, "plan_run: the plan does not belong to this device");
    const char *error = gk_step_check(&plan->limits, step, repeat);
    if (error != NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "plan_run: %s", error);
    gk_status status = gkmtl_alive(device);
    command start;
    if (status == GK_OK) status = start_command(device, step, &start);
    for (uint32_t run = 0; run < repeat && status == GK_OK; run++) status = run_once(device, plan, run == 0 ? &start : NULL);
    if (status == GK_OK) device->traffic.up += sizeof *step;
    return status;
}
