/* The gk_backend table. Guards the entry points against missing devices; the rest is in the files listed in
 * vulkan.h. */
#include "vulkan.h"

static const char *last_error(gk_device *device) { return device != NULL ? device->error : "no device given"; }

static gk_status memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    return device != NULL ? gkv_memory(device, free_bytes, total_bytes) : GK_BAD_ARGUMENT;
}

static void traffic(gk_device *device, gk_traffic *out) {
    if (out == NULL) return;
    *out = device != NULL ? device->traffic : (gk_traffic){0, 0};
}

static gk_status alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    if (device != NULL) return gkv_alloc(device, bytes, usage, out);
    if (out != NULL) *out = NULL;
    return GK_BAD_ARGUMENT;
}

static void release(gk_device *device, gk_buffer *buffer) {
    /* The step block is internal: callers must not release it. */
    if (device != NULL && buffer != device->step_block) gkv_release(device, buffer);
}

static gk_status write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    return device != NULL ? gkv_write(device, buffer, offset, source, bytes) : GK_BAD_ARGUMENT;
}

static gk_status read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    return device != NULL ? gkv_read(device, buffer, offset, destination, bytes) : GK_BAD_ARGUMENT;
}

static uint64_t weight_bytes(gk_device *device, uint32_t type, uint64_t ne0, uint64_t ne1) {
    return device != NULL ? gkv_weight_bytes(device, type, ne0, ne1) : 0;
}

static gk_status weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    return device != NULL ? gkv_weight_put(device, dst, rows, first, count) : GK_BAD_ARGUMENT;
}

static gk_status supports(gk_device *device, const gk_op *op) {
    return device != NULL ? gkv_supports(device, op) : GK_BAD_ARGUMENT;
}

static gk_status plan_build(gk_device *device, const gk_op *ops, uint32_t count, gk_plan **out) {
    if (device != NULL) return gkv_plan_build(device, ops, count, out);
    if (out != NULL) *out = NULL;
    return GK_BAD_ARGUMENT;
}

static gk_status plan_run(gk_device *device, gk_plan *plan, const gk_step *step, uint32_t repeat) {
    return device != NULL ? gkv_plan_run(device, plan, step, repeat) : GK_BAD_ARGUMENT;
}

static gk_status plan_info(gk_device *device, gk_plan *plan, gk_plan_info *out) {
    return device != NULL ? gkv_plan_info(device, plan, out) : GK_BAD_ARGUMENT;
}

static void plan_free(gk_device *device, gk_plan *plan) {
    if (device != NULL) gkv_plan_free(device, plan);
}

static gk_status sync(gk_device *device) { return device != NULL ? gkv_sync(device) : GK_BAD_ARGUMENT; }

const gk_backend *gk_backend_vulkan(void) {
    static const gk_backend backend = {
        .abi = GK_ABI,
        .id = "vulkan",
        .enumerate = gkv_enumerate,
        .open = gkv_open,
        .close = gkv_close,
        .last_error = last_error,
        .memory = memory,
        .traffic = traffic,
        .alloc = alloc,
        .release = release,
        .write = write,
        .read = read,
        .weight_bytes = weight_bytes,
        .weight_put = weight_put,
        .supports = supports,
        .plan_build = plan_build,
        .plan_run = plan_run,
        .plan_info = plan_info,
        .plan_free = plan_free,
        .sync = sync,
    };
    return &backend;
}
