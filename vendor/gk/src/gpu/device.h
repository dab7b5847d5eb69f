/* Devices and buffers: enumerate, open, memory, transfers, repacking of weights. */
#ifndef GK_GPU_DEVICE_H
#define GK_GPU_DEVICE_H

#include "api.h"
#include "args.h"
#include "planes.h"

enum {
#define X(name) GPU_KERNEL_##name,
    GK_GPU_KERNELS(X)
#undef X
    GPU_KERNEL_COUNT
};

static const char *const gpu_kernel_names[GPU_KERNEL_COUNT] = {
#define X(name) #name,
    GK_GPU_KERNELS(X)
#undef X
};

struct gk_buffer {
    gk_buffer *next;
    uint64_t address;
    uint64_t bytes;
};

struct gk_device {
    gpu_api api;
    const gpu_vendor *vendor;
    int handle;
    void *context; /* CUDA: the primary context */
    void *stream;
    void *module;
    void *functions[GPU_KERNEL_COUNT];
    uint64_t step; /* the gk_step on the device */
    uint32_t warp;
    uint32_t processors; /* multiprocessors; 0 if unknown */
    bool exact;        /* opened with GK_OPEN_EXACT */
    uint32_t features; /* GK_GPU_HAS_... that products may use */
    bool overlap;      /* launches may start before the one before has ended */
    gk_traffic traffic;
    gk_buffer *buffers;
    gk_plan *plans;
    char error[640];
};

static void gpu_plan_release_all(gk_device *);

static gk_status gpu_fail(gk_device *device, gk_status status, const char *text) {
    gk_text(device->error, sizeof device->error, "%s", text);
    return status;
}

/* Turns a driver result into a status; `doing` names the operation. */
static gk_status gpu_check(gk_device *device, int result, const char *doing) {
    if (result == GPU_SUCCESS) return GK_OK;
    /* The driver was started, so it returns this only after a fork: its state is not inherited. */
    const char *remark = result == GPU_NOT_INITIALIZED ? "; a device does not outlive a fork: open it in the child" : "";
    gk_text(device->error, sizeof device->error, "%s: %s (%d)%s", doing, gpu_result_text(&device->api, result), result, remark);
    return gpu_status_of(result);
}

/* ---- the current device of this thread ---- */

/* Calls act on the thread's current device: makes ours current on entry, and restores the caller's on exit. */
static gk_status gpu_enter(gk_device *device, int *before) {
    *before = -1;
    if (device->vendor->shape == GPU_CUDA) return gpu_check(device, device->api.context_push(device->context), "selecting the device");
    if (device->api.device_current(before) != GPU_SUCCESS) *before = -1;
    return gpu_check(device, device->api.device_select(device->handle), "selecting the device");
}

static void gpu_leave(gk_device *device, int before) {
    if (device->vendor->shape == GPU_CUDA) {
        void *ours = NULL;
        (void)device->api.context_pop(&ours);
    } else if (before >= 0 && before != device->handle) {
        (void)device->api.device_select(before);
    }
}

/* ---- enumerate ---- */

/* Digits of a PCI address in lower case, as Linux writes them. */
static void gpu_lower(char *text, size_t capacity) {
    text[capacity - 1] = '\0';
    for (char *letter = text; *letter; letter++)
        if (*letter >= 'A' && *letter <= 'F') *letter = (char)(*letter - 'A' + 'a');
}

