/* Buffers and transfers between host and device. Each buffer has its own allocation and address.
 *
 * The host writes visible buffers through their mapping; everything else goes through the slots, a ring of small
 * host-visible buffers with one command buffer each. */
#include "vulkan.h"

#include <stdlib.h>

/* ---- memory types ---- */

enum {
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    VISIBLE = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT
};

static uint64_t largest_local_heap(const gk_device *device) {
    uint64_t size = 0;
    for (uint32_t n = 0; n < device->memory.memoryHeapCount; n++) {
        const VkMemoryHeap *heap = &device->memory.memoryHeaps[n];
        if ((heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) && heap->size > size) size = heap->size;
    }
    return size;
}

/* The first allowed type with these properties, or UINT32_MAX. Memory that is both local and visible is used only
 * from a large heap: the 256 MiB window of older machines is reserved for the driver. */
static uint32_t find_type(const gk_device *device, uint32_t allowed, VkMemoryPropertyFlags properties) {
    bool window = (properties & LOCAL) && (properties & VISIBLE);
    uint64_t least = window ? largest_local_heap(device) / 2 : 0;
    for (uint32_t n = 0; n < device->memory.memoryTypeCount; n++) {
        const VkMemoryType *type = &device->memory.memoryTypes[n];
        if (!(allowed & (1u << n)) || (type->propertyFlags & properties) != properties) continue;
        if (device->memory.memoryHeaps[type->heapIndex].size >= least) return n;
    }
    return UINT32_MAX;
}

/* Properties to try for a usage, best first, terminated by 0. */
static const VkMemoryPropertyFlags *preferences(const gk_device *device, uint32_t usage) {
    static const VkMemoryPropertyFlags staging[] = {VISIBLE | CACHED, VISIBLE, 0};
    static const VkMemoryPropertyFlags discrete[] = {LOCAL | VISIBLE, LOCAL, 0};
    /* Unified memory; a small carve-out for the GPU must not make allocations fail. */
    static const VkMemoryPropertyFlags shared[] = {LOCAL | VISIBLE | CACHED, LOCAL | VISIBLE, LOCAL, VISIBLE, 0};
    if (usage == GK_USAGE_STAGING) return staging;
    return device->kind == GK_KIND_DISCRETE ? discrete : shared;
}

typedef struct allocation {
    VkBuffer buffer;
    VkDeviceMemory memory;
    uint32_t type;
} allocation;

static void drop_allocation(gk_device *device, const allocation *a) {
    if (a->buffer != VK_NULL_HANDLE) device->api.DestroyBuffer(device->handle, a->buffer, NULL);
    if (a->memory != VK_NULL_HANDLE) device->api.FreeMemory(device->handle, a->memory, NULL);
}

static gk_status allocate(gk_device *device, uint64_t bytes, VkBufferUsageFlags use,
                          const VkMemoryPropertyFlags *wanted, allocation *out) {
    gkv_api *api = &device->api;
    *out = (allocation){.buffer = VK_NULL_HANDLE};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes, .usage = use,
                               .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    gk_status status = gkv_check(device, api->CreateBuffer(device->handle, &info, NULL, &out->buffer), "vkCreateBuffer");
    if (status != GK_OK) return status;
    VkMemoryRequirements needs;
    api->GetBufferMemoryRequirements(device->handle, out->buffer, &needs);
    VkMemoryAllocateFlagsInfo flags = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                       .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    VkMemoryAllocateInfo memory = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size};
    if (use & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) memory.pNext = &flags;
    VkResult result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (; *wanted != 0 && result != VK_SUCCESS; wanted++) {
        out->type = find_type(device, needs.memoryTypeBits, *wanted);
        if (out->type == UINT32_MAX) continue;
        memory.memoryTypeIndex = out->type;
        result = api->AllocateMemory(device->handle, &memory, NULL, &out->memory);
        if (result != VK_SUCCESS) out->memory = VK_NULL_HANDLE;
    }
    if (result != VK_SUCCESS) {
        status = gkv_fail(device, gkv_status_of(result), "no memory for %llu bytes: %s (%d)", (unsigned long long)bytes,
                          gkv_result_text(result), (int)result);
    } else {
        status = gkv_check(device, api->BindBufferMemory(device->handle, out->buffer, out->memory, 0), "vkBindBufferMemory");
    }
    if (status != GK_OK) drop_allocation(device, out);
    return status;
}

