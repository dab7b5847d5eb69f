/* The gk_backend table for the `vendor` and GK_GPU_ID that the including file defines. */
#ifndef GK_GPU_BACKEND_H
#define GK_GPU_BACKEND_H

#include "plan.h"

static gk_status backend_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    return gpu_enumerate(&vendor, out, capacity, count, why, why_capacity);
}

static gk_status backend_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    return gpu_open(&vendor, index, options, out, why, why_capacity);
}

static const gk_backend gpu_backend = {
    .abi = GK_ABI,
    .id = GK_GPU_ID,
    .enumerate = backend_enumerate,
    .open = backend_open,
    .close = gpu_close,
    .last_error = gpu_last_error,
    .memory = gpu_memory,
    .traffic = gpu_traffic,
    .alloc = gpu_alloc,
    .release = gpu_release,
    .write = gpu_write,
    .read = gpu_read,
    .weight_bytes = gpu_weight_bytes,
    .weight_put = gpu_weight_put,
    .supports = gpu_supports,
    .plan_build = gpu_plan_build,
    .plan_run = gpu_plan_run,
    .plan_info = gpu_plan_info,
    .plan_free = gpu_plan_free,
    .sync = gpu_sync,
};

#endif