static void gpu_describe_device(const gpu_vendor *vendor, const gpu_api *api, int ordinal, gk_device_info *info) {
    int device = 0;
    size_t total = 0;
    memset(info, 0, sizeof *info);
    info->kind = GK_KIND_DISCRETE;
    if (api->device_get(&device, ordinal) != GPU_SUCCESS) return;
    if (api->device_name(info->name, (int)sizeof info->name, device) != GPU_SUCCESS) info->name[0] = '\0';
    info->name[sizeof info->name - 1] = '\0';
    if (api->device_memory(&total, device) == GPU_SUCCESS) info->memory_total = total;
    info->memory_free = info->memory_total; /* the exact number needs a context: gk_backend.memory */
    info->max_buffer = info->memory_total;
    if (api->device_pci(info->pci, (int)sizeof info->pci, device) != GPU_SUCCESS) info->pci[0] = '\0';
    gpu_lower(info->pci, sizeof info->pci);
    if (!api->device_uuid || api->device_uuid(info->uuid, device) != GPU_SUCCESS) {
        if (!api->device_uuid_old || api->device_uuid_old(info->uuid, device) != GPU_SUCCESS)
            memset(info->uuid, 0, sizeof info->uuid);
    }
    vendor->describe(api, device, info);
}

static gk_status gpu_enumerate(const gpu_vendor *vendor, gk_device_info *out, int capacity, int *count, char *why,
                               size_t why_capacity) {
    gpu_api api;
    gk_text(why, why_capacity, "%s", "");
    if (!count || capacity < 0 || (capacity > 0 && !out)) {
        gk_text(why, why_capacity, "enumerate: an argument is missing");
        return GK_BAD_ARGUMENT;
    }
    gk_status status = gpu_start(vendor, &api, count, why, why_capacity);
    for (int i = 0; status == GK_OK && i < *count && i < capacity; i++) gpu_describe_device(vendor, &api, i, &out[i]);
    return status;
}

/* ---- open and close ---- */

/* Runs the kernel that reports how it was compiled, which proves that launches and copies work on this device. */
static gk_status gpu_meet_kernels(gk_device *device) {
    gk_gpu_args args;
    gk_gpu_description seen;
    void *parameters[] = {&args};
    memset(&args, 0, sizeof args);
    memset(&seen, 0, sizeof seen);
    args.dst = device->step; /* both are 16 bytes; the step is set before every run */
    args.step = device->step;
    int result = device->api.launch(device->functions[GPU_KERNEL_describe], 1, 1, 1, 32, 1, 1, 0, device->stream, parameters, NULL);
    if (result == GPU_SUCCESS) result = device->api.copy_down(&seen, device->step, sizeof seen, device->stream);
    if (result == GPU_SUCCESS) result = device->api.stream_wait(device->stream);
    if (result != GPU_SUCCESS) return gpu_check(device, result, "running a first kernel");
    if (seen.magic != GK_GPU_MAGIC || seen.args_bytes != sizeof args || (seen.warp != 32 && seen.warp != 64))
        return gpu_fail(device, GK_FAILED, "a first kernel returned a wrong result");
    device->warp = seen.warp;
    if (!device->exact) device->features = seen.features;
    int processors = 0;
    const int number = device->vendor->shape == GPU_HIP ? GPU_HIP_ATTRIBUTE_PROCESSORS : GPU_ATTRIBUTE_PROCESSORS;
    if (device->vendor->shape != GPU_SYCL && device->api.device_attribute(&processors, number, device->handle) == GPU_SUCCESS && processors > 0)
        device->processors = (uint32_t)processors;
    device->overlap = device->api.launch_with && (seen.features & GK_GPU_HAS_OVERLAP);
    return GK_OK;
}

static gk_status gpu_load_kernels(gk_device *device) {
    int result = device->api.module_load(&device->module, device->vendor->image);
    if (result != GPU_SUCCESS) {
        const gpu_vendor *vendor = device->vendor;
        char advice[256] = "";
        device->module = NULL;
        vendor->advise(&device->api, device->handle, result, advice, sizeof advice);
        gk_text(device->error, sizeof device->error, "loading the kernels (built%s%s for %s): %s (%d)%s%s", vendor->toolkit[0] ? " by " : "",
                vendor->toolkit, vendor->architectures, gpu_result_text(&device->api, result), result, advice[0] ? ": " : "", advice);
        return gpu_status_of(result);
    }
    for (int i = 0; i < GPU_KERNEL_COUNT; i++) {
        result = device->api.module_function(&device->functions[i], device->module, gpu_kernel_names[i]);
        if (result != GPU_SUCCESS) return gpu_check(device, result, gpu_kernel_names[i]);
    }
    return GK_OK;
}

