/* Plans: a list of launches, replayed as a graph if the driver has graphs. */
#ifndef GK_GPU_PLAN_H
#define GK_GPU_PLAN_H

#include "join.h"

struct gk_plan {
    gk_plan *next;
    gk_plan_limits limits;
    uint64_t scratch; /* device address, or 0 */
    void *graph;      /* executable graph, or NULL: the launches are issued one by one */
    char note[240];   /* why there is no graph */
    uint32_t count;
    gpu_launch launches[];
};

static gk_status gpu_op_fail(gk_device *device, gk_status status, const gk_op *op, uint32_t index, const char *error) {
    gk_op_error(device->error, sizeof device->error, op, index, error);
    return status;
}

static uint64_t gpu_bounds_buffer(void *context, const gk_buffer *buffer) {
    gk_buffer **at = gpu_find_buffer(context, buffer);
    return at ? (*at)->bytes : 0;
}

static uint64_t gpu_bounds_weight(void *context, uint32_t type, uint64_t ne0, uint64_t ne1) {
    return gpu_weight_bytes(context, type, ne0, ne1);
}

/* Checks bounds and the limits of the kernels, for an op that gk_op_check has accepted. */
static gk_status gpu_op_check(gk_device *device, const gk_op *op, uint32_t index) {
    const gk_bounds bounds = {device, gpu_bounds_buffer, gpu_bounds_weight};
    const char *error = gk_op_bounds(op, &bounds);
    if (error) return gpu_op_fail(device, GK_BAD_ARGUMENT, op, index, error);
    error = gpu_unsupported(device, op);
    return error ? gpu_op_fail(device, GK_UNSUPPORTED, op, index, error) : GK_OK;
}

static gk_status gpu_supports(gk_device *device, const gk_op *op) {
    if (!device) return GK_BAD_ARGUMENT;
    const char *error = gk_op_check(op);
    if (error) return gpu_op_fail(device, GK_BAD_ARGUMENT, op, 0, error);
    return gpu_op_check(device, op, 0);
}

static gk_status gpu_launch_one(gk_device *device, const gpu_launch *launch) {
    void *parameters[1];
    gk_gpu_args args = launch->args; /* the driver copies it before it returns */
    parameters[0] = &args;
    if (device->overlap) {
        gpu_launch_attribute early = {.id = GPU_LAUNCH_MAY_START_EARLY, .value = {.flag = 1}};
        const gpu_launch_config config = {.grid = {launch->grid[0], launch->grid[1], launch->grid[2]}, .block = {launch->block, 1, 1},
                                          .stream = device->stream, .attributes = &early, .attribute_count = 1};
        return gpu_check(device, device->api.launch_with(&config, device->functions[launch->kernel], parameters, NULL),
                         gpu_kernel_names[launch->kernel]);
    }
    return gpu_check(device,
                     device->api.launch(device->functions[launch->kernel], launch->grid[0], launch->grid[1], launch->grid[2],
                                        launch->block, 1, 1, 0, device->stream, parameters, NULL),
                     gpu_kernel_names[launch->kernel]);
}

static gk_status gpu_launch_all(gk_device *device, const gk_plan *plan) {
    gk_status status = GK_OK;
    for (uint32_t n = 0; n < plan->count && status == GK_OK; n++) status = gpu_launch_one(device, &plan->launches[n]);
    return status;
}

/* True if a step of creating the graph succeeded; otherwise records the failed step in the plan's note. */
static bool gpu_graph_step(gk_device *device, gk_plan *plan, int result, const char *doing) {
    if (result == GPU_SUCCESS) return true;
    gk_text(plan->note, sizeof plan->note, "%s failed: %s (%d)", doing, gpu_result_text(&device->api, result), result);
    return false;
}

/* Did the capture record every launch? Early HIP versions have calls that bypass a capture, and such a graph does
 * nothing. */
