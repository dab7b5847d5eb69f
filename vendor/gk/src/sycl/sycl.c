/* The SYCL backend: the SYCL-specific part. The rest is in ../gpu, which CUDA and ROCm share; the driver that it
 * opens is gk's own library over SYCL's runtime, built from driver.cpp. */
#define GK_GPU_ID "sycl"
#include "plan.h"

#ifndef GK_GPU_TOOLKIT /* "9.0" */
#define GK_GPU_TOOLKIT ""
#endif

static const char *const sycl_libraries[] = {
#ifdef _WIN32
    "gk-sycl-driver.dll",
#else
    "libgk-sycl-driver.so", /* in the program's folder, through its run path */
#endif
    NULL};

static void sycl_describe(const gpu_api *api, int device, gk_device_info *info) {
    int value = 0;
    if (api->device_driver(info->driver, (int)sizeof info->driver, device) != GPU_SUCCESS) info->driver[0] = '\0';
    if (api->device_attribute(&value, GPU_ATTRIBUTE_INTEGRATED, device) == GPU_SUCCESS && value) info->kind = GK_KIND_INTEGRATED;
    if (api->device_attribute(&value, GPU_ATTRIBUTE_PROCESSOR, device) == GPU_SUCCESS && value) info->kind = GK_KIND_SOFTWARE;
}

static gk_status sycl_explain(const gpu_api *api, int result, char *why, size_t capacity) {
    if (result != GPU_NO_DEVICE) return GK_OK;
    gk_text(why, capacity, "%s", gpu_result_text(api, result));
    return GK_NO_DEVICE;
}

static void sycl_advise(const gpu_api *api, int device, int result, char *advice, size_t capacity) {
    (void)api;
    (void)device;
    (void)result;
    gk_text(advice, capacity, "the device's driver rejected the SPIR-V: update it, or use the vulkan or opencl backend");
}

static const gpu_vendor vendor = {
    .driver = "gk's SYCL driver",
    .libraries = sycl_libraries,
    .shape = GPU_SYCL,
    .toolkit = GK_GPU_TOOLKIT[0] ? "SYCL runtime " GK_GPU_TOOLKIT : "",
    .architectures = "SPIR-V",
    .describe = sycl_describe,
    .explain = sycl_explain,
    .advise = sycl_advise,
};

#include "backend.h"

const gk_backend *gk_backend_sycl(void) { return &gpu_backend; }
