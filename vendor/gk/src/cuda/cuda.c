/* The CUDA backend: the NVIDIA-specific part. The rest is in ../gpu, which ROCm shares. */
#define GK_GPU_ID "cuda"
#include "plan.h"

extern const unsigned char gk_cuda_image[]; /* fat binary made from gpu/kernels.cu */

#ifndef GK_GPU_ARCHITECTURES
#define GK_GPU_ARCHITECTURES "unknown architectures"
#endif
#ifndef GK_GPU_TOOLKIT /* "13.0" */
#define GK_GPU_TOOLKIT ""
#endif

static const char *const cuda_libraries[] = {
#ifdef _WIN32
    "nvcuda.dll",
#else
    "libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1",
#endif
    NULL};

#ifdef __linux__
/* Extracts the first word of digits and dots in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...`. */
static void cuda_parse_module_version(const char *line, char *out, size_t capacity) {
    out[0] = '\0';
    for (const char *at = line; *at && *at != '\n'; at++) {
        if (at == line || at[-1] != ' ' || *at < '0' || *at > '9') continue;
        const size_t length = strspn(at, "0123456789.");
        const char end = at[length];
        if ((end == ' ' || end == '\n' || end == '\0') && memchr(at, '.', length) && length < capacity) {
            memcpy(out, at, length);
            out[length] = '\0';
            return;
        }
    }
}
#endif

static void cuda_describe(const gpu_api *api, int device, gk_device_info *info) {
    int major = 0;
    int minor = 0;
    int integrated = 0;
    int version = 0;
    char module[64] = "";
    if (api->device_attribute(&major, GPU_ATTRIBUTE_MAJOR, device) == GPU_SUCCESS &&
        api->device_attribute(&minor, GPU_ATTRIBUTE_MINOR, device) == GPU_SUCCESS)
        gk_text(info->arch, sizeof info->arch, "sm_%d%d", major, minor);
    if (api->device_attribute(&integrated, GPU_ATTRIBUTE_INTEGRATED, device) == GPU_SUCCESS && integrated)
        info->kind = GK_KIND_INTEGRATED;
#ifdef __linux__
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file) {
        char line[256];
        if (fgets(line, sizeof line, file)) cuda_parse_module_version(line, module, sizeof module);
        (void)fclose(file);
    }
#endif
    if (api->driver_version(&version) != GPU_SUCCESS) version = 0;
    if (module[0]) gk_text(info->driver, sizeof info->driver, "%s (CUDA %d.%d)", module, version / 1000, version % 1000 / 10);
    else gk_text(info->driver, sizeof info->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

/* Explains failures with a well-known cause. */
static gk_status cuda_explain(const gpu_api *api, int result, char *why, size_t capacity) {
    const char *library = api->library;
    switch (result) {
    case GPU_STUB_LIBRARY:
        gk_text(why, capacity, "`%s` is the toolkit's stub for linking, not a driver: remove its folder from the library path", library);
        return GK_NO_DRIVER;
    case GPU_NOT_INITIALIZED:
        gk_text(why, capacity, "`%s` does not start (3): this process was forked from one that uses CUDA; start it as a separate process", library);
        return GK_FAILED;
    case GPU_NO_DEVICE:
        gk_text(why, capacity, "`%s` works, but no NVIDIA GPU answers (or `CUDA_VISIBLE_DEVICES` hides all of them)", library);
        return GK_NO_DEVICE;
    case GPU_SYSTEM_NOT_READY:
        gk_text(why, capacity, "the GPU fabric is not ready (802): start the service `nvidia-fabricmanager`");
        return GK_FAILED;
    case GPU_DRIVER_MISMATCH:
        gk_text(why, capacity, "`%s` and the loaded kernel module are of different driver versions (803): reboot", library);
        return GK_FAILED;
    case GPU_COMPAT_NOT_SUPPORTED:
        gk_text(why, capacity, "`%s` comes from a cuda-compat package, which this GPU does not support (804): remove it from the library path",
                library);
        return GK_TOO_OLD;
    case GPU_UNKNOWN:
        gk_text(why, capacity, "`%s` returned an unknown error (999): often `/dev/nvidia-uvm` is missing (run `nvidia-modprobe -u`) or a reboot is needed",
                library);
        return GK_FAILED;
    default: return GK_OK;
    }
}

/* Machine code needs a driver of the toolkit's major version or newer; PTX needs a driver as new as the toolkit. */
static void cuda_advise(const gpu_api *api, int device, int result, char *advice, size_t capacity) {
    int major = 0;
    int minor = 0;
    int version = 0;
    if (api->device_attribute(&major, GPU_ATTRIBUTE_MAJOR, device) != GPU_SUCCESS ||
        api->device_attribute(&minor, GPU_ATTRIBUTE_MINOR, device) != GPU_SUCCESS || api->driver_version(&version) != GPU_SUCCESS)
        return;
    const int driver = version / 1000 * 100 + version % 1000 / 10; /* 12.8 -> 1208 */
    int toolkit_major = 0;
    int toolkit_minor = 0;
    const int known = sscanf(GK_GPU_TOOLKIT, "%d.%d", &toolkit_major, &toolkit_minor) == 2;
    const int newer = known && driver < toolkit_major * 100 + toolkit_minor;
    switch (result) {
    case GPU_UNSUPPORTED_PTX:
    case GPU_INVALID_PTX:
    case GPU_INVALID_IMAGE:
    case GPU_INVALID_SOURCE:
    case GPU_NO_BINARY:
        if (result == GPU_UNSUPPORTED_PTX || newer)
            gk_text(advice, capacity, "the driver supports CUDA %d.%d and this GPU is sm_%d%d: update the driver, or build with CUDA %d.%d or older for `%d%d-real`",
                    driver / 100, driver % 100, major, minor, driver / 100, driver % 100, major, minor);
        else
            gk_text(advice, capacity, "this GPU is sm_%d%d: build with `CUDAARCHS=%d%d-real` or an older number", major, minor, major, minor);
        return;
    case GPU_NO_JIT:
        gk_text(advice, capacity, "the library has no machine code for sm_%d%d, and the driver's `libnvidia-ptxjitcompiler.so.1` is missing", major, minor);
        return;
    default: return;
    }
}

static const gpu_vendor vendor = {
    .driver = "the CUDA driver",
    .libraries = cuda_libraries,
    .shape = GPU_CUDA,
    .toolkit = GK_GPU_TOOLKIT[0] ? "CUDA " GK_GPU_TOOLKIT : "",
    .architectures = GK_GPU_ARCHITECTURES,
    .image = gk_cuda_image,
    .describe = cuda_describe,
    .explain = cuda_explain,
    .advise = cuda_advise,
};

#include "backend.h"

const gk_backend *gk_backend_cuda(void) { return &gpu_backend; }