static gk_status gpu_prepare(gk_device *device) {
    gk_status status = gpu_check(device, device->api.stream_create(&device->stream, GPU_STREAM_NON_BLOCKING), "creating a stream");
    if (status != GK_OK) device->stream = NULL;
    if (status == GK_OK) status = gpu_load_kernels(device);
    if (status == GK_OK) {
        status = gpu_check(device, device->api.memory_alloc(&device->step, sizeof(gk_step)), "allocating the step block");
        if (status != GK_OK) device->step = 0;
    }
    if (status == GK_OK) status = gpu_meet_kernels(device);
    return status;
}

/* Also works for a device that is lost: host memory is always freed. */
static void gpu_release_all(gk_device *device) {
    gpu_plan_release_all(device);
    while (device->buffers) {
        gk_buffer *buffer = device->buffers;
        device->buffers = buffer->next;
        (void)device->api.memory_free(buffer->address);
        free(buffer);
    }
}

static void gpu_close(gk_device *device) {
    int before;
    if (!device) return;
    if ((device->context || device->vendor->shape != GPU_CUDA) && gpu_enter(device, &before) == GK_OK) {
        if (device->stream) (void)device->api.stream_wait(device->stream);
        gpu_release_all(device);
        if (device->step) (void)device->api.memory_free(device->step);
        if (device->module) (void)device->api.module_unload(device->module);
        if (device->stream) (void)device->api.stream_destroy(device->stream);
        gpu_leave(device, before);
    }
    gpu_release_all(device);
    if (device->context) (void)device->api.context_release(device->handle);
    free(device);
}

static gk_status gpu_open(const gpu_vendor *vendor, int index, const gk_open_options *options, gk_device **out, char *why,
                          size_t why_capacity) {
    int count = 0;
    int before;
    gk_text(why, why_capacity, "%s", "");
    if (!out) {
        gk_text(why, why_capacity, "open: `out` is NULL");
        return GK_BAD_ARGUMENT;
    }
    *out = NULL;
    gk_device *device = calloc(1, sizeof *device);
    if (!device) {
        gk_text(why, why_capacity, "out of host memory");
        return GK_OUT_OF_MEMORY;
    }
    device->vendor = vendor;
    device->exact = options && (options->flags & GK_OPEN_EXACT) != 0;
    gk_status status = gpu_start(vendor, &device->api, &count, why, why_capacity);
    if (status == GK_OK && (index < 0 || index >= count)) {
        gk_text(why, why_capacity, "device %d was requested, but there are only %d", index, count);
        status = GK_BAD_ARGUMENT;
    }
    if (status != GK_OK) {
        free(device);
        return status;
    }
    status = gpu_check(device, device->api.device_get(&device->handle, index), "opening the device");
    if (status == GK_OK && vendor->shape == GPU_CUDA) {
        status = gpu_check(device, device->api.context_retain(&device->context, device->handle), "creating a context");
        if (status != GK_OK) device->context = NULL;
    }
    if (status == GK_OK) status = gpu_enter(device, &before);
    if (status == GK_OK) {
        status = gpu_prepare(device);
        gpu_leave(device, before);
    }
    if (status != GK_OK) {
        gk_text(why, why_capacity, "%s", device->error);
        gpu_close(device);
        return status;
    }
    *out = device;
    return GK_OK;
}

static const char *gpu_last_error(gk_device *device) { return device ? device->error : ""; }

static gk_status gpu_memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t available = 0;
    size_t total = 0;
    int before;
    if (!device) return GK_BAD_ARGUMENT;
    gk_status status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    status = gpu_check(device, device->api.memory_info(&available, &total), "querying free memory");
    gpu_leave(device, before);
    if (status != GK_OK) return status;
    if (free_bytes) *free_bytes = available;
    if (total_bytes) *total_bytes = total;
    return GK_OK;
}

