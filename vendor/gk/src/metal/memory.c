/* Buffers and transfers between host and device. All memory is shared: a write is a copy by the CPU, after waiting
 * for pending commands that could access it. */
#include "metal.h"

#include <stdlib.h>

/* ---- buffers ---- */

uint64_t gkmtl_buffer_bytes(const gk_device *device, const gk_buffer *buffer) {
    for (const gk_buffer *b = device->buffers; b != NULL; b = b->next) {
        if (b == buffer) return b->bytes;
    }
    return 0;
}

gk_status gkmtl_alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    if (out == NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "alloc: `out` is NULL");
    *out = NULL;
    if (bytes == 0) return gkmtl_fail(device, GK_BAD_ARGUMENT, "alloc: 0 bytes");
    if (usage < GK_USAGE_WEIGHT || usage > GK_USAGE_STAGING) {
        return gkmtl_fail(device, GK_BAD_ARGUMENT, "alloc: unknown usage %u", (unsigned)usage);
    }
    const uint64_t size = gk_align_u64(bytes, 64); /* a multiple of the vector size */
    if (size == 0 || size > device->max_buffer || size > SIZE_MAX) {
        return gkmtl_fail(device, GK_OUT_OF_MEMORY, "alloc: %llu bytes are above this device's limit of %llu for one buffer",
                          (unsigned long long)bytes, (unsigned long long)device->max_buffer);
    }
    gk_status status = gkmtl_alive(device);
    if (status != GK_OK) return status;
    gk_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return gkmtl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    buffer->bytes = bytes;
    buffer->handle = gkmtl_new_buffer(&device->api, device->id, size);
    buffer->contents = buffer->handle != NULL ? gkmtl_contents(&device->api, buffer->handle) : NULL;
    if (buffer->contents == NULL) {
        gkmtl_release_object(&device->api, buffer->handle);
        free(buffer);
        return gkmtl_fail(device, GK_OUT_OF_MEMORY, "no memory for %llu bytes", (unsigned long long)bytes);
    }
    memset(buffer->contents, 0, (size_t)size);
    buffer->next = device->buffers;
    if (buffer->next != NULL) buffer->next->previous = buffer;
    device->buffers = buffer;
    *out = buffer;
    return GK_OK;
}

void gkmtl_release(gk_device *device, gk_buffer *buffer) {
    if (buffer == NULL || gkmtl_buffer_bytes(device, buffer) == 0) return;
    /* Pending command buffers retain the memory. */
    if (buffer->next != NULL) buffer->next->previous = buffer->previous;
    if (buffer->previous != NULL) buffer->previous->next = buffer->next;
    else device->buffers = buffer->next;
    gkmtl_release_object(&device->api, buffer->handle);
    free(buffer);
}

/* ---- writes and reads ---- */

static gk_status check_range(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *host, uint64_t bytes,
                             const char *what) {
    const uint64_t size = gkmtl_buffer_bytes(device, buffer);
    if (size == 0) return gkmtl_fail(device, GK_BAD_ARGUMENT, "%s: the buffer does not belong to this device", what);
    if (!gk_range_fits(offset, bytes, size)) {
        return gkmtl_fail(device, GK_BAD_ARGUMENT, "%s: %llu bytes at offset %llu exceed a buffer of %llu", what,
                          (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)size);
    }
    if (host == NULL && bytes != 0) return gkmtl_fail(device, GK_BAD_ARGUMENT, "%s: no host memory given", what);
    return GK_OK;
}

gk_status gkmtl_write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, source, bytes, "write");
    if (status != GK_OK || bytes == 0) return status;
    status = gkmtl_sync(device);
    if (status != GK_OK) return status;
    memcpy(buffer->contents + offset, source, (size_t)bytes);
    device->traffic.up += bytes;
    return GK_OK;
}

gk_status gkmtl_read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, destination, bytes, "read");
    if (status != GK_OK || bytes == 0) return status;
    status = gkmtl_sync(device);
    if (status != GK_OK) return status;
    memcpy(destination, buffer->contents + offset, (size_t)bytes);
    device->traffic.down += bytes;
    return GK_OK;
}

/* ---- weights: split directly into the planes of planes.h ---- */

gk_status gkmtl_weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    gk_planes planes = {.size = 0};
    if (dst != NULL && !gk_planes_of(dst->type, dst->ne[0], dst->ne[1], &planes)) planes.size = 0;
    const uint64_t size = dst != NULL ? gkmtl_buffer_bytes(device, dst->buffer) : 0;
    const char *error = gk_weight_put_check(dst, rows, first, count, planes.size, size);
    if (error != NULL) return gkmtl_fail(device, GK_BAD_ARGUMENT, "weight_put: %s", error);
    if (count == 0) return GK_OK;
    unsigned char *at[GK_PLANES];
    for (uint32_t p = 0; p < GK_PLANES; p++) {
        at[p] = dst->buffer->contents + dst->offset + planes.offset[p] + first * planes.row_blocks * planes.bytes[p];
    }
    const uint64_t blocks = count * planes.row_blocks, bytes = blocks * planes.block_bytes;
    if (!gk_is_block_type(dst->type)) return gkmtl_write(device, dst->buffer, (uint64_t)(at[0] - dst->buffer->contents), rows, bytes);
    gk_status status = gkmtl_sync(device);
    if (status != GK_OK) return status;
    gk_planes_split(dst->type, rows, blocks, at);
    device->traffic.up += bytes;
    return GK_OK;
}
