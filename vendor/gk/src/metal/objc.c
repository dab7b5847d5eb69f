/* Messages to Objective-C objects through objc_msgSend, each cast to the type of the method: on ARM64 a variadic
 * call would pass the arguments elsewhere. The types were checked against the published interface of Metal. */
#include "objc.h"

#if defined(__APPLE__) || defined(GKMTL_EMULATED)
#include <dlfcn.h>
#endif

#if defined(GKMTL_EMULATED) /* tests: one library in place of all of them */
static const char *const LIBRARIES[] = {GKMTL_EMULATED};
#elif defined(__APPLE__)
/* CoreGraphics: without it a program without windows gets no default device. */
static const char *const LIBRARIES[] = {
    "/usr/lib/libobjc.A.dylib",
    "/System/Library/Frameworks/Foundation.framework/Foundation",
    "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
    "/System/Library/Frameworks/Metal.framework/Metal",
};
#endif

/* ---- opening ---- */

#if defined(__APPLE__) || defined(GKMTL_EMULATED)

enum { LIBRARY_COUNT = sizeof LIBRARIES / sizeof *LIBRARIES };

static bool open_libraries(gkmtl_api *api, char *why, size_t why_capacity) {
    for (int n = 0; n < LIBRARY_COUNT; n++) {
        api->libraries[n] = dlopen(LIBRARIES[n], RTLD_NOW | RTLD_LOCAL);
        if (api->libraries[n] != NULL) continue;
        const char *text = dlerror();
        gk_text(why, why_capacity, "no Metal: %s", text != NULL ? text : LIBRARIES[n]);
        return false;
    }
    return true;
}

/* Copies the address of a function to *out, which has the size of a pointer. ISO C has no cast from an object
 * pointer to a function pointer. */
