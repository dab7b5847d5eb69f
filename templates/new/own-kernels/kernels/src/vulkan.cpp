// axpy on the first Vulkan device. `Device` destroys its objects in reverse order of creation.
#include "kernels.h"

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstring>
#include <vector>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace {

constexpr uint32_t SPIRV[] =
#include "axpy.spv.inc"
    ;
constexpr uint32_t GROUP = 256;
constexpr uint32_t MOST_GROUPS = 65535;

// The entry point of the loader, or null without a loader.
PFN_vkGetInstanceProcAddr loader() {
#if defined(_WIN32)
    HMODULE library = LoadLibraryA("vulkan-1.dll");
    return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(GetProcAddress(library, "vkGetInstanceProcAddr")) : nullptr;
#else
#if defined(__APPLE__)
    void *library = dlopen("libvulkan.1.dylib", RTLD_NOW | RTLD_LOCAL);
#else
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
    return library ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr")) : nullptr;
#endif
}

#define OF_INSTANCE(X)                                                                                                 \
    X(vkDestroyInstance) X(vkEnumeratePhysicalDevices) X(vkGetPhysicalDeviceQueueFamilyProperties)                     \
    X(vkGetPhysicalDeviceMemoryProperties) X(vkCreateDevice) X(vkGetDeviceProcAddr)
#define OF_DEVICE(X)                                                                                                   \
    X(vkDestroyDevice) X(vkGetDeviceQueue) X(vkCreateBuffer) X(vkDestroyBuffer) X(vkGetBufferMemoryRequirements)       \
    X(vkAllocateMemory) X(vkFreeMemory) X(vkBindBufferMemory) X(vkMapMemory) X(vkCreateShaderModule)                   \
    X(vkDestroyShaderModule) X(vkCreateDescriptorSetLayout) X(vkDestroyDescriptorSetLayout) X(vkCreatePipelineLayout)  \
    X(vkDestroyPipelineLayout) X(vkCreateComputePipelines) X(vkDestroyPipeline) X(vkCreateDescriptorPool)              \
    X(vkDestroyDescriptorPool) X(vkAllocateDescriptorSets) X(vkUpdateDescriptorSets) X(vkCreateCommandPool)            \
    X(vkDestroyCommandPool) X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer)                  \
    X(vkCmdBindPipeline) X(vkCmdBindDescriptorSets) X(vkCmdPushConstants) X(vkCmdDispatch) X(vkCmdPipelineBarrier)     \
    X(vkQueueSubmit) X(vkQueueWaitIdle)

struct Buffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    void *mapped = nullptr;
};

struct Arguments {
    uint32_t count;
    float a;
};

struct Device {
#define MEMBER(name) PFN_##name name = nullptr;
    OF_INSTANCE(MEMBER)
    OF_DEVICE(MEMBER)
#undef MEMBER
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    uint32_t family = 0;
    Buffer buffers[2];
    VkShaderModule shader = VK_NULL_HANDLE;
    VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
    VkDescriptorPool sets = VK_NULL_HANDLE;
    VkDescriptorSet set = VK_NULL_HANDLE;
    VkCommandPool commands = VK_NULL_HANDLE;

    ~Device() {
        if (device) {
            vkDestroyCommandPool(device, commands, nullptr);
            vkDestroyDescriptorPool(device, sets, nullptr);
            vkDestroyPipeline(device, pipeline, nullptr);
            vkDestroyPipelineLayout(device, layout, nullptr);
            vkDestroyDescriptorSetLayout(device, set_layout, nullptr);
            vkDestroyShaderModule(device, shader, nullptr);
            for (Buffer &one : buffers) {
                vkDestroyBuffer(device, one.buffer, nullptr);
                vkFreeMemory(device, one.memory, nullptr);
            }
            vkDestroyDevice(device, nullptr);
        }
        if (instance) {
            vkDestroyInstance(instance, nullptr);
        }
    }

