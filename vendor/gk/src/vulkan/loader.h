/* The Vulkan loader, opened at run time. Nothing here links to it. */
#ifndef GKV_LOADER_H
#define GKV_LOADER_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "gk_internal.h"

#define GKV_INSTANCE_FUNCTIONS(X) \
    X(DestroyInstance) \
    X(EnumeratePhysicalDevices) \
    X(EnumerateDeviceExtensionProperties) \
    X(GetPhysicalDeviceProperties) \
    X(GetPhysicalDeviceProperties2) \
    X(GetPhysicalDeviceFeatures2) \
    X(GetPhysicalDeviceMemoryProperties2) \
    X(GetPhysicalDeviceQueueFamilyProperties) \
    X(CreateDevice) \
    X(GetDeviceProcAddr)

#define GKV_DEVICE_FUNCTIONS(X) \
    X(DestroyDevice) \
    X(GetDeviceQueue) \
    X(QueueSubmit) \
    X(DeviceWaitIdle) \
    X(CreateSemaphore) \
    X(DestroySemaphore) \
    X(WaitSemaphores) \
    X(CreateCommandPool) \
    X(DestroyCommandPool) \
    X(AllocateCommandBuffers) \
    X(FreeCommandBuffers) \
    X(BeginCommandBuffer) \
    X(EndCommandBuffer) \
    X(CmdPipelineBarrier) \
    X(CmdCopyBuffer) \
    X(CmdFillBuffer) \
    X(CmdUpdateBuffer) \
    X(CmdBindPipeline) \
    X(CmdPushConstants) \
    X(CmdDispatch) \
    X(CreateBuffer) \
    X(DestroyBuffer) \
    X(GetBufferMemoryRequirements) \
    X(GetBufferDeviceAddress) \
    X(AllocateMemory) \
    X(FreeMemory) \
    X(BindBufferMemory) \
    X(MapMemory) \
    X(CreateShaderModule) \
    X(DestroyShaderModule) \
    X(CreatePipelineLayout) \
    X(DestroyPipelineLayout) \
    X(CreateComputePipelines) \
    X(DestroyPipeline) \
    X(CreatePipelineCache) \
    X(DestroyPipelineCache) \
    X(GetPipelineCacheData)

/* One table for a device: an instance, its physical devices, and after gkv_load_device the device functions. */
typedef struct gkv_api {
    void *library;
    VkInstance instance;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
#define GKV_MEMBER(name) PFN_vk##name name;
    GKV_INSTANCE_FUNCTIONS(GKV_MEMBER)
    GKV_DEVICE_FUNCTIONS(GKV_MEMBER)
#undef GKV_MEMBER
} gkv_api;

/* Opens the loader and creates an instance. On failure nothing is left open, and `why` has one line. */
gk_status gkv_api_open(gkv_api *, char *why, size_t why_capacity);
void gkv_api_close(gkv_api *);

/* Fills the device functions; false if one is missing. */
bool gkv_api_load_device(gkv_api *, VkDevice, const char **missing);

/* "VK_ERROR_DEVICE_LOST"; never NULL. */
const char *gkv_result_text(VkResult);
gk_status gkv_status_of(VkResult);

#endif
