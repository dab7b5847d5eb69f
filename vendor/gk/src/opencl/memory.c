/* Buffers and transfers between host and device. */
#include "opencl.h"

#include <stdlib.h>

/* ---- buffers ---- */

uint64_t gkcl_buffer_bytes(const gk_device *device, const gk_buffer *buffer) {
    for (const gk_buffer *b = device->buffers; b != NULL; b = b->next) {
        if (b == buffer) return b->bytes;
    }
    return 0;
}

/* Many drivers allocate only now, with the first command that accesses the buffer. */
static gk_status zero(gk_device *device, const gk_buffer *buffer, size_t size) {
    const cl_uint pattern = 0;
    cl_int result = device->api.EnqueueFillBuffer(device->queue, buffer->handle, &pattern, sizeof pattern, 0, size, 0, NULL, NULL);
    if (gkcl_status_of(result) == GK_OUT_OF_MEMORY) {
        return gkcl_fail(device, GK_OUT_OF_MEMORY, "no memory for %llu bytes: %s (%d)", (unsigned long long)buffer->bytes,
                         gkcl_result_text(result), (int)result);
    }
    return gkcl_check(device, result, "clEnqueueFillBuffer");
}

gk_status gkcl_alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    if (out == NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "alloc: `out` is NULL");
    *out = NULL;
    if (bytes == 0) return gkcl_fail(device, GK_BAD_ARGUMENT, "alloc: 0 bytes");
    if (usage < GK_USAGE_WEIGHT || usage > GK_USAGE_STAGING) {
        return gkcl_fail(device, GK_BAD_ARGUMENT, "alloc: unknown usage %u", (unsigned)usage);
    }
    /* A multiple of the word size, for the fill with zeros. */
    uint64_t size = gk_align_u64(bytes, 64);
    if (size == 0 || size > device->max_buffer || size > SIZE_MAX) {
        return gkcl_fail(device, GK_OUT_OF_MEMORY, "alloc: %llu bytes are above this device's limit of %llu for one buffer",
                         (unsigned long long)bytes, (unsigned long long)device->max_buffer);
    }
    gk_status status = gkcl_alive(device);
    if (status != GK_OK) return status;
    gk_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL) return gkcl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    cl_int result = CL_SUCCESS;
    buffer->bytes = bytes;
    buffer->handle = device->api.CreateBuffer(device->context, CL_MEM_READ_WRITE, (size_t)size, NULL, &result);
    if (result != CL_SUCCESS || buffer->handle == NULL) {
        free(buffer);
        return gkcl_fail(device, gkcl_status_of(result) == GK_OK ? GK_FAILED : gkcl_status_of(result),
                         "no memory for %llu bytes: %s (%d)", (unsigned long long)bytes, gkcl_result_text(result), (int)result);
    }
    status = zero(device, buffer, (size_t)size);
    if (status != GK_OK) {
        device->api.ReleaseMemObject(buffer->handle);
        free(buffer);
        return status;
    }
    buffer->next = device->buffers;
    if (buffer->next != NULL) buffer->next->previous = buffer;
    device->buffers = buffer;
    device->allocated += bytes;
    *out = buffer;
    return GK_OK;
}

void gkcl_release(gk_device *device, gk_buffer *buffer) {
    if (buffer == NULL || gkcl_buffer_bytes(device, buffer) == 0) return;
    /* Pending work may use it. A lost device has none, and waiting would replace its error text. */
    if (!device->lost) (void)gkcl_sync(device);
    if (buffer->next != NULL) buffer->next->previous = buffer->previous;
    if (buffer->previous != NULL) buffer->previous->next = buffer->next;
    else device->buffers = buffer->next;
    device->allocated -= buffer->bytes;
    device->api.ReleaseMemObject(buffer->handle);
    free(buffer);
}

/* ---- writes and reads ---- */

static gk_status check_range(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *host, uint64_t bytes,
                             const char *what) {
    uint64_t size = gkcl_buffer_bytes(device, buffer);
    if (size == 0) return gkcl_fail(device, GK_BAD_ARGUMENT, "%s: the buffer does not belong to this device", what);
    if (!gk_range_fits(offset, bytes, size)) {
        return gkcl_fail(device, GK_BAD_ARGUMENT, "%s: %llu bytes at offset %llu exceed a buffer of %llu", what,
                         (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)size);
    }
    if (host == NULL && bytes != 0) return gkcl_fail(device, GK_BAD_ARGUMENT, "%s: no host memory given", what);
    return GK_OK;
}

