/* Opening and closing a device, its errors, and its queue with a timeline: every submission gets the next number,
 * and waiting for a number waits for everything before it. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>

gk_status gkv_fail(gk_device *device, gk_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(device->error, sizeof device->error, format, arguments) < 0) device->error[0] = '\0';
    va_end(arguments);
    return status;
}

gk_status gkv_check(gk_device *device, VkResult result, const char *what) {
    if (result == VK_SUCCESS) return GK_OK;
    if (result == VK_ERROR_DEVICE_LOST) device->lost = true;
    return gkv_fail(device, gkv_status_of(result), "%s failed: %s (%d)", what, gkv_result_text(result), (int)result);
}

/* ---- queue ---- */

void gkv_barrier(gk_device *device, VkCommandBuffer commands, gkv_reach reach) {
    const VkPipelineStageFlags work = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                         VK_ACCESS_TRANSFER_WRITE_BIT,
    };
    VkPipelineStageFlags after = work;
    if (reach == GKV_TO_HOST) {
        after |= VK_PIPELINE_STAGE_HOST_BIT;
        barrier.dstAccessMask |= VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT;
    }
    device->api.CmdPipelineBarrier(commands, work, after, 0, 1, &barrier, 0, NULL, 0, NULL);
}

gk_status gkv_submit(gk_device *device, const VkCommandBuffer *commands, uint32_t count, uint64_t *value) {
    if (device->lost) return gkv_fail(device, GK_DEVICE_LOST, "the device was lost before");
    uint64_t signal = device->submitted + 1;
    VkTimelineSemaphoreSubmitInfo timeline = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                              .signalSemaphoreValueCount = 1, .pSignalSemaphoreValues = &signal};
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .pNext = &timeline,
                         .commandBufferCount = count, .pCommandBuffers = commands,
                         .signalSemaphoreCount = 1, .pSignalSemaphores = &device->timeline};
    gk_status status = gkv_check(device, device->api.QueueSubmit(device->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    if (status != GK_OK) return status;
    device->submitted = signal;
    if (value != NULL) *value = signal;
    return GK_OK;
}

gk_status gkv_wait(gk_device *device, uint64_t value) {
    if (device->lost) return gkv_fail(device, GK_DEVICE_LOST, "the device was lost before");
    if (value <= device->completed) return GK_OK;
    VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO, .semaphoreCount = 1,
                                .pSemaphores = &device->timeline, .pValues = &value};
    gk_status status = gkv_check(device, device->api.WaitSemaphores(device->handle, &info, UINT64_MAX), "vkWaitSemaphores");
    if (status == GK_OK) device->completed = value;
    return status;
}

gk_status gkv_sync(gk_device *device) { return gkv_wait(device, device->submitted); }

static gk_status open_queue(gk_device *device) {
    gkv_api *api = &device->api;
    api->GetDeviceQueue(device->handle, device->queue_family, 0, &device->queue);
    VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                      .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkResult result = api->CreateSemaphore(device->handle, &semaphore, NULL, &device->timeline);
    gk_status status = gkv_check(device, result, "vkCreateSemaphore");
    if (status != GK_OK) return status;
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = device->queue_family};
    return gkv_check(device, api->CreateCommandPool(device->handle, &pool, NULL, &device->pool), "vkCreateCommandPool");
}

/* ---- open and close ---- */

void gkv_close(gk_device *device) {
    if (device == NULL) return;
    gkv_api *api = &device->api;
    if (device->handle != VK_NULL_HANDLE && api->DestroyDevice != NULL) {
        /* A failed open may have loaded only some functions; in that case none of the objects below exist. */
        if (device->pool != VK_NULL_HANDLE) {
            api->DeviceWaitIdle(device->handle);
            while (device->plans != NULL) gkv_plan_free(device, device->plans);
            while (device->buffers != NULL) gkv_release(device, device->buffers);
            gkv_slots_close(device);
            gkv_pipelines_close(device);
            api->DestroyCommandPool(device->handle, device->pool, NULL);
        }
        if (device->timeline != VK_NULL_HANDLE) api->DestroySemaphore(device->handle, device->timeline, NULL);
        api->DestroyDevice(device->handle, NULL);
    }
    gkv_api_close(api);
    free(device);
}

gk_status gkv_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", "");
    if (out == NULL) return GK_BAD_ARGUMENT;
    *out = NULL;
    gk_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        gk_text(why, why_capacity, "out of host memory");
        return GK_OUT_OF_MEMORY;
    }
    device->exact = options != NULL && (options->flags & GK_OPEN_EXACT) != 0;
    gk_status status = gkv_api_open(&device->api, why, why_capacity);
    if (status == GK_OK) status = gkv_create_device(device, index, why, why_capacity);
    if (status == GK_OK) {
        status = open_queue(device);
        if (status == GK_OK) status = gkv_slots_open(device);
        if (status == GK_OK) status = gkv_pipelines_open(device, options ? options->cache_dir : NULL);
        if (status == GK_OK) status = gkv_alloc(device, sizeof(gk_step), GK_USAGE_STATE, &device->step_block);
        if (status != GK_OK) gk_text(why, why_capacity, "%s", device->error);
    }
    if (status != GK_OK) {
        gkv_close(device);
        return status;
    }
    *out = device;
    return GK_OK;
}
