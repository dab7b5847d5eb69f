/* Kernels: Metal Shading Language that the system compiles when a plan first needs it. Metal has its own disk cache. */
#include "metal.h"

#include <stdlib.h>

#define GKMTL_EXTERN(name) \
    extern const unsigned char gkmtl_source_##name[]; \
    extern const size_t gkmtl_source_##name##_size;
#define GKMTL_EXTERN_KERNEL(name, helper) GKMTL_EXTERN(name)
GKMTL_EXTERN(common)
GKMTL_EXTERN(cache)
GKMTL_EXTERN(weight)
GKMTL_KERNELS(GKMTL_EXTERN_KERNEL)

static const struct {
    const char *name;
    const unsigned char *source, *helper;
    const size_t *bytes, *helper_bytes;
} KERNELS[] = {
#define GKMTL_ROW(name, helper) \
    {"gk_" #name, gkmtl_source_##name, gkmtl_source_##helper, &gkmtl_source_##name##_size, &gkmtl_source_##helper##_size},
    GKMTL_KERNELS(GKMTL_ROW)
};

static char *append(char *at, const void *text, size_t bytes) {
    memcpy(at, text, bytes);
    return at + bytes;
}

/* The complete source; the caller frees it. */
static char *source_of(const gkmtl_variant *variant) {
    char defines[256];
    const uint32_t *s = variant->special;
    gk_text(defines, sizeof defines,
            "#define WG %u\n#define S0 %u\n#define S1 %u\n#define S2 %u\n#define S3 %u\n#define S4 %u\n#define S5 %u\n",
            (unsigned)variant->threads, (unsigned)s[0], (unsigned)s[1], (unsigned)s[2], (unsigned)s[3], (unsigned)s[4], (unsigned)s[5]);
    const bool helped = KERNELS[variant->kernel].helper != gkmtl_source_common;
    const size_t helper = helped ? *KERNELS[variant->kernel].helper_bytes : 0, own = *KERNELS[variant->kernel].bytes;
    char *text = malloc(strlen(defines) + gkmtl_source_common_size + helper + own + 1);
    if (text == NULL) return NULL;
    char *at = append(text, defines, strlen(defines));
    at = append(at, gkmtl_source_common, gkmtl_source_common_size);
    at = append(at, KERNELS[variant->kernel].helper, helper);
    at = append(at, KERNELS[variant->kernel].source, own);
    *at = '\0';
    return text;
}

/* Reports the compiler error on one line that begins with the first error. */
static gk_status fail_build(gk_device *device, const gkmtl_variant *variant, char *log) {
    const char *error = strstr(log, "error:");
    for (char *c = log; *c; c++) {
        if ((unsigned char)*c < ' ') *c = ' ';
    }
    return gkmtl_fail(device, GK_FAILED, "Metal can't compile the kernel `%s`: %.300s", KERNELS[variant->kernel].name,
                      error != NULL ? error : log);
}

static gk_status compile(gk_device *device, const gkmtl_variant *variant, gkmtl_id *out) {
    char log[2048] = "";
    char *source = source_of(variant);
    if (source == NULL) return gkmtl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
    gkmtl_id pipeline =
        gkmtl_new_pipeline(&device->api, device->id, source, KERNELS[variant->kernel].name, log, sizeof log);
    free(source);
    if (pipeline == NULL) return fail_build(device, variant, log);
    const uint64_t width = gkmtl_pipeline_width(&device->api, pipeline), threads = gkmtl_pipeline_threads(&device->api, pipeline);
    if (width == GKMTL_WIDTH && threads >= variant->threads) {
        *out = pipeline;
        return GK_OK;
    }
    gkmtl_release_object(&device->api, pipeline);
    return gkmtl_fail(device, GK_TOO_OLD, "the kernel `%s` needs simdgroups of %d threads and threadgroups of %u, but this device has %llu and %llu",
                      KERNELS[variant->kernel].name, GKMTL_WIDTH, (unsigned)variant->threads, (unsigned long long)width,
                      (unsigned long long)threads);
}

gk_status gkmtl_pipeline(gk_device *device, const gkmtl_variant *variant, gkmtl_id *out) {
    for (uint32_t n = 0; n < device->program_count; n++) {
        if (memcmp(&device->programs[n].variant, variant, sizeof *variant) != 0) continue;
        *out = device->programs[n].pipeline;
        return GK_OK;
    }
    if (device->program_count == device->program_capacity) {
        const uint32_t capacity = device->program_capacity ? device->program_capacity * 2 : 32;
        gkmtl_program *grown = realloc(device->programs, capacity * sizeof *grown);
        if (grown == NULL) return gkmtl_fail(device, GK_OUT_OF_MEMORY, "out of host memory");
        device->programs = grown;
        device->program_capacity = capacity;
    }
    gk_status status = compile(device, variant, out);
    if (status == GK_OK) device->programs[device->program_count++] = (gkmtl_program){.variant = *variant, .pipeline = *out};
    return status;
}

void gkmtl_programs_close(gk_device *device) {
    for (uint32_t n = 0; n < device->program_count; n++) gkmtl_release_object(&device->api, device->programs[n].pipeline);
    free(device->programs);
}
