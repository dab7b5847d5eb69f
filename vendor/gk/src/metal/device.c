/* Devices: descriptions and requirements; opening and closing a device, its errors, its queue. */
#include "metal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    OLDEST_FAMILY = 7, /* M1, A14: the first family with reductions over a simdgroup */
    NEEDED_THREADGROUP_MEMORY = 32 << 10
};

gk_status gkmtl_fail(gk_device *device, gk_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(device->error, sizeof device->error, format, arguments) < 0) device->error[0] = '\0';
    va_end(arguments);
    return status;
}

gk_status gkmtl_alive(gk_device *device) {
    return device->lost ? gkmtl_fail(device, GK_DEVICE_LOST, "the device was lost before") : GK_OK;
}

/* ---- enumeration ---- */

/* NULL if the kernels can run on this device, else the reason. */
static const char *unfit(const gkmtl_facts *facts) {
    if (facts->family < OLDEST_FAMILY) return "is not a GPU of Apple's family 7 (M1, A14) or later";
    if (facts->threadgroup_memory < NEEDED_THREADGROUP_MEMORY) return "has less than 32 KiB of threadgroup memory";
    return NULL;
}

static void fill_info(const gkmtl_facts *facts, gk_device_info *info) {
    *info = (gk_device_info){.kind = facts->unified ? GK_KIND_INTEGRATED : GK_KIND_DISCRETE};
    gk_text(info->name, sizeof info->name, "%s", facts->name);
    gk_text(info->driver, sizeof info->driver, "%s", facts->system);
    gk_text(info->arch, sizeof info->arch, "apple%u", (unsigned)facts->family);
    memcpy(info->uuid, &facts->registry_id, sizeof facts->registry_id);
    info->memory_total = facts->working_set;
    info->memory_free = facts->working_set > facts->allocated ? facts->working_set - facts->allocated : 0;
    info->max_buffer = facts->max_buffer;
}

/* Calls `found` with each supported device until it returns false. *why: the reason for the last unsupported one. */
typedef struct visitor {
    bool (*found)(struct visitor *, gkmtl_id device, const gkmtl_facts *); /* true: continue */
    gk_device_info *infos;
    int capacity, count, wanted;
    gkmtl_id device; /* retained */
    gkmtl_facts facts;
    char unfit[192];
} visitor;

static bool visit(const gkmtl_api *api, visitor *v, gkmtl_id device) {
    gkmtl_facts facts;
    gkmtl_facts_of(api, device, &facts);
    const char *reason = unfit(&facts);
    if (reason == NULL) return v->found(v, device, &facts);
    gk_text(v->unfit, sizeof v->unfit, "`%s` %s", facts.name, reason);
    return true;
}

/* Releases every device except the one that v->found stops at. */
static void visit_all(const gkmtl_api *api, visitor *v) {
    void *pool = gkmtl_pool_push(api);
    gkmtl_id single, all = gkmtl_new_devices(api, &single);
    if (single != NULL && visit(api, v, single)) gkmtl_release_object(api, single);
    const uint64_t count = all != NULL ? gkmtl_count(api, all) : 0;
    for (uint64_t n = 0; n < count; n++) {
        gkmtl_id device = gkmtl_new_element(api, all, n);
        if (!visit(api, v, device)) break;
        gkmtl_release_object(api, device);
    }
    gkmtl_release_object(api, all);
    gkmtl_pool_pop(api, pool);
}

static bool describe_one(visitor *v, gkmtl_id device, const gkmtl_facts *facts) {
    (void)device;
    if (v->infos != NULL && v->count < v->capacity) fill_info(facts, &v->infos[v->count]);
    v->count++;
    return true;
}

static bool take_one(visitor *v, gkmtl_id device, const gkmtl_facts *facts) {
    if (v->count++ != v->wanted) return true;
    v->device = device;
    v->facts = *facts;
    return false;
}

static gk_status none_found(const visitor *v, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", v->unfit[0] ? v->unfit : "Metal reports no device");
    return v->unfit[0] ? GK_TOO_OLD : GK_NO_DEVICE;
}

gk_status gkmtl_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", "");
    if (count == NULL || capacity < 0 || (out == NULL && capacity > 0)) return GK_BAD_ARGUMENT;
    *count = 0;
    gkmtl_api api;
    gk_status status = gkmtl_api_open(&api, why, why_capacity);
    if (status != GK_OK) return status;
    visitor v = {.found = describe_one, .infos = out, .capacity = capacity};
    visit_all(&api, &v);
    gkmtl_api_close(&api);
    *count = v.count;
    return v.count != 0 ? GK_OK : none_found(&v, why, why_capacity);
}

