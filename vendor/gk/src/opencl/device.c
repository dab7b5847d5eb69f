/* Opening and closing a device, its errors, and its one in-order queue. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>

gk_status gkcl_fail(gk_device *device, gk_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(device->error, sizeof device->error, format, arguments) < 0) device->error[0] = '\0';
    va_end(arguments);
    return status;
}

/* Results from which no driver recovers. */
static bool means_lost(cl_int result) {
    return result == CL_DEVICE_NOT_AVAILABLE || result == CL_INVALID_CONTEXT || result == CL_INVALID_COMMAND_QUEUE ||
           result == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST || result <= -9999 /* NVIDIA: a kernel crashed */;
}

gk_status gkcl_check(gk_device *device, cl_int result, const char *what) {
    if (result == CL_SUCCESS) return GK_OK;
    if (means_lost(result)) device->lost = true;
    return gkcl_fail(device, device->lost ? GK_DEVICE_LOST : gkcl_status_of(result), "%s failed: %s (%d)", what,
                     gkcl_result_text(result), (int)result);
}

gk_status gkcl_alive(gk_device *device) {
    return device->lost ? gkcl_fail(device, GK_DEVICE_LOST, "the device was lost before") : GK_OK;
}

gk_status gkcl_sync(gk_device *device) {
    gk_status status = gkcl_alive(device);
    if (status != GK_OK) return status;
    cl_int result = device->api.Finish(device->queue);
    if (result != CL_SUCCESS) device->lost = true; /* the state of the pending work is unknown */
    return gkcl_check(device, result, "clFinish");
}

void gkcl_close(gk_device *device) {
    if (device == NULL) return;
    gkcl_api *api = &device->api;
    if (device->queue != NULL) {
        if (!device->lost) (void)api->Finish(device->queue);
        while (device->plans != NULL) gkcl_plan_free(device, device->plans);
        while (device->buffers != NULL) gkcl_release(device, device->buffers);
        gkcl_programs_close(device);
        api->ReleaseCommandQueue(device->queue);
    }
    if (device->context != NULL) api->ReleaseContext(device->context);
    gkcl_api_close(api);
    free(device);
}

static gk_status open_queue(gk_device *device) {
    gkcl_api *api = &device->api;
    const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)device->platform, 0};
    cl_int result = CL_SUCCESS;
    device->context = api->CreateContext(properties, 1, &device->id, NULL, NULL, &result);
    gk_status status = gkcl_check(device, result, "clCreateContext");
    if (status == GK_OK && device->context == NULL) status = gkcl_fail(device, GK_FAILED, "clCreateContext returned nothing");
    if (status != GK_OK) {
        device->context = NULL;
        return status;
    }
    device->queue = api->CreateCommandQueue(device->context, device->id, 0, &result);
    status = gkcl_check(device, result, "clCreateCommandQueue");
    if (status == GK_OK && device->queue == NULL) status = gkcl_fail(device, GK_FAILED, "clCreateCommandQueue returned nothing");
    if (status != GK_OK) device->queue = NULL;
    return status;
}

gk_status gkcl_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", "");
    if (out == NULL) return GK_BAD_ARGUMENT;
    *out = NULL;
    gk_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        gk_text(why, why_capacity, "out of host memory");
        return GK_OUT_OF_MEMORY;
    }
    gk_status status = gkcl_api_open(&device->api, why, why_capacity);
    if (status == GK_OK) status = gkcl_pick_device(device, index, why, why_capacity);
    if (status == GK_OK) {
        status = open_queue(device);
        if (status == GK_OK) status = gkcl_alloc(device, sizeof(gk_step), GK_USAGE_STATE, &device->step_block);
        if (status == GK_OK) status = gkcl_programs_open(device, options ? options->cache_dir : NULL);
        if (status != GK_OK) gk_text(why, why_capacity, "%s", device->error);
    }
    if (status != GK_OK) {
        gkcl_close(device);
        return status;
    }
    *out = device;
    return GK_OK;
}
