/* Platforms and devices: descriptions and requirements. Devices are numbered over all platforms. */
#include "opencl.h"

#include <stdio.h>

enum { MOST_PLATFORMS = 32, MOST_DEVICES = 64, EXTENSION_BYTES = 16384 };

typedef struct found {
    cl_platform_id platform[MOST_DEVICES];
    cl_device_id device[MOST_DEVICES];
    uint32_t count;
} found;

/* ---- queries ---- */

static void ask_text(const gkcl_api *api, cl_device_id id, cl_uint what, char *out, size_t capacity) {
    size_t bytes = 0;
    out[0] = '\0';
    if (api->GetDeviceInfo(id, what, capacity - 1, out, &bytes) != CL_SUCCESS || bytes > capacity - 1) out[0] = '\0';
    else out[bytes] = '\0';
}

static uint32_t ask_u32(const gkcl_api *api, cl_device_id id, cl_uint what) {
    cl_uint value = 0;
    return api->GetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static uint64_t ask_u64(const gkcl_api *api, cl_device_id id, cl_uint what) {
    cl_ulong value = 0;
    return api->GetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static uint64_t ask_size(const gkcl_api *api, cl_device_id id, cl_uint what) {
    size_t value = 0;
    return api->GetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static void platform_text(const gkcl_api *api, cl_platform_id platform, cl_uint what, char *out, size_t capacity) {
    size_t bytes = 0;
    out[0] = '\0';
    if (api->GetPlatformInfo(platform, what, capacity - 1, out, &bytes) != CL_SUCCESS || bytes > capacity - 1) out[0] = '\0';
    else out[bytes] = '\0';
}

/* Is `name` one of the words of `all`? */
static bool has_word(const char *all, const char *name) {
    size_t length = strlen(name);
    for (const char *at = all; (at = strstr(at, name)) != NULL; at += length) {
        bool starts = at == all || at[-1] == ' ';
        if (starts && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

/* 10 * major + minor from "OpenCL 1.2 ..." or "OpenCL C 1.2 ..."; 0 if the text has another form. */
static uint32_t version_in(const char *text) {
    unsigned major, minor;
    if (sscanf(text, "OpenCL %u.%u", &major, &minor) != 2 && sscanf(text, "OpenCL C %u.%u", &major, &minor) != 2) return 0;
    return major * 10 + minor;
}

static uint32_t kind_of(const gkcl_api *api, cl_device_id id) {
    uint64_t type = ask_u64(api, id, CL_DEVICE_TYPE);
    if (type & CL_DEVICE_TYPE_CPU) return GK_KIND_SOFTWARE;
    return ask_u32(api, id, CL_DEVICE_HOST_UNIFIED_MEMORY) ? GK_KIND_INTEGRATED : GK_KIND_DISCRETE;
}

/* ---- listing ---- */

static void add_devices(const gkcl_api *api, cl_platform_id platform, found *out) {
    const cl_bitfield types = CL_DEVICE_TYPE_CPU | CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR;
    cl_uint count = 0, room = MOST_DEVICES - out->count;
    if (room == 0) return;
    /* CL_DEVICE_NOT_FOUND is a platform without devices; any other error excludes only this platform. */
    if (api->GetDeviceIDs(platform, types, room, out->device + out->count, &count) != CL_SUCCESS) return;
    for (cl_uint n = 0; n < count && n < room; n++) out->platform[out->count++] = platform;
}

static gk_status list_devices(const gkcl_api *api, found *out, char *why, size_t why_capacity) {
    cl_platform_id platforms[MOST_PLATFORMS];
    cl_uint count = 0;
    *out = (found){.count = 0};
    cl_int result = api->GetPlatformIDs(MOST_PLATFORMS, platforms, &count);
    if (result == CL_PLATFORM_NOT_FOUND_KHR || (result == CL_SUCCESS && count == 0)) {
        gk_text(why, why_capacity, "the OpenCL loader is installed, but found no working driver (ICD)");
        return GK_NO_DRIVER;
    }
    if (result != CL_SUCCESS) {
        gk_text(why, why_capacity, "clGetPlatformIDs failed: %s (%d)", gkcl_result_text(result), (int)result);
        return gkcl_status_of(result);
    }
    for (cl_uint n = 0; n < count && n < MOST_PLATFORMS; n++) add_devices(api, platforms[n], out);
    if (out->count != 0) return GK_OK;
    char name[128];
    platform_text(api, platforms[0], CL_PLATFORM_NAME, name, sizeof name);
    gk_text(why, why_capacity, "the OpenCL drivers on this machine offer no device (%u platform%s, the first is `%s`)",
            (unsigned)count, count == 1 ? "" : "s", name);
    return GK_NO_DEVICE;
}

static void describe_bus(const gkcl_api *api, cl_device_id id, const char *extensions, gk_device_info *out) {
    if (has_word(extensions, "cl_khr_pci_bus_info")) {
        cl_uint bus[4] = {0};
        if (api->GetDeviceInfo(id, CL_DEVICE_PCI_BUS_INFO_KHR, sizeof bus, bus, NULL) == CL_SUCCESS) {
            gk_text(out->pci, sizeof out->pci, "%04x:%02x:%02x.%x", bus[0] & 0xffffu, bus[1] & 0xffu, bus[2] & 0xffu,
                    bus[3] & 0xfu);
        }
    }
    if (has_word(extensions, "cl_khr_device_uuid") &&
        api->GetDeviceInfo(id, CL_DEVICE_UUID_KHR, sizeof out->uuid, out->uuid, NULL) != CL_SUCCESS) {
        memset(out->uuid, 0, sizeof out->uuid);
    }
    if (has_word(extensions, "cl_nv_device_attribute_query")) {
        gk_text(out->arch, sizeof out->arch, "sm_%u%u", (unsigned)ask_u32(api, id, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV),
                (unsigned)ask_u32(api, id, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV));
    }
}

static uint64_t free_bytes_of(const gkcl_api *api, cl_device_id id, bool of_amd, uint64_t total, uint64_t allocated) {
    size_t kib[2] = {0};
    if (of_amd && api->GetDeviceInfo(id, CL_DEVICE_GLOBAL_FREE_MEMORY_AMD, sizeof kib, kib, NULL) == CL_SUCCESS) {
        return (uint64_t)kib[0] * 1024;
    }
    /* OpenCL does not report memory that other processes use. */
    return total > allocated ? total - allocated : 0;
}

static void describe(const gkcl_api *api, cl_platform_id platform, cl_device_id id, gk_device_info *out) {
    char extensions[EXTENSION_BYTES];
    char name[64], version[64];
    *out = (gk_device_info){.kind = kind_of(api, id)};
    ask_text(api, id, CL_DEVICE_NAME, out->name, sizeof out->name);
    platform_text(api, platform, CL_PLATFORM_NAME, name, sizeof name);
    ask_text(api, id, CL_DRIVER_VERSION, version, sizeof version);
    gk_text(out->driver, sizeof out->driver, "%.40s%s%.54s", name, version[0] ? " " : "", version);
    ask_text(api, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    describe_bus(api, id, extensions, out);
    out->memory_total = ask_u64(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    out->memory_free = free_bytes_of(api, id, has_word(extensions, "cl_amd_device_attribute_query"), out->memory_total, 0);
    out->max_buffer = ask_u64(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
}

gk_status gkcl_enumerate(gk_device_info *out, int capacity, int *count, char *why, size_t why_capacity) {
    gk_text(why, why_capacity, "%s", "");
    if (count == NULL || capacity < 0 || (out == NULL && capacity != 0)) {
        gk_text(why, why_capacity, "enumerate: bad arguments");
        return GK_BAD_ARGUMENT;
    }
    *count = 0;
    gkcl_api api;
    gk_status status = gkcl_api_open(&api, why, why_capacity);
    if (status != GK_OK) return status;
    found all;
    status = list_devices(&api, &all, why, why_capacity);
    if (status == GK_OK) {
        *count = (int)all.count;
        for (uint32_t n = 0; n < all.count && n < (uint32_t)capacity; n++) {
            describe(&api, all.platform[n], all.device[n], &out[n]);
        }
    }
    gkcl_api_close(&api);
    return status;
}

/* ---- one device ---- */

/* A feature that the kernels need and the device lacks, or NULL. */
static const char *missing_feature(const gk_device *device, const char *profile) {
    const gkcl_api *api = &device->api;
    if (!ask_u32(api, device->id, CL_DEVICE_AVAILABLE)) return "availability";
    if (!ask_u32(api, device->id, CL_DEVICE_COMPILER_AVAILABLE)) return "a compiler";
    if (!ask_u32(api, device->id, CL_DEVICE_ENDIAN_LITTLE)) return "little-endian memory";
    if (strcmp(profile, "FULL_PROFILE") != 0) return "the full profile";
    if (device->max_threads < 64) return "work-groups of 64 work-items";
    if (device->local_bytes < 16384) return "16 KiB of local memory";
    return NULL;
}

static void gather(gk_device *device) {
    const gkcl_api *api = &device->api;
    cl_device_id id = device->id;
    char extensions[EXTENSION_BYTES];
    char platform[96], name[128], version[96], driver[96];
    uint64_t threads = ask_size(api, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    device->max_threads = threads < GKCL_MAX_WORKGROUP ? (uint32_t)threads : GKCL_MAX_WORKGROUP;
    device->compute_units = ask_u32(api, id, CL_DEVICE_MAX_COMPUTE_UNITS);
    if (device->compute_units == 0) device->compute_units = 1;
    device->local_bytes = ask_u64(api, id, CL_DEVICE_LOCAL_MEM_SIZE);
    device->max_buffer = ask_u64(api, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    device->total = ask_u64(api, id, CL_DEVICE_GLOBAL_MEM_SIZE);
    device->kind = kind_of(api, id);
    device->cpu = device->kind == GK_KIND_SOFTWARE && !GKCL_AS_GPU;
    ask_text(api, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    device->free_of_amd = has_word(extensions, "cl_amd_device_attribute_query");
    device->subgroups = !GKCL_NO_SUBGROUPS &&
                        (has_word(extensions, "cl_khr_subgroups") || has_word(extensions, "cl_intel_subgroups"));
    /* Sub-group functions came with OpenCL C 2.0; Intel's extension provides them in 1.2. */
    ask_text(api, id, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version);
    uint32_t c = version_in(version);
    gk_text(device->language, sizeof device->language, "%s",
            !device->subgroups || c < 20 ? "CL1.2" : c >= 30 ? "CL3.0" : "CL2.0");
    platform_text(api, device->platform, CL_PLATFORM_VERSION, platform, sizeof platform);
    ask_text(api, id, CL_DEVICE_NAME, name, sizeof name);
    ask_text(api, id, CL_DEVICE_VERSION, version, sizeof version);
    ask_text(api, id, CL_DRIVER_VERSION, driver, sizeof driver);
    gk_text(device->identity, sizeof device->identity, "%s|%s|%s|%s|%u", platform, name, version, driver,
            (unsigned)device->cpu);
}

gk_status gkcl_pick_device(gk_device *device, int index, char *why, size_t why_capacity) {
    found all;
    gk_status status = list_devices(&device->api, &all, why, why_capacity);
    if (status != GK_OK) return status;
    if (index < 0 || (uint32_t)index >= all.count) {
        gk_text(why, why_capacity, "OpenCL device %d does not exist: this machine has %u", index, (unsigned)all.count);
        return GK_BAD_ARGUMENT;
    }
    device->platform = all.platform[index];
    device->id = all.device[index];
    char name[128], version[96], profile[32];
    ask_text(&device->api, device->id, CL_DEVICE_NAME, name, sizeof name);
    ask_text(&device->api, device->id, CL_DEVICE_VERSION, version, sizeof version);
    ask_text(&device->api, device->id, CL_DEVICE_PROFILE, profile, sizeof profile);
    if (version_in(version) < 12) {
        gk_text(why, why_capacity, "`%.100s` supports `%.40s`, but OpenCL 1.2 is required: install a newer driver", name, version);
        return GK_TOO_OLD;
    }
    gather(device);
    const char *missing = missing_feature(device, profile);
    if (missing == NULL) return GK_OK;
    gk_text(why, why_capacity, "`%.100s` lacks a feature that the kernels need: %s", name, missing);
    return GK_TOO_OLD;
}

gk_status gkcl_memory(gk_device *device, uint64_t *free_bytes, uint64_t *total_bytes) {
    if (total_bytes != NULL) *total_bytes = device->total;
    if (free_bytes != NULL) {
        *free_bytes = free_bytes_of(&device->api, device->id, device->free_of_amd, device->total, device->allocated);
    }
    return GK_OK;
}