/* Waits until the bytes have been read from `source`, which belongs to the caller. */
static gk_status upload(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    gk_status status = gkcl_alive(device);
    if (status != GK_OK) return status;
    cl_int result = device->api.EnqueueWriteBuffer(device->queue, buffer->handle, CL_TRUE, (size_t)offset, (size_t)bytes, source, 0,
                                                   NULL, NULL);
    return gkcl_check(device, result, "clEnqueueWriteBuffer");
}

gk_status gkcl_write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, source, bytes, "write");
    if (status != GK_OK || bytes == 0) return status;
    status = upload(device, buffer, offset, source, bytes);
    if (status == GK_OK) device->traffic.up += bytes;
    return status;
}

gk_status gkcl_read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    gk_status status = check_range(device, buffer, offset, destination, bytes, "read");
    if (status != GK_OK || bytes == 0) return status;
    /* A separate call: a blocking read does not report earlier kernels that failed. */
    status = gkcl_sync(device);
    if (status != GK_OK) return status;
    cl_int result = device->api.EnqueueReadBuffer(device->queue, buffer->handle, CL_TRUE, (size_t)offset, (size_t)bytes, destination,
                                                  0, NULL, NULL);
    status = gkcl_check(device, result, "clEnqueueReadBuffer");
    if (status == GK_OK) device->traffic.down += bytes;
    return status;
}

/* ---- weights: the planes of planes.h ---- */

enum { STAGING_BYTES = 2 << 20 };

uint64_t gkcl_weight_bytes(uint32_t type, uint64_t ne0, uint64_t ne1) { return gk_planes_bytes(type, ne0, ne1); }

/* `at`: the position of the first block in each plane, in bytes from the start of the buffer. */
static gk_status put_blocks(gk_device *device, const gk_buffer *buffer, uint32_t type, const gk_planes *planes,
                            uint64_t at[GK_PLANES], const uint8_t *blocks, uint64_t count) {
    const uint64_t most = STAGING_BYTES / planes->block_bytes, room = count < most ? count : most;
    unsigned char *staging = malloc((size_t)(room * planes->block_bytes)), *out[GK_PLANES];
    if (staging == NULL) return gkcl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    gk_status status = GK_OK;
    while (count != 0 && status == GK_OK) {
        const uint64_t part = count < room ? count : room;
        gk_planes_stage(planes, staging, part, out);
        gk_planes_split(type, blocks, part, out);
        for (uint32_t p = 0; p < planes->count && status == GK_OK; p++) {
            status = upload(device, buffer, at[p], out[p], part * planes->bytes[p]);
            at[p] += part * planes->bytes[p];
        }
        if (status == GK_OK) device->traffic.up += part * planes->block_bytes;
        blocks += part * planes->block_bytes;
        count -= part;
    }
    free(staging);
    return status;
}

gk_status gkcl_weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    gk_planes planes = {.size = 0};
    if (dst != NULL && !gk_planes_of(dst->type, dst->ne[0], dst->ne[1], &planes)) planes.size = 0;
    uint64_t size = dst != NULL ? gkcl_buffer_bytes(device, dst->buffer) : 0;
    const char *error = gk_weight_put_check(dst, rows, first, count, planes.size, size);
    if (error != NULL) return gkcl_fail(device, GK_BAD_ARGUMENT, "weight_put: %s", error);
    if (count == 0) return GK_OK;
    uint64_t at[GK_PLANES];
    for (uint32_t p = 0; p < GK_PLANES; p++) at[p] = dst->offset + planes.offset[p] + first * planes.row_blocks * planes.bytes[p];
    if (gk_is_block_type(dst->type)) return put_blocks(device, dst->buffer, dst->type, &planes, at, rows, count * planes.row_blocks);
    return gkcl_write(device, dst->buffer, at[0], rows, count * planes.row_blocks * planes.block_bytes);
}
