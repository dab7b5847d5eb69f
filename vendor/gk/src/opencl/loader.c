/* Opens the system's OpenCL loader and finds its functions. */
#include "loader.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#if defined(_WIN32)
static const char *const LIBRARIES[] = {"OpenCL.dll"};
#elif defined(__APPLE__)
static const char *const LIBRARIES[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#elif defined(__ANDROID__)
static const char *const LIBRARIES[] = {"libOpenCL.so"};
#else
static const char *const LIBRARIES[] = {"libOpenCL.so.1"};
#endif

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

/* Copies the address of a function to *out, which has the size of a pointer; false if it does not exist. ISO C has
 * no cast from an object pointer to a function pointer. */
static bool library_function(void *library, const char *name, void *out) {
#ifdef _WIN32
    FARPROC symbol = GetProcAddress((HMODULE)library, name);
#else
    void *symbol = dlsym(library, name);
#endif
    _Static_assert(sizeof symbol == sizeof(gkcl_fn_Finish), "function pointers have the size of symbols");
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

gk_status gkcl_api_open(gkcl_api *api, char *why, size_t why_capacity) {
    *api = (gkcl_api){.library = library_open(LIBRARIES[0])};
    if (api->library == NULL) {
        char error[160];
        library_error(error, sizeof error);
        gk_text(why, why_capacity, "no OpenCL loader: %s", error);
        return GK_NO_DRIVER;
    }
    const char *missing = NULL;
#define LOAD(result, name, arguments) \
    if (!library_function(api->library, "cl" #name, &api->name)) missing = "cl" #name;
    GKCL_FUNCTIONS(LOAD)
#undef LOAD
    if (missing == NULL) return GK_OK;
    gk_text(why, why_capacity, "the OpenCL loader `%s` has no `%s`: OpenCL 1.2 is required", LIBRARIES[0], missing);
    gkcl_api_close(api);
    return GK_TOO_OLD;
}

void gkcl_api_close(gkcl_api *api) {
    if (api->library != NULL) {
#ifdef _WIN32
        FreeLibrary((HMODULE)api->library);
#else
        dlclose(api->library);
#endif
    }
    *api = (gkcl_api){.library = NULL};
}

const char *gkcl_result_text(cl_int result) {
    switch (result) {
#define ROW(name) case name: return #name;
    ROW(CL_SUCCESS)
    ROW(CL_DEVICE_NOT_FOUND)
    ROW(CL_DEVICE_NOT_AVAILABLE)
    ROW(CL_COMPILER_NOT_AVAILABLE)
    ROW(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    ROW(CL_OUT_OF_RESOURCES)
    ROW(CL_OUT_OF_HOST_MEMORY)
    ROW(CL_BUILD_PROGRAM_FAILURE)
    ROW(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    ROW(CL_INVALID_VALUE)
    ROW(CL_INVALID_DEVICE)
    ROW(CL_INVALID_CONTEXT)
    ROW(CL_INVALID_COMMAND_QUEUE)
    ROW(CL_INVALID_BINARY)
    ROW(CL_INVALID_PROGRAM_EXECUTABLE)
    ROW(CL_INVALID_WORK_GROUP_SIZE)
    ROW(CL_INVALID_BUFFER_SIZE)
    ROW(CL_PLATFORM_NOT_FOUND_KHR)
#undef ROW
    default: return "an OpenCL error";
    }
}

gk_status gkcl_status_of(cl_int result) {
    switch (result) {
    case CL_SUCCESS: return GK_OK;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_INVALID_BUFFER_SIZE:
    case CL_OUT_OF_HOST_MEMORY: return GK_OUT_OF_MEMORY;
    case CL_PLATFORM_NOT_FOUND_KHR: return GK_NO_DRIVER;
    case CL_DEVICE_NOT_FOUND: return GK_NO_DEVICE;
    case CL_DEVICE_NOT_AVAILABLE: return GK_DEVICE_LOST;
    default: return GK_FAILED;
    }
}
