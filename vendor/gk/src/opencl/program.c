/* Kernels: OpenCL C that the driver compiles when a plan first needs it, and the disk cache of the binaries.
 *
 * One file for each device and driver. It contains the full identity (device, driver, sources of gk), then one entry
 * for each variant. A binary that the driver rejects is compiled again. */
#include "opencl.h"

#include <stdio.h>
#include <stdlib.h>

#include "cache_file.h"

#define GKCL_EXTERN(name) \
    extern const unsigned char gkcl_source_##name[]; \
    extern const size_t gkcl_source_##name##_size;
#define GKCL_EXTERN_KERNEL(name, helper) GKCL_EXTERN(name)
GKCL_EXTERN(common)
GKCL_EXTERN(cache)
GKCL_EXTERN(weight)
GKCL_KERNELS(GKCL_EXTERN_KERNEL)

static const struct {
    const char *name;
    const unsigned char *source, *helper;
    const size_t *bytes, *helper_bytes;
} KERNELS[] = {
#define GKCL_ROW(name, helper) \
    {"gk_" #name, gkcl_source_##name, gkcl_source_##helper, &gkcl_source_##name##_size, &gkcl_source_##helper##_size},
    GKCL_KERNELS(GKCL_ROW)
};

/* ---- the file ---- */

static const char MAGIC[8] = {'G', 'K', 'C', 'L', 'P', 'C', '0', '1'};

/* The header of the file; its entries are valid only for this owner. */
typedef struct file_owner {
    char identity[512];
    uint64_t sources;
} file_owner;

typedef struct file_entry {
    gkcl_variant variant;
    uint64_t bytes;
} file_entry;

static file_owner owner_of(const gk_device *device) {
    file_owner owner = {.sources = gk_checksum(gkcl_source_common, gkcl_source_common_size)};
    memcpy(owner.identity, device->identity, sizeof owner.identity);
    for (int n = 0; n < GKCL_KERNEL_COUNT; n++) {
        owner.sources = owner.sources * 31 + gk_checksum(KERNELS[n].source, *KERNELS[n].bytes);
        owner.sources = owner.sources * 31 + gk_checksum(KERNELS[n].helper, *KERNELS[n].helper_bytes);
    }
    return owner;
}

/* <cache_dir>/gk-opencl-<hash of the owner>.bin */
static char *make_cache_path(const file_owner *owner, const char *cache_dir) {
    size_t room = strlen(cache_dir) + 48;
    char *path = malloc(room);
    if (path != NULL) {
        gk_text(path, room, "%s/gk-opencl-%016llx.bin", cache_dir,
                (unsigned long long)gk_checksum((const uint8_t *)owner, sizeof *owner));
    }
    return path;
}

static gkcl_program *add_program(gk_device *device, const gkcl_variant *variant) {
    if (device->program_count == device->program_capacity) {
        uint32_t capacity = device->program_capacity ? device->program_capacity * 2 : 32;
        gkcl_program *grown = realloc(device->programs, capacity * sizeof *grown);
        if (grown == NULL) return NULL;
        device->programs = grown;
        device->program_capacity = capacity;
    }
    gkcl_program *program = &device->programs[device->program_count++];
    *program = (gkcl_program){.variant = *variant};
    return program;
}

/* Reads entries until one is invalid. */
static void read_entries(gk_device *device, const uint8_t *data, uint64_t bytes) {
    file_entry entry;
    while (bytes >= sizeof entry) {
        memcpy(&entry, data, sizeof entry);
        data += sizeof entry;
        bytes -= sizeof entry;
        if (entry.bytes == 0 || entry.bytes > bytes || entry.variant.kernel >= GKCL_KERNEL_COUNT) return;
        uint8_t *binary = malloc((size_t)entry.bytes);
        gkcl_program *program = binary != NULL ? add_program(device, &entry.variant) : NULL;
        if (program == NULL) {
            free(binary);
            return;
        }
        memcpy(binary, data, (size_t)entry.bytes);
        program->binary = binary;
        program->bytes = entry.bytes;
        data += entry.bytes;
        bytes -= entry.bytes;
    }
}

static void fetch_binary(gk_device *device, gkcl_program *program) {
    size_t bytes = 0;
    cl_int result = device->api.GetProgramInfo(program->handle, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL);
    if (result != CL_SUCCESS || bytes == 0) return;
    unsigned char *binary = malloc(bytes);
    if (binary == NULL) return;
    result = device->api.GetProgramInfo(program->handle, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
    if (result != CL_SUCCESS) {
        free(binary);
        return;
    }
    program->binary = binary;
    program->bytes = bytes;
}

void gkcl_programs_save(gk_device *device) {
    if (device->cache_path == NULL || !device->cache_changed || device->lost) return;
    device->cache_changed = false;
    file_owner owner = owner_of(device);
    uint64_t bytes = sizeof owner;
    for (uint32_t n = 0; n < device->program_count; n++) {
        gkcl_program *program = &device->programs[n];
        if (program->binary == NULL && program->handle != NULL) fetch_binary(device, program);
        if (program->binary != NULL) bytes += sizeof(file_entry) + program->bytes;
    }
    uint8_t *data = bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
    if (data == NULL) return;
    uint8_t *at = data;
    memcpy(at, &owner, sizeof owner);
    at += sizeof owner;
    for (uint32_t n = 0; n < device->program_count; n++) {
        const gkcl_program *program = &device->programs[n];
        if (program->binary == NULL) continue;
        file_entry entry = {.variant = program->variant, .bytes = program->bytes};
        memcpy(at, &entry, sizeof entry);
        memcpy(at + sizeof entry, program->binary, (size_t)program->bytes);
        at += sizeof entry + program->bytes;
    }
    gk_cache_write(device->cache_path, MAGIC, data, bytes);
    free(data);
}

/* ---- compiling ---- */

static void build_options(const gk_device *device, const gkcl_variant *variant, char *out, size_t capacity) {
    const uint32_t *s = variant->special;
    gk_text(out, capacity, "-cl-std=%s -cl-mad-enable -DWG=%u -DSUBGROUPS=%u -DS0=%u -DS1=%u -DS2=%u -DS3=%u -DS4=%u -DS5=%u",
            device->language, variant->workgroup, variant->subgroups, s[0], s[1], s[2], s[3], s[4], s[5]);
}

/* Reports the compiler error on one line. */
static gk_status fail_build(gk_device *device, cl_program handle, const gkcl_variant *variant, cl_int result) {
    char log[2048] = "";
    size_t bytes = 0;
    cl_int asked = device->api.GetProgramBuildInfo(handle, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
    char *all = asked == CL_SUCCESS && bytes != 0 ? calloc(bytes + 1, 1) : NULL;
    if (all != NULL && device->api.GetProgramBuildInfo(handle, device->id, CL_PROGRAM_BUILD_LOG, bytes, all, NULL) == CL_SUCCESS) {
        const char *error = strstr(all, "error");
        gk_text(log, sizeof log, "%.300s", error != NULL ? error : all);
    }
    free(all);
    for (char *c = log; *c; c++) {
        if ((unsigned char)*c < ' ') *c = ' ';
    }
    return gkcl_fail(device, gkcl_status_of(result), "the driver can't compile the kernel `%s`: %s (%d)%s%.300s",
                     KERNELS[variant->kernel].name, gkcl_result_text(result), (int)result, log[0] ? ": " : "", log);
}

static gk_status compile(gk_device *device, const gkcl_variant *variant, cl_program *out) {
    const char *sources[3] = {(const char *)gkcl_source_common};
    size_t bytes[3] = {gkcl_source_common_size};
    cl_uint count = 1;
    if (KERNELS[variant->kernel].helper != gkcl_source_common) {
        sources[count] = (const char *)KERNELS[variant->kernel].helper;
        bytes[count++] = *KERNELS[variant->kernel].helper_bytes;
    }
    sources[count] = (const char *)KERNELS[variant->kernel].source;
    bytes[count++] = *KERNELS[variant->kernel].bytes;
    cl_int result = CL_SUCCESS;
    cl_program handle = device->api.CreateProgramWithSource(device->context, count, sources, bytes, &result);
    gk_status status = gkcl_check(device, result, "clCreateProgramWithSource");
    if (status == GK_OK && handle == NULL) status = gkcl_fail(device, GK_FAILED, "clCreateProgramWithSource returned nothing");
    if (status != GK_OK) return status;
    char options[256];
    build_options(device, variant, options, sizeof options);
    result = device->api.BuildProgram(handle, 1, &device->id, options, NULL, NULL);
    if (result == CL_SUCCESS) {
        *out = handle;
        return GK_OK;
    }
    status = fail_build(device, handle, variant, result);
    device->api.ReleaseProgram(handle);
    return status;
}

/* Loads a binary from the cache; false if the driver rejects it. */
static bool load(gk_device *device, gkcl_program *program) {
    size_t bytes = (size_t)program->bytes;
    const unsigned char *binary = program->binary;
    cl_int taken = CL_INVALID_BINARY, result = CL_SUCCESS;
    cl_program handle =
        device->api.CreateProgramWithBinary(device->context, 1, &device->id, &bytes, &binary, &taken, &result);
    if (handle == NULL || result != CL_SUCCESS) return false;
    char options[256];
    build_options(device, &program->variant, options, sizeof options);
    if (taken != CL_SUCCESS || device->api.BuildProgram(handle, 1, &device->id, options, NULL, NULL) != CL_SUCCESS) {
        device->api.ReleaseProgram(handle);
        return false;
    }
    program->handle = handle;
    return true;
}

static gk_status find_program(gk_device *device, const gkcl_variant *variant, gkcl_program **out) {
    gkcl_program *program = NULL;
    for (uint32_t n = 0; n < device->program_count && program == NULL; n++) {
        if (memcmp(&device->programs[n].variant, variant, sizeof *variant) == 0) program = &device->programs[n];
    }
    if (program == NULL) program = add_program(device, variant);
    if (program == NULL) return gkcl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    *out = program;
    if (program->handle != NULL || (program->binary != NULL && load(device, program))) return GK_OK;
    free(program->binary);
    program->binary = NULL;
    device->cache_changed = true;
    return compile(device, variant, &program->handle);
}

gk_status gkcl_kernel_new(gk_device *device, const gkcl_variant *variant, cl_kernel *out) {
    *out = NULL;
    gkcl_program *program = NULL;
    gk_status status = find_program(device, variant, &program);
    if (status != GK_OK) return status;
    cl_int result = CL_SUCCESS;
    cl_kernel kernel = device->api.CreateKernel(program->handle, KERNELS[variant->kernel].name, &result);
    if (kernel != NULL && result == CL_SUCCESS) {
        *out = kernel;
        return GK_OK;
    }
    return gkcl_fail(device, result == CL_SUCCESS ? GK_FAILED : gkcl_status_of(result),
                     "the driver can't create the kernel `%s`: %s (%d)", KERNELS[variant->kernel].name,
                     gkcl_result_text(result), (int)result);
}

gk_status gkcl_set_arguments(gk_device *device, cl_kernel kernel, const cl_mem operands[6], const gkcl_arguments *all) {
    const struct {
        size_t bytes;
        const void *value;
    } values[] = {
        {sizeof(cl_mem), &operands[0]}, {sizeof(cl_mem), &operands[1]}, {sizeof(cl_mem), &operands[2]},
        {sizeof(cl_mem), &operands[3]}, {sizeof(cl_mem), &operands[4]}, {sizeof(cl_mem), &operands[5]},
        {sizeof all->at, all->at},      {sizeof all->stride, all->stride},
        {sizeof all->n, all->n},        {sizeof all->f, all->f},
        {sizeof all->flags, &all->flags},
    };
    cl_int result = CL_SUCCESS;
    for (cl_uint n = 0; n < sizeof values / sizeof *values && result == CL_SUCCESS; n++) {
        result = device->api.SetKernelArg(kernel, n, values[n].bytes, values[n].value);
    }
    return gkcl_check(device, result, "clSetKernelArg");
}

/* ---- open and close ---- */

/* Do sub-group functions compile here, and do they give correct sums? A driver that only claims support gets the
 * other kernels. */
static bool subgroups_work(gk_device *device) {
    enum { THREADS = 64 };
    gk_buffer *buffer;
    const gkcl_dispatch d = {.variant = {.kernel = GKCL_KERNEL_subgroup_test, .workgroup = THREADS, .subgroups = 1}};
    gkcl_arguments arguments = {.n = {0}};
    cl_kernel kernel;
    float answer[2] = {0};
    if (gkcl_kernel_new(device, &d.variant, &kernel) != GK_OK) return false;
    bool right = gkcl_alloc(device, sizeof answer, GK_USAGE_STAGING, &buffer) == GK_OK;
    cl_mem any = right ? buffer->handle : NULL;
    const cl_mem operands[6] = {any, any, any, any, any, device->step_block->handle};
    right = right && gkcl_set_arguments(device, kernel, operands, &arguments) == GK_OK;
    const size_t threads = THREADS;
    right = right && device->api.EnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &threads, &threads, 0, NULL, NULL) == CL_SUCCESS;
    right = right && gkcl_read(device, buffer, 0, answer, sizeof answer) == GK_OK;
    gkcl_release(device, buffer);
    device->api.ReleaseKernel(kernel);
    return right && answer[0] == THREADS * (THREADS + 1) / 2 && answer[1] == THREADS;
}

gk_status gkcl_programs_open(gk_device *device, const char *cache_dir) {
    if (cache_dir != NULL && cache_dir[0] != '\0') {
        file_owner owner = owner_of(device);
        device->cache_path = make_cache_path(&owner, cache_dir);
        if (device->cache_path == NULL) return gkcl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
        uint64_t bytes = 0;
        uint8_t *data = gk_cache_read(device->cache_path, MAGIC, &bytes);
        if (data != NULL && bytes >= sizeof owner && memcmp(data, &owner, sizeof owner) == 0) {
            read_entries(device, data + sizeof owner, bytes - sizeof owner);
        }
        free(data);
    }
    if (device->subgroups && !subgroups_work(device)) {
        device->subgroups = false;
        device->error[0] = '\0';
    }
    return gkcl_alive(device);
}

void gkcl_programs_close(gk_device *device) {
    for (uint32_t n = 0; n < device->program_count; n++) {
        if (device->programs[n].handle != NULL) device->api.ReleaseProgram(device->programs[n].handle);
        free(device->programs[n].binary);
    }
    free(device->programs);
    free(device->cache_path);
}
