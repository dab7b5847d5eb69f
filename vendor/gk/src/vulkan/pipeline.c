/* Kernels: SPIR-V modules, compiled variants, and the cache of compiled variants on disk.
 *
 * The cache file is ours around the driver's: a magic, the length and a checksum, because not every driver survives a
 * damaged cache. A file that does not match in any way is ignored and replaced. */
#include "vulkan.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#define PROCESS_ID() ((unsigned long)GetCurrentProcessId())
#else
#include <unistd.h>
#define PROCESS_ID() ((unsigned long)getpid())
#endif

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

/* ---- the file ---- */

static const char MAGIC[8] = {'G', 'K', 'V', 'K', 'P', 'C', '0', '1'};
#define MAX_CACHE_BYTES ((uint64_t)256 << 20)

typedef struct file_header {
    char magic[8];
    uint64_t bytes;
    uint64_t checksum;
} file_header;

static uint64_t checksum_of(const uint8_t *data, uint64_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (uint64_t n = 0; n < bytes; n++) hash = (hash ^ data[n]) * 0x100000001b3u;
    return hash;
}

#ifdef _WIN32
/* Paths are UTF-8; NULL if this one is not. To be freed. */
static wchar_t *wide(const char *path) {
    int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *out = length > 0 ? calloc((size_t)length, sizeof *out) : NULL;
    if (out != NULL) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, length);
    return out;
}

static FILE *open_file(const char *path, const char *mode) {
    wchar_t *name = wide(path);
    FILE *file = name != NULL ? _wfopen(name, mode[0] == 'r' ? L"rb" : L"wb") : NULL;
    free(name);
    return file;
}

static bool replace_file(const char *from, const char *to) {
    wchar_t *source = wide(from), *target = wide(to);
    bool done = source != NULL && target != NULL && MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING);
    free(source);
    free(target);
    return done;
}

static void remove_file(const char *path) {
    wchar_t *name = wide(path);
    if (name != NULL) DeleteFileW(name);
    free(name);
}
#else
static FILE *open_file(const char *path, const char *mode) { return fopen(path, mode); }
static bool replace_file(const char *from, const char *to) { return rename(from, to) == 0; }
static void remove_file(const char *path) { remove(path); }
#endif

static uint8_t *read_cache(const char *path, uint64_t *bytes) {
    *bytes = 0;
    FILE *file = open_file(path, "rb");
    if (file == NULL) return NULL;
    file_header header;
    uint8_t *data = NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, MAGIC, sizeof MAGIC) == 0 &&
        header.bytes != 0 && header.bytes <= MAX_CACHE_BYTES) {
        data = malloc((size_t)header.bytes);
        if (data != NULL && (fread(data, (size_t)header.bytes, 1, file) != 1 || fgetc(file) != EOF ||
                             checksum_of(data, header.bytes) != header.checksum)) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    if (data != NULL) *bytes = header.bytes;
    return data;
}

static void write_cache(const char *path, const uint8_t *data, uint64_t bytes) {
    size_t room = strlen(path) + 32;
    char *temporary = malloc(room);
    if (temporary == NULL) return;
    /* The address tells two devices of one process apart. */
    gk_text(temporary, room, "%s.%lx.%lx", path, PROCESS_ID() & 0xffffffffu, (unsigned long)((uintptr_t)data & 0xffffffffu));
    FILE *file = open_file(temporary, "wb");
    if (file != NULL) {
        file_header header = {.bytes = bytes, .checksum = checksum_of(data, bytes)};
        memcpy(header.magic, MAGIC, sizeof MAGIC);
        bool written = fwrite(&header, sizeof header, 1, file) == 1 && fwrite(data, (size_t)bytes, 1, file) == 1;
        written = fclose(file) == 0 && written;
        if (!written || !replace_file(temporary, path)) remove_file(temporary);
    }
    free(temporary);
}

/* Does the driver's own header name this device? */
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
        data = read_cache(device->cache_path, &bytes);
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
        write_cache(device->cache_path, data, bytes);
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