static bool gpu_captured_all(gk_device *device, gk_plan *plan, void *captured) {
    size_t nodes = 0;
    if (!device->api.graph_nodes) return true;
    if (!gpu_graph_step(device, plan, device->api.graph_nodes(captured, NULL, &nodes), "counting the launches in the capture")) return false;
    if (nodes == plan->count) return true;
    gk_text(plan->note, sizeof plan->note, "the capture has %zu of %u launches", nodes, plan->count);
    return false;
}

/* A graph saves the cost of each launch. The plan also works without one, so a failure here is not an error; `note`
 * has the reason. */
static void gpu_make_graph(gk_device *device, gk_plan *plan) {
    const gpu_api *api = &device->api;
    void *captured = NULL;
    if (!api->capture_begin || !api->capture_end || !api->graph_instantiate || !api->graph_launch ||
        !api->graph_executable_destroy || !api->graph_destroy) {
        gk_text(plan->note, sizeof plan->note, "`%s` does not support graphs", api->library);
        return;
    }
    if (!gpu_graph_step(device, plan, api->capture_begin(device->stream, GPU_CAPTURE_RELAXED), "starting the capture")) return;
    const gk_status launched = gpu_launch_all(device, plan);
    const int ended = api->capture_end(device->stream, &captured);
    if (launched != GK_OK) gk_text(plan->note, sizeof plan->note, "a launch in the capture failed: %s", device->error);
    else if (gpu_graph_step(device, plan, ended, "ending the capture") && !captured) gk_text(plan->note, sizeof plan->note, "the capture returned no graph");
    else if (captured && ended == GPU_SUCCESS && gpu_captured_all(device, plan, captured)) {
        const int made = api->graph_instantiate(&plan->graph, captured, 0);
        if (!gpu_graph_step(device, plan, made, "instantiating the graph")) plan->graph = NULL;
    }
    if (captured) (void)api->graph_destroy(captured);
    device->error[0] = '\0';
}

static void gpu_plan_destroy(gk_device *device, gk_plan *plan) {
    if (plan->graph) (void)device->api.graph_executable_destroy(plan->graph);
    if (plan->scratch) (void)device->api.memory_free(plan->scratch);
    free(plan);
}

static void gpu_plan_release_all(gk_device *device) {
    while (device->plans) {
        gk_plan *plan = device->plans;
        device->plans = plan->next;
        gpu_plan_destroy(device, plan);
    }
}

static gk_status gpu_plan_check(gk_device *device, const gk_op *ops, uint32_t count, gk_plan_limits *limits, uint64_t *scratch) {
    uint32_t bad = 0;
    const char *error = gk_plan_check(ops, count, limits, &bad);
    if (error) return gpu_op_fail(device, GK_BAD_ARGUMENT, gk_op_at(ops, count, bad), bad, error);
    *scratch = 0;
    for (uint32_t n = 0; n < count; n++) {
        const gk_status status = gpu_op_check(device, &ops[n], n);
        if (status != GK_OK) return status;
        const uint64_t need = gpu_scratch_bytes(device, &ops[n]);
        if (need > *scratch) *scratch = need;
    }
    return GK_OK;
}