gk_status gkmtl_memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    const uint64_t used = gkmtl_allocated(&device->api, device->id);
    if (total_bytes != NULL) *total_bytes = device->total;
    if (free_bytes != NULL) *free_bytes = device->total > used ? device->total - used : 0;
    return GK_OK;
}

/* ---- open and close ---- */

static gk_status pick(gk_device *device, int index, char *why, size_t why_capacity) {
    visitor v = {.found = take_one, .wanted = index};
    visit_all(&device->api, &v);
    if (v.device == NULL && v.count != 0) {
        gk_text(why, why_capacity, "no Metal device number %d", index);
        return GK_BAD_ARGUMENT;
    }
    if (v.device == NULL) return none_found(&v, why, why_capacity);
    device->id = v.device;
    device->max_buffer = v.facts.max_buffer;
    device->threadgroup_memory = v.facts.threadgroup_memory;
    device->total = v.facts.working_set;
    return GK_OK;
}

gk_status gkmtl_open(int index, const gk_open_options *options, gk_device **out, char *why, size_t why_capacity) {
    (void)options; /* nothing is rounded, and the system caches compiled kernels itself */
    gk_text(why, why_capacity, "%s", "");
    if (out == NULL) return GK_BAD_ARGUMENT;
    *out = NULL;
    gk_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        gk_text(why, why_capacity, "out of host memory");
        return GK_OUT_OF_MEMORY;
    }
    gk_status status = gkmtl_api_open(&device->api, why, why_capacity);
    if (status == GK_OK) status = pick(device, index, why, why_capacity);
    if (status == GK_OK) {
        device->queue = gkmtl_new_queue(&device->api, device->id);
        if (device->queue == NULL) status = gkmtl_fail(device, GK_FAILED, "Metal returned no command queue");
        if (status == GK_OK) status = gkmtl_alloc(device, sizeof(gk_step), GK_USAGE_STATE, &device->step_block);
        /* Checks at open whether this system compiles the kernels. */
        const gkmtl_variant first = {.kernel = GKMTL_KERNEL_set_step, .threads = GKMTL_WIDTH};
        gkmtl_id pipeline;
        if (status == GK_OK) status = gkmtl_pipeline(device, &first, &pipeline);
        if (status != GK_OK) gk_text(why, why_capacity, "%s", device->error);
    }
    if (status != GK_OK) {
        gkmtl_close(device);
        return status;
    }
    *out = device;
    return GK_OK;
}

void gkmtl_close(gk_device *device) {
    if (device == NULL) return;
    if (device->queue != NULL) {
        (void)gkmtl_sync(device);
        while (device->plans != NULL) gkmtl_plan_free(device, device->plans);
        while (device->buffers != NULL) gkmtl_release(device, device->buffers);
        gkmtl_programs_close(device);
        gkmtl_release_object(&device->api, device->queue);
    }
    if (device->id != NULL) gkmtl_release_object(&device->api, device->id);
    gkmtl_api_close(&device->api);
    free(device);
}

/* ---- the queue ---- */

/* Waits for the oldest command buffer. Later ones read its memory, so if it failed the device is lost. */
static gk_status finish_oldest(gk_device *device) {
    gkmtl_id commands = device->pending[0];
    char text[256] = "";
    const uint32_t status = gkmtl_wait(&device->api, commands, text, sizeof text);
    gkmtl_release_object(&device->api, commands);
    device->pending_count--;
    memmove(device->pending, device->pending + 1, device->pending_count * sizeof *device->pending);
    if (status == GKMTL_STATUS_COMPLETED) return GK_OK;
    device->lost = true;
    return gkmtl_fail(device, GK_DEVICE_LOST, "the GPU did not run the commands: %s", text[0] ? text : "no reason was given");
}

gk_status gkmtl_keep_pending(gk_device *device, gkmtl_id commands) {
    gk_status status = GK_OK;
    if (device->pending_count == GKMTL_MAX_PENDING) status = finish_oldest(device);
    device->pending[device->pending_count++] = commands;
    return status;
}

gk_status gkmtl_sync(gk_device *device) {
    gk_status status = gkmtl_alive(device);
    while (device->pending_count != 0) {
        /* Waits for all of them, also after a failure, because they use the device's buffers. Reports the first
         * failure. */
        char first[sizeof device->error];
        memcpy(first, device->error, sizeof first);
        const gk_status next = finish_oldest(device);
        if (status != GK_OK) memcpy(device->error, first, sizeof first);
        else status = next;
    }
    return status;
}
