/* The ROCm backend: the AMD-specific part. The rest is in ../gpu, which CUDA shares. */
#define GK_GPU_ID "rocm"
#include "plan.h"

#ifdef __linux__
#include <unistd.h>

#include "kfd.h"
#endif

extern const unsigned char gk_rocm_image[]; /* bundle of code objects made from gpu/kernels.cu */

#ifndef GK_GPU_ARCHITECTURES
#define GK_GPU_ARCHITECTURES "unknown architectures"
#endif
#ifndef GK_GPU_TOOLKIT /* "5.2" */
#define GK_GPU_TOOLKIT ""
#endif

/* The number in the name is HIP's major version. All versions have the functions that are used here. */
static const char *const rocm_libraries[] = {
#ifdef _WIN32
    "amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll",
#else
    "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", "/opt/rocm/lib/libamdhip64.so",
#endif
    NULL};

static void rocm_describe(const gpu_api *api, int device, gk_device_info *info) {
    int version = 0;
    (void)device;
    if (!api->runtime_version || api->runtime_version(&version) != GPU_SUCCESS)
        if (api->driver_version(&version) != GPU_SUCCESS) version = 0;
    gk_text(info->driver, sizeof info->driver, "HIP %d.%d.%d", version / 10000000, version / 100000 % 100, version % 100000);
#ifdef __linux__
    kfd_describe(info);
#endif
}

static gk_status rocm_explain(const gpu_api *api, int result, char *why, size_t capacity) {
    if (result != GPU_NO_DEVICE && result != GPU_INVALID_DEVICE && result != GPU_NO_DRIVER_INSTALLED) return GK_OK;
#ifdef __linux__
    if (access("/dev/kfd", F_OK) != 0) {
        gk_text(why, capacity, "`%s` works, but `/dev/kfd` is missing: no AMD GPU, or the kernel module `amdgpu` is not loaded", api->library);
        return GK_NO_DEVICE;
    }
    if (access("/dev/kfd", R_OK | W_OK) != 0) {
        gk_text(why, capacity, "this user may not open `/dev/kfd`: join the groups `render` and `video`, then log in again");
        return GK_NO_DEVICE;
    }
#endif
    gk_text(why, capacity, "`%s` works, but no supported AMD GPU answers (or `HIP_VISIBLE_DEVICES` hides all of them)", api->library);
    return GK_NO_DEVICE;
}

/* A code object is for one architecture; HIP has no counterpart to PTX. */
static void rocm_advise(const gpu_api *api, int device, int result, char *advice, size_t capacity) {
    gk_device_info info;
    memset(&info, 0, sizeof info);
    if (result != GPU_NO_BINARY && result != GPU_INVALID_IMAGE && result != GPU_INVALID_PTX) return;
    if (api->device_pci(info.pci, (int)sizeof info.pci, device) != GPU_SUCCESS) return;
    gpu_lower(info.pci, sizeof info.pci);
#ifdef __linux__
    kfd_describe(&info);
#endif
    if (info.arch[0]) gk_text(advice, capacity, "this GPU is %s: build with `GPU_TARGETS=%s`, or use the vulkan backend", info.arch, info.arch);
    else gk_text(advice, capacity, "the library has no code for this GPU: build for its architecture, or use the vulkan backend");
}

static const gpu_vendor vendor = {
    .driver = "the HIP runtime",
    .libraries = rocm_libraries,
    .shape = GPU_HIP,
    .toolkit = GK_GPU_TOOLKIT[0] ? "HIP " GK_GPU_TOOLKIT : "",
    .architectures = GK_GPU_ARCHITECTURES,
    .image = gk_rocm_image,
    .describe = rocm_describe,
    .explain = rocm_explain,
    .advise = rocm_advise,
};

#include "backend.h"

const gk_backend *gk_backend_rocm(void) { return &gpu_backend; }