    // Opens the first device with a compute queue. Each of these functions returns an error message, or null on
    // success.
    const char *open() {
        PFN_vkGetInstanceProcAddr get = loader();
        if (!get) {
            return "no Vulkan loader";
        }
        auto create = reinterpret_cast<PFN_vkCreateInstance>(get(VK_NULL_HANDLE, "vkCreateInstance"));
        VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
        application.apiVersion = VK_API_VERSION_1_0;
        VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
        info.pApplicationInfo = &application;
        if (!create || create(&info, nullptr, &instance) != VK_SUCCESS) {
            instance = VK_NULL_HANDLE;
            return "no Vulkan driver";
        }
#define LOAD(name) name = reinterpret_cast<PFN_##name>(get(instance, #name));
        OF_INSTANCE(LOAD)
#undef LOAD
        uint32_t count = 0;
        vkEnumeratePhysicalDevices(instance, &count, nullptr);
        std::vector<VkPhysicalDevice> devices(count);
        vkEnumeratePhysicalDevices(instance, &count, devices.data());
        for (VkPhysicalDevice one : devices) {
            uint32_t families = 0;
            vkGetPhysicalDeviceQueueFamilyProperties(one, &families, nullptr);
            std::vector<VkQueueFamilyProperties> properties(families);
            vkGetPhysicalDeviceQueueFamilyProperties(one, &families, properties.data());
            for (uint32_t i = 0; i < families; ++i) {
                if (properties[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
                    physical = one;
                    family = i;
                    return make_device();
                }
            }
        }
        return "no Vulkan device";
    }

    const char *make_device() {
        float priority = 1.0f;
        VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
        queue.queueFamilyIndex = family;
        queue.queueCount = 1;
        queue.pQueuePriorities = &priority;
        VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queue;
        if (vkCreateDevice(physical, &info, nullptr, &device) != VK_SUCCESS) {
            device = VK_NULL_HANDLE;
            return "cannot open the Vulkan device";
        }
#define LOAD(name) name = reinterpret_cast<PFN_##name>(vkGetDeviceProcAddr(device, #name));
        OF_DEVICE(LOAD)
#undef LOAD
        return nullptr;
    }

    // Memory that host and device can access, which is sufficient to start with. Large data needs device memory and
    // copies.
    bool make_buffer(Buffer &made, const float *values, size_t bytes) {
        VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
        info.size = bytes;
        info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
        if (vkCreateBuffer(device, &info, nullptr, &made.buffer) != VK_SUCCESS) {
            return false;
        }
        VkMemoryRequirements needs;
        vkGetBufferMemoryRequirements(device, made.buffer, &needs);
        VkPhysicalDeviceMemoryProperties has;
        vkGetPhysicalDeviceMemoryProperties(physical, &has);
        const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        for (uint32_t i = 0; i < has.memoryTypeCount; ++i) {
            if (!(needs.memoryTypeBits >> i & 1) || (has.memoryTypes[i].propertyFlags & wanted) != wanted) {
                continue;
            }
            VkMemoryAllocateInfo memory = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr, needs.size, i};
            if (vkAllocateMemory(device, &memory, nullptr, &made.memory) != VK_SUCCESS ||
                vkBindBufferMemory(device, made.buffer, made.memory, 0) != VK_SUCCESS ||
                vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.mapped) != VK_SUCCESS) {
                return false;
            }
            std::memcpy(made.mapped, values, bytes);
            return true;
        }
        return false;
    }

    bool make_pipeline() {
        VkShaderModuleCreateInfo code = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, nullptr, 0, sizeof SPIRV, SPIRV};
        VkDescriptorSetLayoutBinding bindings[2] = {};
        for (uint32_t i = 0; i < 2; ++i) {
            bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
        }
        VkDescriptorSetLayoutCreateInfo sets_info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, nullptr, 0, 2, bindings};
        VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Arguments)};
        VkPipelineLayoutCreateInfo layout_info = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
        layout_info.setLayoutCount = 1;
        layout_info.pSetLayouts = &set_layout;
        layout_info.pushConstantRangeCount = 1;
        layout_info.pPushConstantRanges = &range;
        if (vkCreateShaderModule(device, &code, nullptr, &shader) != VK_SUCCESS ||
            vkCreateDescriptorSetLayout(device, &sets_info, nullptr, &set_layout) != VK_SUCCESS ||
            vkCreatePipelineLayout(device, &layout_info, nullptr, &layout) != VK_SUCCESS) {
            return false;
        }
        VkComputePipelineCreateInfo info = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
        info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
        info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
        info.stage.module = shader;
        info.stage.pName = "main";
        info.layout = layout;
        return vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline) == VK_SUCCESS;
    }

    bool make_set() {
        VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
        VkDescriptorPoolCreateInfo pool = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, nullptr, 0, 1, 1, &size};
        if (vkCreateDescriptorPool(device, &pool, nullptr, &sets) != VK_SUCCESS) {
            return false;
        }
        VkDescriptorSetAllocateInfo info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, sets, 1, &set_layout};
        if (vkAllocateDescriptorSets(device, &info, &set) != VK_SUCCESS) {
            return false;
        }
        for (uint32_t i = 0; i < 2; ++i) {
            VkDescriptorBufferInfo buffer = {buffers[i].buffer, 0, VK_WHOLE_SIZE};
            VkWriteDescriptorSet write = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
            write.dstSet = set;
            write.dstBinding = i;
            write.descriptorCount = 1;
            write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
            write.pBufferInfo = &buffer;
            vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
        }
        return true;
    }

    bool run(Arguments arguments) {
        VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, nullptr, 0, family};
        if (vkCreateCommandPool(device, &pool, nullptr, &commands) != VK_SUCCESS) {
            return false;
        }
        VkCommandBufferAllocateInfo info = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, commands,
                                            VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
        VkCommandBuffer list = VK_NULL_HANDLE;
        VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
        begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        if (vkAllocateCommandBuffers(device, &info, &list) != VK_SUCCESS || vkBeginCommandBuffer(list, &begin) != VK_SUCCESS) {
            return false;
        }
        uint32_t groups = arguments.count / GROUP + (arguments.count % GROUP != 0);
        vkCmdBindPipeline(list, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
        vkCmdBindDescriptorSets(list, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
        vkCmdPushConstants(list, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof arguments, &arguments);
        vkCmdDispatch(list, groups < MOST_GROUPS ? groups : MOST_GROUPS, 1, 1);
        VkMemoryBarrier seen = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_HOST_READ_BIT};
        vkCmdPipelineBarrier(list, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &seen, 0, nullptr, 0, nullptr);
        VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &list;
        VkQueue queue;
        vkGetDeviceQueue(device, family, 0, &queue);
        return vkEndCommandBuffer(list) == VK_SUCCESS && vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS &&
               vkQueueWaitIdle(queue) == VK_SUCCESS;
    }
};

} // namespace

const char *@ident@_axpy_vulkan(size_t count, float a, const float *x, float *y) {
    if (count == 0) {
        return nullptr;
    }
    if (count > UINT32_MAX / sizeof(float)) {
        return "more values than every Vulkan buffer can hold";
    }
    Device device;
    if (const char *why = device.open()) {
        return why;
    }
    size_t bytes = count * sizeof(float);
    if (!device.make_buffer(device.buffers[0], x, bytes) || !device.make_buffer(device.buffers[1], y, bytes)) {
        return "the Vulkan device is out of memory";
    }
    if (!device.make_pipeline() || !device.make_set()) {
        return "the Vulkan device rejected the kernel";
    }
    if (!device.run({static_cast<uint32_t>(count), a})) {
        return "the Vulkan device failed";
    }
    std::memcpy(y, device.buffers[1].mapped, bytes);
    return nullptr;
}
