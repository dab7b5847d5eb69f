/* Kernels: SPIR-V modules, compiled variants, and the disk cache of compiled variants.
 *
 * The cache file wraps the driver's data in a magic, the length and a checksum, because not every driver survives a
 * damaged cache. A file that does not match in any of these is ignored and replaced. */
#include "vulkan.h"

#include "cache_file.h"

#include <stdlib.h>

#define GKV_EXTERN(name) \
    extern const unsigned char gkv_spirv_##name[]; \
    extern const size_t gkv_spirv_##name##_size;
GKV_KERNELS(GKV_EXTERN)

static const struct {
    const char *name;
    const unsigned char *code;
    const size_t *size;
} KERNELS[] = {
#define GKV_ROW(name) {#name, gkv_spirv_##name, &gkv_spirv_##name##_size},
    GKV_KERNELS(GKV_ROW)
};

static const char MAGIC[8] = {'G', 'K', 'V', 'K', 'P', 'C', '0', '1'};

/* Does the driver's header in the data name this device? */
static bool cache_is_ours(const gk_device *device, const uint8_t *data, uint64_t bytes) {
    VkPhysicalDeviceProperties properties;
    VkPipelineCacheHeaderVersionOne header;
    if (bytes < sizeof header) return false;
    memcpy(&header, data, sizeof header);
    device->api.GetPhysicalDeviceProperties(device->physical, &properties);
    return header.headerSize >= sizeof header && header.headerSize <= bytes &&
           header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == properties.vendorID &&
           header.deviceID == properties.deviceID &&
           memcmp(header.pipelineCacheUUID, properties.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

/* <cache_dir>/gk-vulkan-<uuid of the driver's cache format>.bin */
static char *make_cache_path(const gk_device *device, const char *cache_dir) {
    VkPhysicalDeviceProperties properties;
    char name[VK_UUID_SIZE * 2 + 1];
    device->api.GetPhysicalDeviceProperties(device->physical, &properties);
    for (uint32_t n = 0; n < VK_UUID_SIZE; n++) gk_text(name + 2 * n, 3, "%02x", (unsigned)properties.pipelineCacheUUID[n]);
    size_t room = strlen(cache_dir) + sizeof name + 64;
    char *path = malloc(room);
    if (path != NULL) {
        gk_text(path, room, "%s/gk-vulkan-%04x-%04x-%s.bin", cache_dir, (unsigned)properties.vendorID,
                (unsigned)properties.deviceID, name);
    }
    return path;
}

/* ---- open and close ---- */

gk_status gkv_pipelines_open(gk_device *device, const char *cache_dir) {
    gkv_api *api = &device->api;
    VkPushConstantRange range = {.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = sizeof(gkv_push)};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkResult result = api->CreatePipelineLayout(device->handle, &layout, NULL, &device->layout);
    gk_status status = gkv_check(device, result, "vkCreatePipelineLayout");
    if (status != GK_OK) return status;
    uint8_t *data = NULL;
    uint64_t bytes = 0;
    if (cache_dir != NULL && cache_dir[0] != '\0') {
        device->cache_path = make_cache_path(device, cache_dir);
        if (device->cache_path == NULL) return gkv_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
        data = gk_cache_read(device->cache_path, MAGIC, &bytes);
        if (data != NULL && !cache_is_ours(device, data, bytes)) bytes = 0;
    }
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO, .initialDataSize = (size_t)bytes,
                                      .pInitialData = bytes != 0 ? data : NULL};
    result = api->CreatePipelineCache(device->handle, &info, NULL, &device->cache);
    free(data);
    return gkv_check(device, result, "vkCreatePipelineCache");
}

void gkv_pipelines_save(gk_device *device) {
    if (device->cache_path == NULL || !device->cache_changed || device->lost) return;
    device->cache_changed = false;
    size_t bytes = 0;
    if (device->api.GetPipelineCacheData(device->handle, device->cache, &bytes, NULL) != VK_SUCCESS || bytes == 0) return;
    uint8_t *data = malloc(bytes);
    if (data == NULL) return;
    if (device->api.GetPipelineCacheData(device->handle, device->cache, &bytes, data) == VK_SUCCESS) {
        gk_cache_write(device->cache_path, MAGIC, data, bytes);
    }
    free(data);
}

void gkv_pipelines_close(gk_device *device) {
    gkv_api *api = &device->api;
    for (uint32_t n = 0; n < device->pipeline_count; n++) api->DestroyPipeline(device->handle, device->pipelines[n].handle, NULL);
    for (int n = 0; n < GKV_KERNEL_COUNT; n++) {
        if (device->modules[n] != VK_NULL_HANDLE) api->DestroyShaderModule(device->handle, device->modules[n], NULL);
    }
    if (device->cache != VK_NULL_HANDLE) api->DestroyPipelineCache(device->handle, device->cache, NULL);
    if (device->layout != VK_NULL_HANDLE) api->DestroyPipelineLayout(device->handle, device->layout, NULL);
    free(device->pipelines);
    free(device->cache_path);
}

/* ---- variants ---- */

static gk_status get_module(gk_device *device, uint32_t kernel) {
    if (device->modules[kernel] != VK_NULL_HANDLE) return GK_OK;
    /* The embedded bytes are aligned to 64, as SPIR-V words need. */
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = *KERNELS[kernel].size,
                                     .pCode = (const uint32_t *)(const void *)KERNELS[kernel].code};
    VkResult result = device->api.CreateShaderModule(device->handle, &info, NULL, &device->modules[kernel]);
    return gkv_check(device, result, "vkCreateShaderModule");
}