static bool find_function(const gkmtl_api *api, const char *name, void *out) {
    void *symbol = NULL;
    for (int n = 0; n < LIBRARY_COUNT && symbol == NULL; n++) symbol = dlsym(api->libraries[n], name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static const char *find_all(gkmtl_api *api) {
    if (!find_function(api, "objc_getClass", &api->get_class)) return "objc_getClass";
    if (!find_function(api, "sel_registerName", &api->register_name)) return "sel_registerName";
    if (!find_function(api, "objc_msgSend", &api->send)) return "objc_msgSend";
    if (!find_function(api, "objc_autoreleasePoolPush", &api->pool_push)) return "objc_autoreleasePoolPush";
    if (!find_function(api, "objc_autoreleasePoolPop", &api->pool_pop)) return "objc_autoreleasePoolPop";
    if (!find_function(api, "MTLCreateSystemDefaultDevice", &api->default_device)) return "MTLCreateSystemDefaultDevice";
    (void)find_function(api, "MTLCopyAllDevices", &api->copy_all_devices);
#define REGISTER(name, selector) api->on.name = api->register_name(selector);
    GKMTL_SELECTORS(REGISTER)
#undef REGISTER
    api->string_class = api->get_class("NSString");
    if (api->string_class == NULL) return "NSString";
    api->options_class = api->get_class("MTLCompileOptions");
    return api->options_class == NULL ? "MTLCompileOptions" : NULL;
}

gk_status gkmtl_api_open(gkmtl_api *api, char *why, size_t why_capacity) {
    *api = (gkmtl_api){.send = NULL};
    if (!open_libraries(api, why, why_capacity)) {
        gkmtl_api_close(api);
        return GK_NO_DRIVER;
    }
    const char *missing = find_all(api);
    if (missing == NULL) return GK_OK;
    gk_text(why, why_capacity, "this system's Metal has no `%s`", missing);
    gkmtl_api_close(api);
    return GK_TOO_OLD;
}

void gkmtl_api_close(gkmtl_api *api) {
    for (size_t n = 0; n < sizeof api->libraries / sizeof *api->libraries; n++) {
        if (api->libraries[n] != NULL) (void)dlclose(api->libraries[n]);
    }
    *api = (gkmtl_api){.send = NULL};
}

#else

gk_status gkmtl_api_open(gkmtl_api *api, char *why, size_t why_capacity) {
    *api = (gkmtl_api){.send = NULL};
    gk_text(why, why_capacity, "Metal is only available on Apple systems");
    return GK_NO_DRIVER;
}

void gkmtl_api_close(gkmtl_api *api) { *api = (gkmtl_api){.send = NULL}; }

#endif

/* ---- messages ---- */

typedef void (*send_void)(gkmtl_id, void *);
typedef gkmtl_id (*send_id)(gkmtl_id, void *);
typedef void *(*send_pointer)(gkmtl_id, void *);
typedef uintptr_t (*send_long)(gkmtl_id, void *); /* NSUInteger */
typedef signed char (*send_bool)(gkmtl_id, void *);   /* BOOL: one byte on every architecture */
typedef signed char (*send_bool_pointer)(gkmtl_id, void *, void *);
typedef signed char (*send_bool_long)(gkmtl_id, void *, intptr_t);
typedef void (*send_void_bool)(gkmtl_id, void *, signed char);
typedef void (*send_void_long)(gkmtl_id, void *, intptr_t);
typedef void (*send_void_id)(gkmtl_id, void *, gkmtl_id);
typedef gkmtl_id (*send_id_text)(gkmtl_id, void *, const char *);
typedef gkmtl_id (*send_id_id)(gkmtl_id, void *, gkmtl_id);
typedef gkmtl_id (*send_id_long)(gkmtl_id, void *, uintptr_t);
typedef gkmtl_id (*send_id_long_long)(gkmtl_id, void *, uintptr_t, uintptr_t);
typedef gkmtl_id (*send_id_id_error)(gkmtl_id, void *, gkmtl_id, gkmtl_id *);
typedef gkmtl_id (*send_id_id_id_error)(gkmtl_id, void *, gkmtl_id, gkmtl_id, gkmtl_id *);
typedef void (*send_set_buffer)(gkmtl_id, void *, gkmtl_id, uintptr_t, uintptr_t);
typedef void (*send_set_bytes)(gkmtl_id, void *, const void *, uintptr_t, uintptr_t);
typedef void (*send_dispatch)(gkmtl_id, void *, gkmtl_size, gkmtl_size);



/* SEND(type)(object, selector, arguments) */
#define SEND(type) ((type)api->send)

static bool answers(const gkmtl_api *api, gkmtl_id object, void *selector) {
    return SEND(send_bool_pointer)(object, api->on.respondsToSelector, selector) != 0;
}

/* A message that older systems may not support: returns `otherwise` there. */
static uint64_t number_of(const gkmtl_api *api, gkmtl_id object, void *selector, uint64_t otherwise) {
    return answers(api, object, selector) ? SEND(send_long)(object, selector) : otherwise;
}

static bool flag_of(const gkmtl_api *api, gkmtl_id object, void *selector) {
    return answers(api, object, selector) && SEND(send_bool)(object, selector) != 0;
}

static gkmtl_id string_of(const gkmtl_api *api, const char *text) {
    return SEND(send_id_text)(api->string_class, api->on.stringWithUTF8String, text);
}

static void copy_text(const gkmtl_api *api, gkmtl_id string, char *out, size_t capacity) {
    const char *text = string != NULL ? SEND(send_pointer)(string, api->on.utf8String) : NULL;
    gk_text(out, capacity, "%s", text != NULL ? text : "");
}

static void describe(const gkmtl_api *api, gkmtl_id error, const char *otherwise, char *out, size_t capacity) {
    gk_text(out, capacity, "%s", otherwise);
    if (error == NULL) return;
    gkmtl_id text = SEND(send_id)(error, api->on.localizedDescription);
    if (text != NULL) copy_text(api, text, out, capacity);
}

void *gkmtl_pool_push(const gkmtl_api *api) { return api->pool_push(); }
void gkmtl_pool_pop(const gkmtl_api *api, void *pool) { api->pool_pop(pool); }

void gkmtl_release_object(const gkmtl_api *api, gkmtl_id object) {
    if (object != NULL) SEND(send_void)(object, api->on.release);
}

/* ---- devices ---- */

gkmtl_id gkmtl_new_devices(const gkmtl_api *api, gkmtl_id *single) {
    *single = NULL;
    gkmtl_id all = api->copy_all_devices != NULL ? api->copy_all_devices() : NULL;
    if (all != NULL && SEND(send_long)(all, api->on.count) != 0) return all;
    gkmtl_release_object(api, all);
    *single = api->default_device();
    return NULL;
}

uint64_t gkmtl_count(const gkmtl_api *api, gkmtl_id array) { return SEND(send_long)(array, api->on.count); }

gkmtl_id gkmtl_new_element(const gkmtl_api *api, gkmtl_id array, uint64_t index) {
    gkmtl_id element = SEND(send_id_long)(array, api->on.objectAtIndex, (uintptr_t)index);
    return SEND(send_id)(element, api->on.retain);
}

/* MTLGPUFamilyApple1 is 1001. */
static uint32_t family_of(const gkmtl_api *api, gkmtl_id device) {
    enum { FIRST = 1000, NEWEST = 20 };
    if (!answers(api, device, api->on.supportsFamily)) return 0;
    for (uint32_t family = NEWEST; family > 0; family--) {
        if (SEND(send_bool_long)(device, api->on.supportsFamily, FIRST + (intptr_t)family) != 0) return family;
    }
    return 0;
}

void gkmtl_facts_of(const gkmtl_api *api, gkmtl_id device, gkmtl_facts *out) {
    void *pool = api->pool_push();
    *out = (gkmtl_facts){.family = family_of(api, device)};
    copy_text(api, SEND(send_id)(device, api->on.name), out->name, sizeof out->name);
    gkmtl_id process_class = api->get_class("NSProcessInfo");
    gkmtl_id process = process_class != NULL ? SEND(send_id)(process_class, api->on.processInfo) : NULL;
    if (process != NULL) copy_text(api, SEND(send_id)(process, api->on.operatingSystemVersionString), out->system, sizeof out->system);
    out->unified = flag_of(api, device, api->on.hasUnifiedMemory);
    out->low_power = flag_of(api, device, api->on.isLowPower);
    out->registry_id = number_of(api, device, api->on.registryID, 0);
    out->working_set = number_of(api, device, api->on.recommendedMaxWorkingSetSize, 0);
    out->allocated = number_of(api, device, api->on.currentAllocatedSize, 0);
    out->max_buffer = number_of(api, device, api->on.maxBufferLength, 256u << 20);
    out->threadgroup_memory = number_of(api, device, api->on.maxThreadgroupMemory, 16u << 10);
    api->pool_pop(pool);
}

uint64_t gkmtl_allocated(const gkmtl_api *api, gkmtl_id device) {
    return number_of(api, device, api->on.currentAllocatedSize, 0);
}

gkmtl_id gkmtl_new_queue(const gkmtl_api *api, gkmtl_id device) {
    void *pool = api->pool_push();
    gkmtl_id queue = SEND(send_id)(device, api->on.newCommandQueue);
    api->pool_pop(pool);
    return queue;
}

gkmtl_id gkmtl_new_buffer(const gkmtl_api *api, gkmtl_id device, uint64_t bytes) {
    enum { SHARED = 0 }; /* MTLResourceStorageModeShared; hazards are tracked by default */
    void *pool = api->pool_push();
    gkmtl_id buffer = SEND(send_id_long_long)(device, api->on.newBuffer, (uintptr_t)bytes, SHARED);
    api->pool_pop(pool);
    return buffer;
}

void *gkmtl_contents(const gkmtl_api *api, gkmtl_id buffer) { return SEND(send_pointer)(buffer, api->on.contents); }

/* ---- pipelines ---- */

/* Fast math would reorder sums and approximate exp and division, which the error bounds do not allow. */
static gkmtl_id new_options(const gkmtl_api *api) {
    enum { MODE_SAFE = 0, FUNCTIONS_PRECISE = 1 }; /* MTLMathMode, MTLMathFloatingPointFunctions */
    gkmtl_id options = SEND(send_id)(SEND(send_id)(api->options_class, api->on.alloc), api->on.init);
    if (options == NULL) return NULL;
    if (answers(api, options, api->on.setMathMode)) SEND(send_void_long)(options, api->on.setMathMode, MODE_SAFE);
    else SEND(send_void_bool)(options, api->on.setFastMathEnabled, 0);
    if (answers(api, options, api->on.setMathFloatingPointFunctions))
        SEND(send_void_long)(options, api->on.setMathFloatingPointFunctions, FUNCTIONS_PRECISE);
    return options;
}

gkmtl_id gkmtl_new_pipeline(const gkmtl_api *api, gkmtl_id device, const char *source, const char *name, char *error,
                            size_t capacity) {
    void *pool = api->pool_push();
    gkmtl_id failure = NULL, function = NULL, pipeline = NULL, library = NULL;
    gkmtl_id options = new_options(api), text = string_of(api, source), function_name = string_of(api, name);
    if (options != NULL && text != NULL) library = SEND(send_id_id_id_error)(device, api->on.newLibrary, text, options, &failure);
    if (library == NULL) {
        describe(api, failure, "the compiler returned nothing", error, capacity);
    } else {
        if (function_name != NULL) function = SEND(send_id_id)(library, api->on.newFunction, function_name);
        if (function == NULL) gk_text(error, capacity, "the compiled library has no such function");
    }
    if (function != NULL) {
        failure = NULL;
        pipeline = SEND(send_id_id_error)(device, api->on.newPipeline, function, &failure);
        if (pipeline == NULL) describe(api, failure, "no pipeline was created", error, capacity);
    }
    gkmtl_release_object(api, function);
    gkmtl_release_object(api, library);
    gkmtl_release_object(api, options);
    api->pool_pop(pool);
    return pipeline;
}

uint64_t gkmtl_pipeline_threads(const gkmtl_api *api, gkmtl_id pipeline) {
    return SEND(send_long)(pipeline, api->on.maxThreads);
}

uint64_t gkmtl_pipeline_width(const gkmtl_api *api, gkmtl_id pipeline) {
    return SEND(send_long)(pipeline, api->on.threadExecutionWidth);
}

/* ---- commands ---- */

gkmtl_id gkmtl_new_commands(const gkmtl_api *api, gkmtl_id queue) {
    gkmtl_id commands = SEND(send_id)(queue, api->on.commandBuffer);
    return commands != NULL ? SEND(send_id)(commands, api->on.retain) : NULL;
}

gkmtl_id gkmtl_encoder(const gkmtl_api *api, gkmtl_id commands) {
    return SEND(send_id)(commands, api->on.computeCommandEncoder);
}

void gkmtl_set_pipeline(const gkmtl_api *api, gkmtl_id encoder, gkmtl_id pipeline) {
    SEND(send_void_id)(encoder, api->on.setPipeline, pipeline);
}

void gkmtl_set_buffer(const gkmtl_api *api, gkmtl_id encoder, gkmtl_id buffer, uint64_t offset, uint32_t index) {
    SEND(send_set_buffer)(encoder, api->on.setBuffer, buffer, (uintptr_t)offset, index);
}

void gkmtl_set_bytes(const gkmtl_api *api, gkmtl_id encoder, const void *bytes, uint32_t count, uint32_t index) {
    SEND(send_set_bytes)(encoder, api->on.setBytes, bytes, count, index);
}

void gkmtl_dispatch(const gkmtl_api *api, gkmtl_id encoder, gkmtl_size groups, gkmtl_size threads) {
    SEND(send_dispatch)(encoder, api->on.dispatch, groups, threads);
}

void gkmtl_end(const gkmtl_api *api, gkmtl_id encoder) { SEND(send_void)(encoder, api->on.endEncoding); }
void gkmtl_commit(const gkmtl_api *api, gkmtl_id commands) { SEND(send_void)(commands, api->on.commit); }

uint32_t gkmtl_wait(const gkmtl_api *api, gkmtl_id commands, char *text, size_t capacity) {
    void *pool = api->pool_push();
    SEND(send_void)(commands, api->on.waitUntilCompleted);
    uint32_t status = (uint32_t)SEND(send_long)(commands, api->on.status);
    if (status == GKMTL_STATUS_ERROR) describe(api, SEND(send_id)(commands, api->on.error), "no reason was given", text, capacity);
    api->pool_pop(pool);
    return status;
}
