/* Opens the system's Vulkan loader, creates an instance, and finds functions. */
#include "loader.h"

#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#undef CreateSemaphore /* a macro in Windows headers, a member of the table here */
#else
#include <dlfcn.h>
#endif

#if defined(_WIN32)
static const char *const LIBRARIES[] = {"vulkan-1.dll"};
#elif defined(__APPLE__)
static const char *const LIBRARIES[] = {"libvulkan.1.dylib", "/usr/local/lib/libvulkan.1.dylib",
                                        "/opt/homebrew/lib/libvulkan.1.dylib", "libMoltenVK.dylib",
                                        "/opt/homebrew/lib/libMoltenVK.dylib"};
#else
static const char *const LIBRARIES[] = {"libvulkan.so.1"};
#endif
enum { LIBRARY_COUNT = sizeof LIBRARIES / sizeof LIBRARIES[0] };

static void *library_open(const char *name) {
#ifdef _WIN32
    return (void *)LoadLibraryA(name);
#else
    int mode = RTLD_NOW | RTLD_LOCAL;
#ifdef RTLD_NODELETE
    mode |= RTLD_NODELETE; /* not all drivers survive being unloaded */
#endif
    return dlopen(name, mode);
#endif
}

/* Why the last library_open failed. */
static void library_error(char *out, size_t capacity) {
#ifdef _WIN32
    gk_text(out, capacity, "`%s` can't be loaded (error %lu)", LIBRARIES[0], (unsigned long)GetLastError());
#else
    const char *text = dlerror(); /* contains the file name; the file is missing or unusable */
    gk_text(out, capacity, "%s", text != NULL ? text : LIBRARIES[0]);
#endif
}

static void library_close(void *library) {
#ifdef _WIN32
    FreeLibrary((HMODULE)library);
#else
    dlclose(library);
#endif
}

static PFN_vkGetInstanceProcAddr library_entry(void *library) {
    PFN_vkGetInstanceProcAddr entry = NULL;
#ifdef _WIN32
    FARPROC symbol = GetProcAddress((HMODULE)library, "vkGetInstanceProcAddr");
#else
    void *symbol = dlsym(library, "vkGetInstanceProcAddr");
#endif
    _Static_assert(sizeof entry == sizeof symbol, "function pointers have the size of symbols");
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object pointer to a function pointer */
    return entry;
}

const char *gkv_result_text(VkResult result) {
    switch ((int)result) {
    case VK_SUCCESS: return "VK_SUCCESS";
    case VK_NOT_READY: return "VK_NOT_READY";
    case VK_TIMEOUT: return "VK_TIMEOUT";
    case VK_INCOMPLETE: return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY: return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED: return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST: return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED: return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT: return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT: return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT: return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER: return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS: return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_UNKNOWN: return "VK_ERROR_UNKNOWN";
    case VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS: return "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS";
    default: return "an unknown VkResult";
    }
}

gk_status gkv_status_of(VkResult result) {
    switch ((int)result) {
    case VK_SUCCESS: return GK_OK;
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_TOO_MANY_OBJECTS: return GK_OUT_OF_MEMORY;
    case VK_ERROR_DEVICE_LOST: return GK_DEVICE_LOST;
    case VK_ERROR_FEATURE_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT: return GK_TOO_OLD;
    default: return GK_FAILED;
    }
}

static bool has_instance_extension(const gkv_api *api, const char *name) {
    PFN_vkEnumerateInstanceExtensionProperties list = (PFN_vkEnumerateInstanceExtensionProperties)
        api->GetInstanceProcAddr(NULL, "vkEnumerateInstanceExtensionProperties");
    uint32_t count = 0;
    if (list == NULL || list(NULL, &count, NULL) != VK_SUCCESS || count == 0) return false;
    VkExtensionProperties *all = calloc(count, sizeof *all);
    bool found = false;
    if (all != NULL && list(NULL, &count, all) >= VK_SUCCESS) {
        for (uint32_t n = 0; n < count && !found; n++) found = strcmp(all[n].extensionName, name) == 0;
    }
    free(all);
    return found;
}