static void gpu_traffic(gk_device *device, gk_traffic *out) {
    if (!out) return;
    if (device) *out = device->traffic;
    else memset(out, 0, sizeof *out);
}

/* ---- buffers ---- */

/* Searches the list instead of dereferencing: a caller may pass a buffer that was released or belongs to another
 * device. */
static gk_buffer **gpu_find_buffer(gk_device *device, const gk_buffer *buffer) {
    for (gk_buffer **at = &device->buffers; *at; at = &(*at)->next)
        if (*at == buffer) return at;
    return NULL;
}

static gk_status gpu_alloc(gk_device *device, uint64_t bytes, uint32_t usage, gk_buffer **out) {
    int before;
    if (out) *out = NULL;
    if (!device || !out) return GK_BAD_ARGUMENT;
    if (usage < GK_USAGE_WEIGHT || usage > GK_USAGE_STAGING) return gpu_fail(device, GK_BAD_ARGUMENT, "alloc: unknown usage");
    if (bytes == 0) return gpu_fail(device, GK_BAD_ARGUMENT, "alloc: a size of 0");
    if (bytes > SIZE_MAX / 2) return gpu_fail(device, GK_OUT_OF_MEMORY, "alloc: the size is too large");
    gk_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return gpu_fail(device, GK_OUT_OF_MEMORY, "alloc: out of host memory");
    gk_status status = gpu_enter(device, &before);
    if (status != GK_OK) {
        free(buffer);
        return status;
    }
    status = gpu_check(device, device->api.memory_alloc(&buffer->address, (size_t)bytes), "allocating device memory");
    if (status == GK_OK) {
        status = gpu_check(device, device->api.memory_zero(buffer->address, 0, (size_t)bytes, device->stream), "clearing device memory");
        if (status != GK_OK) (void)device->api.memory_free(buffer->address);
    }
    gpu_leave(device, before);
    if (status != GK_OK) {
        free(buffer);
        return status;
    }
    buffer->bytes = bytes;
    buffer->next = device->buffers;
    device->buffers = buffer;
    *out = buffer;
    return GK_OK;
}

static void gpu_release(gk_device *device, gk_buffer *buffer) {
    int before;
    if (!device || !buffer) return;
    gk_buffer **at = gpu_find_buffer(device, buffer);
    if (!at) {
        (void)gpu_fail(device, GK_BAD_ARGUMENT, "release: not a buffer of this device");
        return;
    }
    *at = buffer->next;
    if (gpu_enter(device, &before) == GK_OK) {
        (void)device->api.stream_wait(device->stream); /* a run may still use it */
        (void)device->api.memory_free(buffer->address);
        gpu_leave(device, before);
    }
    free(buffer);
}

/* Transfers in both directions wait, so the caller may reuse its memory on return. */
static gk_status gpu_up(gk_device *device, uint64_t to, const void *from, uint64_t bytes) {
    int result = device->api.copy_up(to, from, (size_t)bytes, device->stream);
    if (result == GPU_SUCCESS) result = device->api.stream_wait(device->stream);
    if (result == GPU_SUCCESS) device->traffic.up += bytes;
    return gpu_check(device, result, "copying to the device");
}

static gk_status gpu_transfer_check(gk_device *device, const gk_buffer *buffer, uint64_t offset, const void *host, uint64_t bytes) {
    if (!device) return GK_BAD_ARGUMENT;
    if (!buffer || !gpu_find_buffer(device, buffer)) return gpu_fail(device, GK_BAD_ARGUMENT, "not a buffer of this device");
    if (!gk_range_fits(offset, bytes, buffer->bytes)) return gpu_fail(device, GK_BAD_ARGUMENT, "the range is outside the buffer");
    if (!host && bytes) return gpu_fail(device, GK_BAD_ARGUMENT, "no host memory given");
    return GK_OK;
}