/* ---- slots ---- */

gk_status gkv_slots_open(gk_device *device) {
    static const VkMemoryPropertyFlags wanted[] = {VISIBLE | CACHED, VISIBLE, 0};
    for (int n = 0; n < GKV_SLOTS; n++) {
        gkv_slot *slot = &device->slots[n];
        allocation a;
        const VkBufferUsageFlags use = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
        gk_status status = allocate(device, GKV_SLOT_BYTES, use, wanted, &a);
        if (status != GK_OK) return status;
        slot->buffer = a.buffer;
        slot->memory = a.memory;
        void *mapped = NULL;
        VkResult result = device->api.MapMemory(device->handle, a.memory, 0, VK_WHOLE_SIZE, 0, &mapped);
        status = gkv_check(device, result, "vkMapMemory");
        if (status != GK_OK) return status;
        slot->mapped = mapped;
        VkCommandBufferAllocateInfo commands = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = device->pool,
                                                .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY, .commandBufferCount = 1};
        result = device->api.AllocateCommandBuffers(device->handle, &commands, &slot->commands);
        status = gkv_check(device, result, "vkAllocateCommandBuffers");
        if (status != GK_OK) return status;
    }
    return GK_OK;
}

void gkv_slots_close(gk_device *device) {
    for (int n = 0; n < GKV_SLOTS; n++) { /* the command buffers are freed with their pool */
        drop_allocation(device, &(allocation){.buffer = device->slots[n].buffer, .memory = device->slots[n].memory});
    }
}

gk_status gkv_slot_begin(gk_device *device, gkv_slot **out) {
    gkv_slot *slot = &device->slots[device->next_slot];
    gk_status status = gkv_wait(device, slot->busy_until);
    if (status != GK_OK) return status;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                      .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    status = gkv_check(device, device->api.BeginCommandBuffer(slot->commands, &begin), "vkBeginCommandBuffer");
    if (status != GK_OK) return status;
    device->next_slot = (device->next_slot + 1) % GKV_SLOTS;
    gkv_barrier(device, slot->commands, GKV_TO_DEVICE);
    *out = slot;
    return GK_OK;
}

gk_status gkv_slot_submit(gk_device *device, gkv_slot *slot, const VkCommandBuffer *extra, uint32_t extra_count) {
    gkv_barrier(device, slot->commands, GKV_TO_HOST);
    gk_status status = gkv_check(device, device->api.EndCommandBuffer(slot->commands), "vkEndCommandBuffer");
    if (status != GK_OK) return status;
    VkCommandBuffer all[GKV_MAX_REPEATS + 1] = {slot->commands};
    uint32_t count = 1;
    for (uint32_t n = 0; n < extra_count && n < GKV_MAX_REPEATS; n++) all[count++] = extra[n];
    return gkv_submit(device, all, count, &slot->busy_until);
}

/* ---- buffers ---- */

uint64_t gkv_buffer_bytes(const gk_device *device, const gk_buffer *buffer) {
    for (const gk_buffer *b = device->buffers; b != NULL; b = b->next) {
        if (b == buffer) return b->bytes;
    }
    return 0;
}

static gk_status zero(gk_device *device, gk_buffer *buffer) {
    if (buffer->mapped != NULL && buffer->cached) {
        memset(buffer->mapped, 0, (size_t)buffer->bytes);
        return GK_OK;
    }
    gkv_slot *slot;
    gk_status status = gkv_slot_begin(device, &slot);
    if (status != GK_OK) return status;
    device->api.CmdFillBuffer(slot->commands, buffer->handle, 0, VK_WHOLE_SIZE, 0);
    return gkv_slot_submit(device, slot, NULL, 0);
}