static gk_status compile(gk_device *device, const gkv_variant *variant, VkPipeline *out) {
    gk_status status = get_module(device, variant->kernel);
    if (status != GK_OK) return status;
    VkSpecializationMapEntry entries[GKV_MAX_SPECIALS];
    for (uint32_t n = 0; n < GKV_MAX_SPECIALS; n++) {
        entries[n] = (VkSpecializationMapEntry){.constantID = n, .offset = n * (uint32_t)sizeof(uint32_t), .size = sizeof(uint32_t)};
    }
    VkSpecializationInfo special = {.mapEntryCount = GKV_MAX_SPECIALS, .pMapEntries = entries,
                                    .dataSize = sizeof variant->special, .pData = variant->special};
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfoEXT size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO_EXT,
        .requiredSubgroupSize = device->subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .pNext = device->choose_subgroup ? &size : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = device->modules[variant->kernel], .pName = "main",
                  .pSpecializationInfo = &special},
        .layout = device->layout,
        .basePipelineIndex = -1};
    VkResult result = device->api.CreateComputePipelines(device->handle, device->cache, 1, &info, NULL, out);
    if (result == VK_SUCCESS) return GK_OK;
    *out = VK_NULL_HANDLE;
    return gkv_fail(device, gkv_status_of(result), "the driver can't compile the kernel `%s`: %s (%d)",
                    KERNELS[variant->kernel].name, gkv_result_text(result), (int)result);
}

gk_status gkv_pipeline_get(gk_device *device, const gkv_variant *variant, VkPipeline *out) {
    for (uint32_t n = 0; n < device->pipeline_count; n++) {
        if (memcmp(&device->pipelines[n].variant, variant, sizeof *variant) != 0) continue;
        *out = device->pipelines[n].handle;
        return GK_OK;
    }
    if (device->pipeline_count == device->pipeline_capacity) {
        uint32_t capacity = device->pipeline_capacity ? device->pipeline_capacity * 2 : 32;
        gkv_pipeline *grown = realloc(device->pipelines, capacity * sizeof *grown);
        if (grown == NULL) return gkv_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
        device->pipelines = grown;
        device->pipeline_capacity = capacity;
    }
    gk_status status = compile(device, variant, out);
    if (status != GK_OK) return status;
    device->pipelines[device->pipeline_count++] = (gkv_pipeline){.variant = *variant, .handle = *out};
    device->cache_changed = true;
    return GK_OK;
}
