/* Adds two arrays with a compute shader on the first device that is a GPU, or without one on any device. The path of the shader is
   the first argument. */
#include <stdio.h>
#include <stdlib.h>
#include <vulkan/vulkan.h>

enum { COUNT = 1024 };

static void check(const char *what, VkResult result) {
    if (result == VK_SUCCESS) return;
    fprintf(stderr, "%s: VkResult %d\n", what, (int)result);
    exit(1);
}

static uint32_t *read_shader(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint32_t *words = malloc(*size + 4);
    size_t got = words == NULL ? 0 : fread(words, 1, *size, file);
    fclose(file);
    return got == *size ? words : NULL;
}

static VkPhysicalDevice choose(VkInstance instance, VkPhysicalDeviceProperties *properties) {
    VkPhysicalDevice all[16];
    uint32_t count = 16;
    VkResult result = vkEnumeratePhysicalDevices(instance, &count, all);
    if (result != VK_INCOMPLETE) check("vkEnumeratePhysicalDevices", result);
    if (count == 0) {
        fprintf(stderr, "device: the loader lists no device\n");
        exit(1);
    }
    for (uint32_t i = 0; i < count; i++) {
        vkGetPhysicalDeviceProperties(all[i], properties);
        if (properties->deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return all[i];
    }
    vkGetPhysicalDeviceProperties(all[0], properties);
    return all[0];
}

static uint32_t compute_family(VkPhysicalDevice physical) {
    VkQueueFamilyProperties families[32];
    uint32_t count = 32;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) return i;
    fprintf(stderr, "device: no compute queue\n");
    exit(1);
}

static uint32_t memory_type(VkPhysicalDevice physical, uint32_t allowed) {
    const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties memory;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    for (uint32_t i = 0; i < memory.memoryTypeCount; i++)
        if ((allowed >> i & 1) && (memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    fprintf(stderr, "device: no host-visible memory\n");
    exit(1);
}

static VkBuffer make_buffer(VkPhysicalDevice physical, VkDevice device, float **mapped) {
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               .size = COUNT * sizeof(float),
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
    VkBuffer buffer;
    check("vkCreateBuffer", vkCreateBuffer(device, &info, NULL, &buffer));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkMemoryAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                     .allocationSize = needs.size,
                                     .memoryTypeIndex = memory_type(physical, needs.memoryTypeBits)};
    VkDeviceMemory memory;
    check("vkAllocateMemory", vkAllocateMemory(device, &allocate, NULL, &memory));
    check("vkBindBufferMemory", vkBindBufferMemory(device, buffer, memory, 0));
    void *address;
    check("vkMapMemory", vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &address));
    *mapped = address;
    return buffer;
}

int main(int argc, char **argv) {
    size_t size = 0;
    uint32_t *shader = argc > 1 ? read_shader(argv[1], &size) : NULL;
    if (shader == NULL) {
        fprintf(stderr, "shader: cannot be read\n");
        return 1;
    }
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo instance_info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkInstance instance;
    check("vkCreateInstance", vkCreateInstance(&instance_info, NULL, &instance));
    VkPhysicalDeviceProperties properties;
    VkPhysicalDevice physical = choose(instance, &properties);
    uint32_t family = compute_family(physical);
    float priority = 1.0f;
    VkDeviceQueueCreateInfo queue_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                          .queueFamilyIndex = family,
                                          .queueCount = 1,
                                          .pQueuePriorities = &priority};
    VkDeviceCreateInfo device_info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                      .queueCreateInfoCount = 1,
                                      .pQueueCreateInfos = &queue_info};
    VkDevice device;
    check("vkCreateDevice", vkCreateDevice(physical, &device_info, NULL, &device));
    float *a, *b;
    VkBuffer buffers[2] = {make_buffer(physical, device, &a), make_buffer(physical, device, &b)};
    for (int i = 0; i < COUNT; i++) a[i] = (float)i, b[i] = 2.0f * (float)i;

    VkDescriptorSetLayoutBinding bindings[2] = {{0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL},
                                                {1, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL}};
    VkDescriptorSetLayoutCreateInfo set_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
                                                .bindingCount = 2,
                                                .pBindings = bindings};
    VkDescriptorSetLayout set_layout;
    check("vkCreateDescriptorSetLayout", vkCreateDescriptorSetLayout(device, &set_info, NULL, &set_layout));
    VkPipelineLayoutCreateInfo layout_info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                              .setLayoutCount = 1,
                                              .pSetLayouts = &set_layout};
    VkPipelineLayout layout;
    check("vkCreatePipelineLayout", vkCreatePipelineLayout(device, &layout_info, NULL, &layout));
    VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                            .codeSize = size,
                                            .pCode = shader};
    VkShaderModule module;
    check("vkCreateShaderModule", vkCreateShaderModule(device, &module_info, NULL, &module));
    VkComputePipelineCreateInfo pipeline_info = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                                 .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                           .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                           .module = module,
                                                           .pName = "main"},
                                                 .layout = layout};
    VkPipeline pipeline;
    check("vkCreateComputePipelines", vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline_info, NULL, &pipeline));

    VkDescriptorPoolSize pool_size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 2};
    VkDescriptorPoolCreateInfo pool_info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                            .maxSets = 1,
                                            .poolSizeCount = 1,
                                            .pPoolSizes = &pool_size};
    VkDescriptorPool pool;
    check("vkCreateDescriptorPool", vkCreateDescriptorPool(device, &pool_info, NULL, &pool));
    VkDescriptorSetAllocateInfo set_allocate = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
                                                .descriptorPool = pool,
                                                .descriptorSetCount = 1,
                                                .pSetLayouts = &set_layout};
    VkDescriptorSet set;
    check("vkAllocateDescriptorSets", vkAllocateDescriptorSets(device, &set_allocate, &set));
    for (uint32_t i = 0; i < 2; i++) {
        VkDescriptorBufferInfo buffer_info = {buffers[i], 0, VK_WHOLE_SIZE};
        VkWriteDescriptorSet write = {.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                                      .dstSet = set,
                                      .dstBinding = i,
                                      .descriptorCount = 1,
                                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                      .pBufferInfo = &buffer_info};
        vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    }

    VkCommandPoolCreateInfo commands_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = family};
    VkCommandPool commands;
    check("vkCreateCommandPool", vkCreateCommandPool(device, &commands_info, NULL, &commands));
    VkCommandBufferAllocateInfo command_info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                                .commandPool = commands,
                                                .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                                .commandBufferCount = 1};
    VkCommandBuffer command;
    check("vkAllocateCommandBuffers", vkAllocateCommandBuffers(device, &command_info, &command));
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    check("vkBeginCommandBuffer", vkBeginCommandBuffer(command, &begin));
    vkCmdBindPipeline(command, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdBindDescriptorSets(command, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, NULL);
    vkCmdDispatch(command, COUNT / 64, 1, 1);
    VkMemoryBarrier barrier = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                               .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                               .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0,
                         NULL);
    check("vkEndCommandBuffer", vkEndCommandBuffer(command));
    VkQueue queue;
    vkGetDeviceQueue(device, family, 0, &queue);
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &command};
    check("vkQueueSubmit", vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE));
    check("vkQueueWaitIdle", vkQueueWaitIdle(queue));
    for (int i = 0; i < COUNT; i++)
        if (a[i] != 3.0f * (float)i) {
            fprintf(stderr, "result: element %d is %g\n", i, (double)a[i]);
            return 1;
        }
    printf("ok: %s\n", properties.deviceName);
    return 0;
}