gk_status gkv_alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    gkv_api *api = &device->api;
    if (out == NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "alloc: `out` is NULL");
    *out = NULL;
    if (bytes == 0) return gkv_fail(device, GK_BAD_ARGUMENT, "alloc: 0 bytes");
    if (usage < GK_USAGE_WEIGHT || usage > GK_USAGE_STAGING) {
        return gkv_fail(device, GK_BAD_ARGUMENT, "alloc: unknown usage %u", (unsigned)usage);
    }
    /* A multiple of the word size, for the fill with zeros. */
    uint64_t size = gk_align_u64(bytes, 64);
    if (size == 0 || size > device->max_buffer || size > SIZE_MAX) {
        return gkv_fail(device, GK_OUT_OF_MEMORY, "alloc: %llu bytes are above this device's limit of %llu for one buffer",
                        (unsigned long long)bytes, (unsigned long long)device->max_buffer);
    }
    if (device->lost) return gkv_fail(device, GK_DEVICE_LOST, "the device was lost before");
    gk_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return gkv_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    const VkBufferUsageFlags use = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
                                   VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    allocation a;
    gk_status status = allocate(device, size, use, preferences(device, usage), &a);
    if (status != GK_OK) {
        free(buffer);
        return status;
    }
    buffer->handle = a.buffer;
    buffer->memory = a.memory;
    buffer->bytes = bytes;
    VkBufferDeviceAddressInfo address = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = a.buffer};
    buffer->address = api->GetBufferDeviceAddress(device->handle, &address);
    buffer->next = device->buffers;
    if (buffer->next != NULL) buffer->next->previous = buffer;
    device->buffers = buffer;
    device->allocated += bytes;
    VkMemoryPropertyFlags properties = device->memory.memoryTypes[a.type].propertyFlags;
    if (!GKV_AS_DISCRETE && (properties & VISIBLE) == VISIBLE) {
        void *mapped = NULL;
        if (api->MapMemory(device->handle, a.memory, 0, VK_WHOLE_SIZE, 0, &mapped) == VK_SUCCESS) {
            buffer->mapped = mapped;
            buffer->cached = (properties & CACHED) != 0;
        }
    }
    status = zero(device, buffer);
    if (status != GK_OK) {
        gkv_release(device, buffer);
        return status;
    }
    *out = buffer;
    return GK_OK;
}

void gkv_release(gk_device *device, gk_buffer *buffer) {
    if (buffer == NULL || gkv_buffer_bytes(device, buffer) == 0) return;
    /* Pending work may use it. A lost device has none, and waiting would replace its error text. */
    if (!device->lost) (void)gkv_sync(device);
    if (buffer->next != NULL) buffer->next->previous = buffer->previous;
    if (buffer->previous != NULL) buffer->previous->next = buffer->next;
    else device->buffers = buffer->next;
    device->allocated -= buffer->bytes;
    drop_allocation(device, &(allocation){.buffer = buffer->handle, .memory = buffer->memory});
    free(buffer);
}

/* ---- writes and reads ---- */

static gk_status check_range(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *host, uint64_t bytes,
                             const char *what) {
    uint64_t size = gkv_buffer_bytes(device, buffer);
    if (size == 0) return gkv_fail(device, GK_BAD_ARGUMENT, "%s: the buffer does not belong to this device", what);
    if (!gk_range_fits(offset, bytes, size)) {
        return gkv_fail(device, GK_BAD_ARGUMENT, "%s: %llu bytes at offset %llu exceed a buffer of %llu", what,
                        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)size);
    }
    if (host == NULL && bytes != 0) return gkv_fail(device, GK_BAD_ARGUMENT, "%s: no host memory given", what);
    return GK_OK;
}

gk_status gkv_write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, source, bytes, "write");
    if (status != GK_OK || bytes == 0) return status;
    if (buffer->mapped != NULL) {
        status = gkv_sync(device);
        if (status != GK_OK) return status;
        memcpy(buffer->mapped + offset, source, (size_t)bytes);
        device->traffic.up += bytes;
        return GK_OK;
    }
    const uint8_t *from = source;
    while (bytes != 0) {
        uint64_t part = bytes < GKV_SLOT_BYTES ? bytes : GKV_SLOT_BYTES;
        gkv_slot *slot;
        status = gkv_slot_begin(device, &slot);
        if (status != GK_OK) return status;
        memcpy(slot->mapped, from, (size_t)part);
        VkBufferCopy region = {.srcOffset = 0, .dstOffset = offset, .size = part};
        device->api.CmdCopyBuffer(slot->commands, slot->buffer, buffer->handle, 1, &region);
        status = gkv_slot_submit(device, slot, NULL, 0);
        if (status != GK_OK) return status;
        device->traffic.up += part;
        from += part;
        offset += part;
        bytes -= part;
    }
    return GK_OK;
}