static gk_status open_library(gkv_api *api, char *why, size_t why_capacity) {
    char error[160] = "";
    for (int n = 0; n < (int)LIBRARY_COUNT && api->library == NULL; n++) {
        api->library = library_open(LIBRARIES[n]);
        if (api->library == NULL && n == 0) library_error(error, sizeof error);
    }
    if (api->library == NULL) {
        gk_text(why, why_capacity, "no Vulkan loader: %s", error);
        return GK_NO_DRIVER;
    }
    api->GetInstanceProcAddr = library_entry(api->library);
    if (api->GetInstanceProcAddr == NULL) {
        gk_text(why, why_capacity, "the Vulkan loader `%s` has no `vkGetInstanceProcAddr`", LIBRARIES[0]);
        return GK_NO_DRIVER;
    }
    return GK_OK;
}

static gk_status make_instance(gkv_api *api, char *why, size_t why_capacity) {
    PFN_vkEnumerateInstanceVersion version_of =
        (PFN_vkEnumerateInstanceVersion)api->GetInstanceProcAddr(NULL, "vkEnumerateInstanceVersion");
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)api->GetInstanceProcAddr(NULL, "vkCreateInstance");
    uint32_t version = VK_API_VERSION_1_0;
    if (create == NULL) {
        gk_text(why, why_capacity, "the Vulkan loader has no `vkCreateInstance`");
        return GK_NO_DRIVER;
    }
    if (version_of == NULL || version_of(&version) != VK_SUCCESS || version < VK_API_VERSION_1_2) {
        gk_text(why, why_capacity, "the Vulkan loader has version %u.%u, but 1.2 is required",
                (unsigned)VK_API_VERSION_MAJOR(version), (unsigned)VK_API_VERSION_MINOR(version));
        return GK_TOO_OLD;
    }
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "gk",
                                     .apiVersion = VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    static const char *const portability[] = {VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
    if (has_instance_extension(api, portability[0])) { /* MoltenVK is hidden otherwise */
        info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
        info.enabledExtensionCount = 1;
        info.ppEnabledExtensionNames = portability;
    }
    VkResult result = create(&info, NULL, &api->instance);
    if (result == VK_SUCCESS) return GK_OK;
    api->instance = VK_NULL_HANDLE;
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
        gk_text(why, why_capacity, "the Vulkan loader is installed, but found no working driver (ICD): %s (%d)",
                gkv_result_text(result), (int)result);
        return GK_NO_DRIVER;
    }
    gk_text(why, why_capacity, "vkCreateInstance failed: %s (%d)", gkv_result_text(result), (int)result);
    return result == VK_ERROR_OUT_OF_HOST_MEMORY ? GK_OUT_OF_MEMORY : GK_NO_DRIVER;
}

gk_status gkv_api_open(gkv_api *api, char *why, size_t why_capacity) {
    *api = (gkv_api){.library = NULL};
    gk_status status = open_library(api, why, why_capacity);
    if (status == GK_OK) status = make_instance(api, why, why_capacity);
    if (status != GK_OK) {
        gkv_api_close(api);
        return status;
    }
    const char *missing = NULL;
#define LOAD(name) \
    api->name = (PFN_vk##name)api->GetInstanceProcAddr(api->instance, "vk" #name); \
    if (api->name == NULL) missing = "vk" #name;
    GKV_INSTANCE_FUNCTIONS(LOAD)
#undef LOAD
    if (missing == NULL) return GK_OK;
    gk_text(why, why_capacity, "the Vulkan loader has no `%s`", missing);
    gkv_api_close(api);
    return GK_TOO_OLD;
}

void gkv_api_close(gkv_api *api) {
    if (api->instance != VK_NULL_HANDLE && api->DestroyInstance != NULL) api->DestroyInstance(api->instance, NULL);
    if (api->library != NULL) library_close(api->library);
    *api = (gkv_api){.library = NULL};
}

bool gkv_api_load_device(gkv_api *api, VkDevice device, const char **missing) {
    *missing = NULL;
#define LOAD(name) \
    api->name = (PFN_vk##name)api->GetDeviceProcAddr(device, "vk" #name); \
    if (api->name == NULL) *missing = "vk" #name;
    GKV_DEVICE_FUNCTIONS(LOAD)
#undef LOAD
    return *missing == NULL;
}
