/* Physical devices: descriptions, requirements, and creating a VkDevice. */
#include "vulkan.h"

#include "matrices.h"

#include <stdlib.h>

/* Properties of a physical device, queried once. */
typedef struct facts {
    VkPhysicalDeviceProperties core;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT subgroup_size;
    VkPhysicalDevicePCIBusInfoPropertiesEXT pci;
    uint64_t max_allocation, max_buffer;
    VkPhysicalDeviceShaderIntegerDotProductPropertiesKHR dot;
    bool has_pci, has_budget, has_size_control, has_portability_subset, has_dot, has_matrices;
} facts;

static bool contains(const VkExtensionProperties *all, uint32_t count, const char *name) {
    for (uint32_t n = 0; n < count; n++) {
        if (strcmp(all[n].extensionName, name) == 0) return true;
    }
    return false;
}

static void chain(VkPhysicalDeviceProperties2 *head, void *link) {
    VkBaseOutStructure *base = link;
    base->pNext = head->pNext;
    head->pNext = base;
}

static void gather_extensions(const gkv_api *api, VkPhysicalDevice physical, facts *out, bool *maintenance4) {
    uint32_t count = 0;
    *maintenance4 = false;
    if (api->EnumerateDeviceExtensionProperties(physical, NULL, &count, NULL) != VK_SUCCESS || count == 0) return;
    VkExtensionProperties *all = calloc(count, sizeof *all);
    if (all == NULL) return;
    if (api->EnumerateDeviceExtensionProperties(physical, NULL, &count, all) >= VK_SUCCESS) {
        out->has_pci = contains(all, count, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME);
        out->has_budget = contains(all, count, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
        out->has_size_control = contains(all, count, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
        out->has_portability_subset = contains(all, count, "VK_KHR_portability_subset");
        out->has_dot = contains(all, count, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
        out->has_matrices = contains(all, count, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
        *maintenance4 = contains(all, count, VK_KHR_MAINTENANCE_4_EXTENSION_NAME);
    }
    free(all);
}

static void gather(const gkv_api *api, VkPhysicalDevice physical, facts *out) {
    *out = (facts){.has_pci = false};
    api->GetPhysicalDeviceProperties(physical, &out->core);
    if (out->core.apiVersion < VK_API_VERSION_1_2) return; /* such a device does not know the structures below */
    bool maintenance4;
    gather_extensions(api, physical, out, &maintenance4);
    VkPhysicalDeviceMaintenance3Properties allocation = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceMaintenance4PropertiesKHR buffer = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    out->driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    out->id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    out->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    out->subgroup_size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT;
    out->dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES_KHR;
    out->pci.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT;
    chain(&all, &out->driver);
    chain(&all, &out->id);
    chain(&all, &out->subgroup);
    chain(&all, &allocation);
    if (maintenance4) chain(&all, &buffer);
    if (out->has_size_control) chain(&all, &out->subgroup_size);
    if (out->has_dot) chain(&all, &out->dot);
    if (out->has_pci) chain(&all, &out->pci);
    api->GetPhysicalDeviceProperties2(physical, &all);
    out->max_allocation = allocation.maxMemoryAllocationSize;
    out->max_buffer = maintenance4 && buffer.maxBufferSize != 0 ? buffer.maxBufferSize : UINT64_MAX;
}

static uint32_t kind_of(VkPhysicalDeviceType type) {
    switch ((int)type) {
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return GK_KIND_SOFTWARE;
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return GK_KIND_DISCRETE;
    default: return GK_KIND_INTEGRATED;
    }
}

/* The heap for buffers: the largest device-local one. */
static uint32_t main_heap(const VkPhysicalDeviceMemoryProperties *memory) {
    uint32_t best = 0;
    uint64_t size = 0;
    for (uint32_t n = 0; n < memory->memoryHeapCount; n++) {
        const VkMemoryHeap *heap = &memory->memoryHeaps[n];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > size) best = n, size = heap->size;
    }
    return best;
}

static void query_memory(const gkv_api *api, VkPhysicalDevice physical, bool has_budget, uint64_t allocated,
                         uint64_t *free_bytes, uint64_t *total_bytes) {
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                                .pNext = has_budget ? &budget : NULL};
    api->GetPhysicalDeviceMemoryProperties2(physical, &memory);
    uint32_t heap = main_heap(&memory.memoryProperties);
    uint64_t limit = memory.memoryProperties.memoryHeapCount ? memory.memoryProperties.memoryHeaps[heap].size : 0;
    uint64_t used = allocated;
    *total_bytes = limit;
    if (has_budget) {
        limit = budget.heapBudget[heap];
        used = budget.heapUsage[heap];
    }
    *free_bytes = limit > used ? limit - used : 0;
}

static uint64_t largest_buffer(const facts *f) {
    uint64_t bytes = f->max_allocation < f->max_buffer ? f->max_allocation : f->max_buffer;
    return bytes & ~(uint64_t)255;
}

static void describe(const gkv_api *api, VkPhysicalDevice physical, gk_device_info *out) {
    facts f;
    gather(api, physical, &f);
    *out = (gk_device_info){.kind = kind_of(f.core.deviceType)};
    gk_text(out->name, sizeof out->name, "%s", f.core.deviceName);
    if (f.driver.driverName[0]) {
        gk_text(out->driver, sizeof out->driver, "%.40s%s%.54s", f.driver.driverName, f.driver.driverInfo[0] ? " " : "",
                f.driver.driverInfo);
    }
    if (f.has_pci) {
        gk_text(out->pci, sizeof out->pci, "%04x:%02x:%02x.%x", (unsigned)f.pci.pciDomain & 0xffffu,
                (unsigned)f.pci.pciBus & 0xffu, (unsigned)f.pci.pciDevice & 0xffu, (unsigned)f.pci.pciFunction & 0xfu);
    }
    memcpy(out->uuid, f.id.deviceUUID, sizeof out->uuid);
    out->max_buffer = largest_buffer(&f);
    query_memory(api, physical, f.has_budget, 0, &out->memory_free, &out->memory_total);
}

/* Physical devices of an instance; the caller frees *out. */
static gk_status list_physical(const gkv_api *api, VkPhysicalDevice **out, uint32_t *count, char *why, size_t why_capacity) {
    *out = NULL;
    *count = 0;
    VkResult result = api->EnumeratePhysicalDevices(api->instance, count, NULL);
    if (result == VK_SUCCESS && *count != 0) {
        *out = calloc(*count, sizeof **out);
        if (*out == NULL) {
            gk_text(why, why_capacity, "out of host memory");
            return GK_OUT_OF_MEMORY;
        }
        result = api->EnumeratePhysicalDevices(api->instance, count, *out);
        if (result == VK_INCOMPLETE) result = VK_SUCCESS;
    }
    if (result == VK_SUCCESS && *count != 0) return GK_OK;
    free(*out);
    *out = NULL;
    if (result == VK_SUCCESS || result == VK_ERROR_INITIALIZATION_FAILED) {
        gk_text(why, why_capacity, "the Vulkan drivers on this machine offer no device");
        return GK_NO_DEVICE;
    }
    gk_text(why, why_capacity, "vkEnumeratePhysicalDevices failed: %s (%d)", gkv_result_text(result), (int)result);
    return gkv_status_of(result);
}

gk_status gkv_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", "");
    if (count == NULL || capacity < 0 || (out == NULL && capacity != 0)) {
        gk_text(why, why_capacity, "enumerate: bad arguments");
        return GK_BAD_ARGUMENT;
    }
    *count = 0;
    gkv_api api;
    gk_status status = gkv_api_open(&api, why, why_capacity);
    if (status != GK_OK) return status;
    VkPhysicalDevice *physical = NULL;
    uint32_t found = 0;
    status = list_physical(&api, &physical, &found, why, why_capacity);
    if (status == GK_OK) {
        *count = (int)found;
        for (uint32_t n = 0; n < found && n < (uint32_t)capacity; n++) describe(&api, physical[n], &out[n]);
    }
    free(physical);
    gkv_api_close(&api);
    return status;
}

/* ---- the device ---- */

typedef struct features {
    VkPhysicalDeviceFeatures2 all;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT size_control;
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrices;
} features;

/* Chains the structures that a device supports. */
static void chain_features(features *f, bool size_control, bool dot, bool matrices) {
    *f = (features){.all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    f->v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    f->v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    f->size_control.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT;
    f->all.pNext = &f->v11;
    f->v11.pNext = &f->v12;
    f->dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR;
    f->matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    void **end = &f->v12.pNext;
    if (size_control) *end = &f->size_control, end = &f->size_control.pNext;
    if (dot) *end = &f->dot, end = &f->dot.pNext;
    if (matrices) *end = &f->matrices;
}

/* The first feature that the kernels need and the device lacks, or NULL. */
static const char *missing_feature(const facts *f, const features *has) {
    const VkSubgroupFeatureFlags operations = VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT;
    if (!has->v12.bufferDeviceAddress) return "bufferDeviceAddress";
    if (!has->v12.timelineSemaphore) return "timelineSemaphore";
    if (!has->v11.storageBuffer16BitAccess) return "storageBuffer16BitAccess";
    if (!has->all.features.shaderInt64) return "shaderInt64";
    if (!(f->subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT)) return "subgroup operations in compute shaders";
    if ((f->subgroup.supportedOperations & operations) != operations) return "arithmetic subgroup operations";
    if (f->subgroup.subgroupSize < 2) return "a subgroup of 2 or more invocations";
    if (f->core.limits.maxComputeWorkGroupInvocations < 128) return "workgroups of 128 invocations";
    if (f->core.limits.maxComputeSharedMemorySize < 16384) return "16 KiB of shared memory";
    return NULL;
}

static bool pick_queue_family(const gkv_api *api, VkPhysicalDevice physical, uint32_t *family) {
    VkQueueFamilyProperties all[32];
    uint32_t count = 32;
    api->GetPhysicalDeviceQueueFamilyProperties(physical, &count, all);
    for (uint32_t n = 0; n < count; n++) {
        if ((all[n].queueFlags & VK_QUEUE_COMPUTE_BIT) && all[n].queueCount != 0) {
            *family = n;
            return true;
        }
    }
    return false;
}

/* The subgroup size for pipelines: 32 if the device lets the host choose, else the device's size. */
static void pick_subgroup(gk_device *device, const facts *f, const features *has) {
    device->subgroup = f->subgroup.subgroupSize;
    device->choose_subgroup = false;
    device->max_subgroups = UINT32_MAX;
    if (!f->has_size_control || !has->size_control.subgroupSizeControl) return;
    if (!(f->subgroup_size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT)) return;
    if (f->subgroup_size.minSubgroupSize == f->subgroup_size.maxSubgroupSize) return;
    uint32_t size = 32;
    if (size < f->subgroup_size.minSubgroupSize) size = f->subgroup_size.minSubgroupSize;
    if (size > f->subgroup_size.maxSubgroupSize) size = f->subgroup_size.maxSubgroupSize;
    device->subgroup = size;
    device->choose_subgroup = true;
    device->max_subgroups = f->subgroup_size.maxComputeWorkgroupSubgroups;
}

/* Does a subgroup of this device multiply f16 x f16 -> f32 in 16 x 16 x 16? */
static bool multiplies_halves(const gk_device *device) {
    VkCooperativeMatrixPropertiesKHR all[64];
    uint32_t count = sizeof all / sizeof *all;
    PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR list = (PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)
        device->api.GetInstanceProcAddr(device->api.instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    for (uint32_t n = 0; n < count; n++) {
        all[n] = (VkCooperativeMatrixPropertiesKHR){.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    }
    if (list == NULL || list(device->physical, &count, all) < VK_SUCCESS) return false;
    for (uint32_t n = 0; n < count; n++) {
        const VkCooperativeMatrixPropertiesKHR *m = &all[n];
        if (m->MSize == 16 && m->NSize == 16 && m->KSize == 16 && m->AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
            m->BType == VK_COMPONENT_TYPE_FLOAT16_KHR && m->CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
            m->ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && m->scope == VK_SCOPE_SUBGROUP_KHR) return true;
    }
    return false;
}

/* Enables extras that this build has kernels for and the device supports. All of them round activations. */
static void pick_extras(gk_device *device, const facts *f, const features *has) {
    if (device->exact) return;
    /* If the device does not accelerate it, unpacked floats are faster. */
    device->has[GKV_DOT] = GKV_HAVE_DOT && f->has_dot && has->dot.shaderIntegerDotProduct &&
                           f->dot.integerDotProduct4x8BitPackedSignedAccelerated;
    /* The kernel requires a known number of subgroups per workgroup. */
    const bool sizes_known = device->choose_subgroup ||
        (f->has_size_control && f->subgroup_size.minSubgroupSize == f->subgroup_size.maxSubgroupSize);
    const bool fits = device->subgroup * GKV_MATRIX_SUBGROUPS <= device->max_threads && device->max_subgroups >= GKV_MATRIX_SUBGROUPS;
    device->has[GKV_MATRICES] = GKV_HAVE_MATRICES && sizes_known && fits &&
        (GKV_EMULATE_MATRICES || (f->has_matrices && has->matrices.cooperativeMatrix && has->v12.shaderFloat16 &&
                                  has->v12.vulkanMemoryModel && multiplies_halves(device)));
}

static gk_status make_device(gk_device *device, const facts *f, const features *has, char *why, size_t why_capacity) {
    gkv_api *api = &device->api;
    features want;
    const bool matrices = device->has[GKV_MATRICES] && !GKV_EMULATE_MATRICES;
    chain_features(&want, device->choose_subgroup, device->has[GKV_DOT], matrices);
    want.dot.shaderIntegerDotProduct = VK_TRUE;
    want.matrices.cooperativeMatrix = VK_TRUE;
    want.v12.shaderFloat16 = want.v12.vulkanMemoryModel = matrices;
    want.v12.bufferDeviceAddress = VK_TRUE;
    want.v12.timelineSemaphore = VK_TRUE;
    want.v11.storageBuffer16BitAccess = VK_TRUE;
    want.all.features.shaderInt64 = VK_TRUE;
    want.size_control.subgroupSizeControl = has->size_control.subgroupSizeControl;
    const char *extensions[4];
    uint32_t extension_count = 0;
    if (device->choose_subgroup) extensions[extension_count++] = VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME;
    if (matrices) extensions[extension_count++] = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
    if (device->has[GKV_DOT]) extensions[extension_count++] = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
    if (f->has_portability_subset) extensions[extension_count++] = "VK_KHR_portability_subset";
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                     .queueFamilyIndex = device->queue_family, .queueCount = 1, .pQueuePriorities = &priority};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &want.all,
                               .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
                               .enabledExtensionCount = extension_count, .ppEnabledExtensionNames = extensions};
    VkResult result = api->CreateDevice(device->physical, &info, NULL, &device->handle);
    if (result != VK_SUCCESS) {
        device->handle = VK_NULL_HANDLE;
        gk_text(why, why_capacity, "vkCreateDevice failed for `%.100s`: %s (%d)", f->core.deviceName, gkv_result_text(result),
                (int)result);
        return gkv_status_of(result);
    }
    const char *missing;
    if (gkv_api_load_device(api, device->handle, &missing)) return GK_OK;
    gk_text(why, why_capacity, "the Vulkan driver of `%.100s` has no `%s`", f->core.deviceName, missing);
    return GK_TOO_OLD;
}

gk_status gkv_create_device(gk_device *device, int index, char *why, size_t why_capacity) {
    gkv_api *api = &device->api;
    VkPhysicalDevice *physical = NULL;
    uint32_t count = 0;
    gk_status status = list_physical(api, &physical, &count, why, why_capacity);
    if (status != GK_OK) return status;
    if (index < 0 || (uint32_t)index >= count) {
        free(physical);
        gk_text(why, why_capacity, "Vulkan device %d does not exist: this machine has %u", index, (unsigned)count);
        return GK_BAD_ARGUMENT;
    }
    device->physical = physical[index];
    free(physical);

    facts f;
    gather(api, device->physical, &f);
    if (f.core.apiVersion < VK_API_VERSION_1_2) {
        gk_text(why, why_capacity, "`%.100s` supports Vulkan %u.%u, but 1.2 is required: install a newer driver", f.core.deviceName,
                (unsigned)VK_API_VERSION_MAJOR(f.core.apiVersion), (unsigned)VK_API_VERSION_MINOR(f.core.apiVersion));
        return GK_TOO_OLD;
    }
    features has;
    chain_features(&has, f.has_size_control, f.has_dot, f.has_matrices);
    api->GetPhysicalDeviceFeatures2(device->physical, &has.all);
    const char *missing = missing_feature(&f, &has);
    if (missing == NULL && !pick_queue_family(api, device->physical, &device->queue_family)) missing = "a queue for compute work";
    if (missing != NULL) {
        gk_text(why, why_capacity, "`%.100s` lacks a feature that the kernels need: %s", f.core.deviceName, missing);
        return GK_TOO_OLD;
    }
    pick_subgroup(device, &f, &has);
    device->kind = GKV_AS_DISCRETE ? GK_KIND_DISCRETE : kind_of(f.core.deviceType);
    device->max_threads = f.core.limits.maxComputeWorkGroupInvocations;
    uint32_t in_a_row = f.core.limits.maxComputeWorkGroupSize[0];
    if (device->max_threads > in_a_row) device->max_threads = in_a_row;
    device->max_shared = f.core.limits.maxComputeSharedMemorySize;
    device->max_buffer = largest_buffer(&f);
    device->memory_budget = f.has_budget;
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    api->GetPhysicalDeviceMemoryProperties2(device->physical, &memory);
    device->memory = memory.memoryProperties;
    pick_extras(device, &f, &has);
    return make_device(device, &f, &has, why, why_capacity);
}

gk_status gkv_memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    uint64_t free_now, total;
    query_memory(&device->api, device->physical, device->memory_budget, device->allocated, &free_now, &total);
    if (free_bytes != NULL) *free_bytes = free_now;
    if (total_bytes != NULL) *total_bytes = total;
    return GK_OK;
}