gk_status gkv_read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, destination, bytes, "read");
    if (status != GK_OK || bytes == 0) return status;
    if (buffer->mapped != NULL && buffer->cached) {
        status = gkv_sync(device);
        if (status != GK_OK) return status;
        memcpy(destination, buffer->mapped + offset, (size_t)bytes);
        device->traffic.down += bytes;
        return GK_OK;
    }
    uint8_t *to = destination;
    while (bytes != 0) {
        uint64_t part = bytes < GKV_SLOT_BYTES ? bytes : GKV_SLOT_BYTES;
        gkv_slot *slot;
        status = gkv_slot_begin(device, &slot);
        if (status != GK_OK) return status;
        VkBufferCopy region = {.srcOffset = offset, .dstOffset = 0, .size = part};
        device->api.CmdCopyBuffer(slot->commands, buffer->handle, slot->buffer, 1, &region);
        status = gkv_slot_submit(device, slot, NULL, 0);
        if (status == GK_OK) status = gkv_wait(device, slot->busy_until);
        if (status != GK_OK) return status;
        memcpy(to, slot->mapped, (size_t)part);
        device->traffic.down += part;
        to += part;
        offset += part;
        bytes -= part;
    }
    return GK_OK;
}

/* ---- weights: the planes of planes.h ---- */

uint64_t gkv_weight_bytes(gk_device *device, uint32_t type, uint64_t ne0, uint64_t ne1) {
    (void)device;
    return gk_planes_bytes(type, ne0, ne1);
}

/* `at`: the position of the first block in each plane, in bytes from the start of the buffer. */
static gk_status put_blocks(gk_device *device, gk_buffer *buffer, uint32_t type, const gk_planes *planes, uint64_t at[GK_PLANES],
                            const uint8_t *blocks, uint64_t count) {
    unsigned char *out[GK_PLANES] = {NULL};
    if (buffer->mapped != NULL && buffer->cached) { /* small writes to uncached memory are slow */
        gk_status status = gkv_sync(device);
        if (status != GK_OK) return status;
        for (uint32_t p = 0; p < planes->count; p++) out[p] = buffer->mapped + at[p];
        gk_planes_split(type, blocks, count, out);
        device->traffic.up += count * planes->block_bytes;
        return GK_OK;
    }
    const uint64_t room = GKV_SLOT_BYTES / planes->block_bytes;
    while (count != 0) {
        const uint64_t part = count < room ? count : room;
        gkv_slot *slot;
        gk_status status = gkv_slot_begin(device, &slot);
        if (status != GK_OK) return status;
        gk_planes_stage(planes, slot->mapped, part, out);
        gk_planes_split(type, blocks, part, out);
        VkBufferCopy regions[GK_PLANES];
        for (uint32_t p = 0; p < planes->count; p++) {
            regions[p] = (VkBufferCopy){.srcOffset = (uint64_t)(out[p] - slot->mapped), .dstOffset = at[p],
                                        .size = part * planes->bytes[p]};
            at[p] += regions[p].size;
        }
        device->api.CmdCopyBuffer(slot->commands, slot->buffer, buffer->handle, planes->count, regions);
        status = gkv_slot_submit(device, slot, NULL, 0);
        if (status != GK_OK) return status;
        device->traffic.up += part * planes->block_bytes;
        blocks += part * planes->block_bytes;
        count -= part;
    }
    return GK_OK;
}

gk_status gkv_weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    gk_planes planes = {.size = 0};
    if (dst != NULL && !gk_planes_of(dst->type, dst->ne[0], dst->ne[1], &planes)) planes.size = 0;
    uint64_t size = dst != NULL ? gkv_buffer_bytes(device, dst->buffer) : 0;
    const char *error = gk_weight_put_check(dst, rows, first, count, planes.size, size);
    if (error != NULL) return gkv_fail(device, GK_BAD_ARGUMENT, "weight_put: %s", error);
    if (count == 0) return GK_OK;
    uint64_t at[GK_PLANES];
    for (uint32_t p = 0; p < GK_PLANES; p++) at[p] = dst->offset + planes.offset[p] + first * planes.row_blocks * planes.bytes[p];
    if (gk_is_block_type(dst->type)) return put_blocks(device, dst->buffer, dst->type, &planes, at, rows, count * planes.row_blocks);
    return gkv_write(device, dst->buffer, at[0], rows, count * planes.row_blocks * planes.block_bytes);
}