static gk_status gpu_plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    gk_plan_limits limits;
    uint64_t scratch = 0;
    int before;
    if (out) *out = NULL;
    if (!device || !out) return GK_BAD_ARGUMENT;
    gk_status status = gpu_plan_check(device, ops, count, &limits, &scratch);
    if (status != GK_OK) return status;
    if (count > GPU_MOST_OPS) return gpu_fail(device, GK_UNSUPPORTED, "plan_build: too many ops");
    gk_plan *plan = calloc(1, sizeof *plan + (size_t)count * GPU_MOST_LAUNCHES * sizeof(gpu_launch));
    if (!plan) return gpu_fail(device, GK_OUT_OF_MEMORY, "plan_build: out of host memory");
    plan->limits = limits;
    status = gpu_enter(device, &before);
    if (status != GK_OK) {
        free(plan);
        return status;
    }
    if (scratch) {
        status = gpu_check(device, device->api.memory_alloc(&plan->scratch, (size_t)scratch), "allocating the scratch of a plan");
        if (status != GK_OK) plan->scratch = 0;
    }
    if (status == GK_OK) {
        gpu_launch converted = {.kernel = -1}; /* the conversion that the op before used */
        uint32_t joined = 0;                   /* the first op of the last launch */
        for (uint32_t n = 0; n < count; n++) {
            gpu_launch *launches = &plan->launches[plan->count];
            uint32_t made = gpu_launches_of(device, &ops[n], launches);
            const gpu_launch first = launches[0];
            if (gpu_same_conversion(&first, &converted)) {
                memmove(launches, launches + 1, --made * sizeof *launches);
            }
            converted = first;
            if (made == 1 && plan->count > 0 && gpu_join(device, launches - 1, &ops[joined], &ops[n], launches)) continue;
            joined = n;
            for (uint32_t m = 0; m < made; m++)
                if (launches[m].uses_scratch) launches[m].args.aux = plan->scratch;
            plan->count += made;
        }
        for (uint32_t n = 0; n < plan->count; n++) {
            gpu_launch *launch = &plan->launches[n];
            const uint32_t most = gpu_resident_blocks(device, launch->kernel);
            if (most > 0) launch->grid[0] = gpu_least(launch->grid[0], most);
            if (gpu_is_mma(launch->kernel)) gpu_complete_mma(device, launch);
        }
        gpu_make_graph(device, plan);
        plan->next = device->plans;
        device->plans = plan;
        *out = plan;
    } else {
        free(plan);
    }
    gpu_leave(device, before);
    return status;
}

static gk_plan **gpu_find_plan(gk_device *device, const gk_plan *plan) {
    for (gk_plan **at = &device->plans; *at; at = &(*at)->next)
        if (*at == plan) return at;
    return NULL;
}

static gk_status gpu_plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    int before;
    if (!device) return GK_BAD_ARGUMENT;
    if (!plan || !gpu_find_plan(device, plan)) return gpu_fail(device, GK_BAD_ARGUMENT, "not a plan of this device");
    const char *error = gk_step_check(&plan->limits, step, repeat);
    if (error) return gpu_fail(device, GK_BAD_ARGUMENT, error);
    gk_status status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    gpu_launch set;
    memset(&set, 0, sizeof set);
    set.kernel = GPU_KERNEL_set_step;
    set.grid[0] = set.grid[1] = set.grid[2] = 1;
    set.block = 32;
    set.args.step = device->step;
    set.args.start = *step;
    status = gpu_launch_one(device, &set);
    if (status == GK_OK) device->traffic.up += sizeof *step;
    for (uint32_t n = 0; n < repeat && status == GK_OK; n++) {
        status = plan->graph ? gpu_check(device, device->api.graph_launch(plan->graph, device->stream), "running a plan")
                             : gpu_launch_all(device, plan);
    }
    gpu_leave(device, before);
    return status;
}

static gk_status gpu_plan_info(gk_device *device, gk_plan *plan, gk_plan_info *out) {
    if (!device) return GK_BAD_ARGUMENT;
    if (!out) return gpu_fail(device, GK_BAD_ARGUMENT, "plan_info: `out` is NULL");
    if (!plan || !gpu_find_plan(device, plan)) return gpu_fail(device, GK_BAD_ARGUMENT, "plan_info: not a plan of this device");
    memset(out, 0, sizeof *out);
    out->launches = plan->count;
    out->replay = plan->graph ? GK_REPLAY_GRAPH : GK_REPLAY_LAUNCHES;
    gk_text(out->note, sizeof out->note, "%s", plan->note);
    return GK_OK;
}

static void gpu_plan_free(gk_device *device, gk_plan *plan) {
    int before;
    if (!device || !plan) return;
    gk_plan **at = gpu_find_plan(device, plan);
    if (!at) {
        (void)gpu_fail(device, GK_BAD_ARGUMENT, "plan_free: not a plan of this device");
        return;
    }
    *at = plan->next;
    if (gpu_enter(device, &before) == GK_OK) {
        (void)device->api.stream_wait(device->stream);
        gpu_plan_destroy(device, plan);
        gpu_leave(device, before);
    } else {
        free(plan);
    }
}

#endif