static gk_status gpu_write(gk_device *device, gk_buffer *buffer, uint64_t offset, const void *source, uint64_t bytes) {
    int before;
    gk_status status = gpu_transfer_check(device, buffer, offset, source, bytes);
    if (status != GK_OK || bytes == 0) return status;
    status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    status = gpu_up(device, buffer->address + offset, source, bytes);
    gpu_leave(device, before);
    return status;
}

static gk_status gpu_read(gk_device *device, gk_buffer *buffer, uint64_t offset, void *destination, uint64_t bytes) {
    int before;
    gk_status status = gpu_transfer_check(device, buffer, offset, destination, bytes);
    if (status != GK_OK || bytes == 0) return status;
    status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    int result = device->api.copy_down(destination, buffer->address + offset, (size_t)bytes, device->stream);
    if (result == GPU_SUCCESS) result = device->api.stream_wait(device->stream);
    if (result == GPU_SUCCESS) device->traffic.down += bytes;
    status = gpu_check(device, result, "copying from the device");
    gpu_leave(device, before);
    return status;
}

static gk_status gpu_sync(gk_device *device) {
    int before;
    if (!device) return GK_BAD_ARGUMENT;
    gk_status status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    status = gpu_check(device, device->api.stream_wait(device->stream), "waiting for the device");
    gpu_leave(device, before);
    return status;
}

/* ---- weights ---- */

static uint64_t gpu_weight_bytes(gk_device *device, uint32_t type, uint64_t ne0, uint64_t ne1) {
    return device ? gk_planes_bytes(type, ne0, ne1) : 0;
}

/* Splits rows of blocks into planes, in chunks of about 4 MiB. */
static gk_status gpu_put_blocks(gk_device *device, uint64_t address, const gk_tensor *dst, const gk_planes *planes,
                                const unsigned char *rows, uint64_t first, uint64_t count) {
    const uint64_t most = (4u << 20) / planes->block_bytes;
    uint64_t begin = first * planes->row_blocks, left = count * planes->row_blocks;
    const uint64_t chunk = left < most ? left : most;
    unsigned char *staging = malloc((size_t)(chunk * planes->block_bytes)), *out[GK_PLANES];
    gk_status status = GK_OK;
    if (!staging) return gpu_fail(device, GK_OUT_OF_MEMORY, "weight_put: out of host memory");
    while (left != 0 && status == GK_OK) {
        const uint64_t now = left < chunk ? left : chunk;
        gk_planes_stage(planes, staging, now, out);
        gk_planes_split(dst->type, rows, now, out);
        for (uint32_t p = 0; p < planes->count && status == GK_OK; p++)
            status = gpu_up(device, address + planes->offset[p] + begin * planes->bytes[p], out[p], now * planes->bytes[p]);
        rows += now * planes->block_bytes;
        begin += now;
        left -= now;
    }
    free(staging);
    return status;
}

static gk_status gpu_weight_put(gk_device *device, const gk_tensor *dst, const void *rows, uint64_t first, uint64_t count) {
    int before;
    if (!device) return GK_BAD_ARGUMENT;
    if (!dst || !dst->buffer || !gpu_find_buffer(device, dst->buffer))
        return gpu_fail(device, GK_BAD_ARGUMENT, "weight_put: not a buffer of this device");
    gk_planes planes;
    if (!gk_planes_of(dst->type, dst->ne[0], dst->ne[1], &planes)) planes.size = 0;
    const char *error = gk_weight_put_check(dst, rows, first, count, planes.size, dst->buffer->bytes);
    if (error) return gpu_fail(device, GK_BAD_ARGUMENT, error);
    if (count == 0) return GK_OK;
    gk_status status = gpu_enter(device, &before);
    if (status != GK_OK) return status;
    const uint64_t address = dst->buffer->address + dst->offset;
    const uint64_t row = planes.row_blocks * planes.block_bytes;
    if (gk_is_block_type(dst->type)) status = gpu_put_blocks(device, address, dst, &planes, rows, first, count);
    else status = gpu_up(device, address + first * row, rows, count * row);
    gpu_leave(device, before);
    return status;
}

#endif
