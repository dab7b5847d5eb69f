/* A libvulkan.so.1 for tests: forwards everything to the real loader (GK_VULKAN_REAL_LOADER) except for the fault
 * that GK_VULKAN_FAULT names, which fails like a broken or old driver. With `gpu` and `gpu-no-dot` nothing fails: a
 * device claims to be a discrete GPU, with or without fast integer dot products, so that llvmpipe runs their
 * kernels. With `gpu-bad-dot` those products are wrong: they treat bytes as unsigned. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr real_instance_proc;
static PFN_vkGetDeviceProcAddr real_device_proc;
static VkInstance instance; /* a single instance is enough here */

static int fault(const char *name) {
    const char *wanted = getenv("GK_VULKAN_FAULT");
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static int is_gpu(void) { return fault("gpu") || fault("gpu-no-dot") || fault("gpu-bad-dot"); }

#define REAL(name) ((PFN_vk##name)real_instance_proc(instance, "vk" #name))
static PFN_vkQueueSubmit real_submit;
static PFN_vkWaitSemaphores real_wait;
static PFN_vkAllocateMemory real_allocate;
static PFN_vkCreateComputePipelines real_pipelines;
static PFN_vkCreateShaderModule real_module;

static VKAPI_ATTR VkResult VKAPI_CALL instance_version(uint32_t *version) {
    *version = VK_API_VERSION_1_1;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a,
                                                      VkInstance *out) {
    if (fault("no-icd")) return VK_ERROR_INCOMPATIBLE_DRIVER;
    VkResult result = ((PFN_vkCreateInstance)real_instance_proc(NULL, "vkCreateInstance"))(info, a, out);
    instance = *out;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_devices(VkInstance i, uint32_t *count, VkPhysicalDevice *out) {
    (void)i, (void)out;
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out) {
    REAL(GetPhysicalDeviceProperties)(device, out);
    if (fault("device-old")) out->apiVersion = VK_API_VERSION_1_1;
    if (is_gpu()) out->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

static VkBaseOutStructure *find(void *chain, VkStructureType type) {
    VkBaseOutStructure *link = chain;
    while (link != NULL && link->sType != type) link = link->pNext;
    return link;
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
    REAL(GetPhysicalDeviceProperties2)(device, out);
    VkPhysicalDeviceSubgroupProperties *subgroup = (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
    if (fault("no-subgroup") && subgroup != NULL) subgroup->supportedOperations = VK_SUBGROUP_FEATURE_BASIC_BIT;
    VkPhysicalDeviceShaderIntegerDotProductProperties *dot =
        (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
    if (is_gpu() && dot != NULL) dot->integerDotProduct4x8BitPackedSignedAccelerated = !fault("gpu-no-dot");
}

static VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out) {
    REAL(GetPhysicalDeviceFeatures2)(device, out);
    VkPhysicalDeviceVulkan11Features *v11 = (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    VkPhysicalDeviceVulkan12Features *v12 = (void *)find(out, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    if (fault("no-int64")) out->features.shaderInt64 = VK_FALSE;
    if (fault("no-16bit") && v11 != NULL) v11->storageBuffer16BitAccess = VK_FALSE;
    if (fault("no-address") && v12 != NULL) v12->bufferDeviceAddress = VK_FALSE;
    if (fault("no-timeline") && v12 != NULL) v12->timelineSemaphore = VK_FALSE;
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice p, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *a, VkDevice *out) {
    if (fault("no-device-made")) return VK_ERROR_INITIALIZATION_FAILED;
    return REAL(CreateDevice)(p, info, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL lost_submit(VkQueue queue, uint32_t count, const VkSubmitInfo *info, VkFence fence) {
    if (getenv("GK_VULKAN_FAULT_NOW") != NULL) return VK_ERROR_DEVICE_LOST;
    return real_submit(queue, count, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL lost_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout) {
    VkResult result = real_wait(device, info, timeout);
    return getenv("GK_VULKAN_FAULT_NOW") != NULL ? VK_ERROR_DEVICE_LOST : result;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                                const VkAllocationCallbacks *a, VkDeviceMemory *out) {
    if (getenv("GK_VULKAN_FAULT_NOW") != NULL) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return real_allocate(device, info, a, out);
}

static VKAPI_ATTR VkResult VKAPI_CALL no_pipeline(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                  const VkComputePipelineCreateInfo *info, const VkAllocationCallbacks *a,
                                                  VkPipeline *out) {
    if (getenv("GK_VULKAN_FAULT_NOW") != NULL) return VK_ERROR_UNKNOWN;
    return real_pipelines(device, cache, count, info, a, out);
}

/* Replaces each OpSDot by OpUDot. */
static VKAPI_ATTR VkResult VKAPI_CALL bad_dot(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *a,
                                              VkShaderModule *out) {
    enum { HEADER_WORDS = 5, OP_S_DOT = 4450, OP_U_DOT = 4451 };
    uint32_t *code = malloc(info->codeSize);
    if (code == NULL) return VK_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(code, info->pCode, info->codeSize);
    for (size_t n = HEADER_WORDS; n < info->codeSize / 4 && code[n] >> 16 != 0; n += code[n] >> 16) {
        if ((code[n] & 0xffff) == OP_S_DOT) code[n] += OP_U_DOT - OP_S_DOT;
    }
    VkShaderModuleCreateInfo changed = *info;
    changed.pCode = code;
    VkResult result = real_module(device, &changed, a, out);
    free(code);
    return result;
}

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char *name) {
    PFN_vkVoidFunction real = real_device_proc(device, name);
#define REPLACE(function, text, keep, with) \
    if (strcmp(name, "vk" #function) == 0 && fault(text)) { \
        keep = (PFN_vk##function)real; \
        return (PFN_vkVoidFunction)with; \
    }
    if (strcmp(name, "vkGetBufferDeviceAddress") == 0 && fault("no-function")) return NULL;
    REPLACE(QueueSubmit, "lost-submit", real_submit, lost_submit)
    REPLACE(WaitSemaphores, "lost-wait", real_wait, lost_wait)
    REPLACE(AllocateMemory, "no-memory", real_allocate, no_memory)
    REPLACE(CreateComputePipelines, "no-pipeline", real_pipelines, no_pipeline)
    REPLACE(CreateShaderModule, "gpu-bad-dot", real_module, bad_dot)
    return real;
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance i, const char *name) {
    if (real_instance_proc == NULL) {
        const char *path = getenv("GK_VULKAN_REAL_LOADER");
        void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        void *symbol = library != NULL ? dlsym(library, "vkGetInstanceProcAddr") : NULL;
        memcpy(&real_instance_proc, &symbol, sizeof symbol);
        if (symbol == NULL) return NULL;
    }
    PFN_vkVoidFunction real = real_instance_proc(i, name);
    if (strcmp(name, "vkCreateInstance") == 0) return (PFN_vkVoidFunction)create_instance;
    if (strcmp(name, "vkCreateDevice") == 0) return (PFN_vkVoidFunction)create_device;
    if (strcmp(name, "vkEnumerateInstanceVersion") == 0 && fault("loader-old")) return (PFN_vkVoidFunction)instance_version;
    if (strcmp(name, "vkEnumeratePhysicalDevices") == 0 && fault("no-device")) return (PFN_vkVoidFunction)no_devices;
    if (strcmp(name, "vkGetPhysicalDeviceProperties") == 0) return (PFN_vkVoidFunction)properties;
    if (strcmp(name, "vkGetPhysicalDeviceProperties2") == 0) return (PFN_vkVoidFunction)properties2;
    if (strcmp(name, "vkGetPhysicalDeviceFeatures2") == 0) return (PFN_vkVoidFunction)features2;
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        real_device_proc = (PFN_vkGetDeviceProcAddr)real;
        return (PFN_vkVoidFunction)device_proc;
    }
    return real;
}
