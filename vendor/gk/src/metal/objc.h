/* The part of Objective-C and Metal that is used, opened at run time: no Apple headers are needed, and nothing links
 * to its frameworks. Only objc.c sends messages; these are plain functions over opaque objects.
 *
 * Ownership: functions named gkmtl_new_... return an object that the caller releases. Every other object lives until
 * the most recently pushed pool is drained, or as long as the object it was requested from. */
#ifndef GKMTL_OBJC_H
#define GKMTL_OBJC_H

#include "gk_internal.h"

typedef void *gkmtl_id; /* an object; NULL is `nil` */

/* MTLSize. It is passed by value. */
typedef struct gkmtl_size {
    uintptr_t width, height, depth;
} gkmtl_size;

/* X(name, selector) */
#define GKMTL_SELECTORS(X) \
    X(alloc, "alloc") \
    X(commandBuffer, "commandBuffer") \
    X(commit, "commit") \
    X(computeCommandEncoder, "computeCommandEncoder") \
    X(contents, "contents") \
    X(count, "count") \
    X(currentAllocatedSize, "currentAllocatedSize") \
    X(dispatch, "dispatchThreadgroups:threadsPerThreadgroup:") \
    X(endEncoding, "endEncoding") \
    X(error, "error") \
    X(hasUnifiedMemory, "hasUnifiedMemory") \
    X(init, "init") \
    X(isLowPower, "isLowPower") \
    X(localizedDescription, "localizedDescription") \
    X(maxBufferLength, "maxBufferLength") \
    X(maxThreads, "maxTotalThreadsPerThreadgroup") \
    X(maxThreadgroupMemory, "maxThreadgroupMemoryLength") \
    X(name, "name") \
    X(newBuffer, "newBufferWithLength:options:") \
    X(newCommandQueue, "newCommandQueue") \
    X(newFunction, "newFunctionWithName:") \
    X(newLibrary, "newLibraryWithSource:options:error:") \
    X(newPipeline, "newComputePipelineStateWithFunction:error:") \
    X(objectAtIndex, "objectAtIndex:") \
    X(operatingSystemVersionString, "operatingSystemVersionString") \
    X(processInfo, "processInfo") \
    X(recommendedMaxWorkingSetSize, "recommendedMaxWorkingSetSize") \
    X(registryID, "registryID") \
    X(release, "release") \
    X(respondsToSelector, "respondsToSelector:") \
    X(retain, "retain") \
    X(setBuffer, "setBuffer:offset:atIndex:") \
    X(setBytes, "setBytes:length:atIndex:") \
    X(setFastMathEnabled, "setFastMathEnabled:") \
    X(setMathFloatingPointFunctions, "setMathFloatingPointFunctions:") \
    X(setMathMode, "setMathMode:") \
    X(setPipeline, "setComputePipelineState:") \
    X(status, "status") \
    X(stringWithUTF8String, "stringWithUTF8String:") \
    X(supportsFamily, "supportsFamily:") \
    X(threadExecutionWidth, "threadExecutionWidth") \
    X(utf8String, "UTF8String") \
    X(waitUntilCompleted, "waitUntilCompleted")

typedef struct gkmtl_api {
    void *libraries[4];
    gkmtl_id (*get_class)(const char *name);
    void *(*register_name)(const char *selector);
    void (*send)(void); /* objc_msgSend: never called directly, see objc.c */
    void *(*pool_push)(void);
    void (*pool_pop)(void *pool);
    gkmtl_id (*copy_all_devices)(void); /* NULL if there is only the default device */
    gkmtl_id (*default_device)(void);
#define GKMTL_MEMBER(name, selector) void *name;
    struct {
        GKMTL_SELECTORS(GKMTL_MEMBER)
    } on;
#undef GKMTL_MEMBER
    gkmtl_id string_class, options_class;
} gkmtl_api;

/* Opens the libraries and finds their functions. On failure nothing is left open, and `why` has one line. */
gk_status gkmtl_api_open(gkmtl_api *, char *why, size_t why_capacity);
void gkmtl_api_close(gkmtl_api *);

void gkmtl_release_object(const gkmtl_api *, gkmtl_id); /* NULL is allowed */

/* ---- devices ---- */

typedef struct gkmtl_facts {
    char name[128];
    char system[96]; /* "Version 14.5 (Build 23F79)" */
    uint32_t family; /* of Apple's GPUs: 7 for the M1; 0 for others */
    bool unified, low_power;
    uint64_t registry_id, working_set, allocated, max_buffer, threadgroup_memory;
} gkmtl_facts;

/* An array, or a single device in `*single`. Both NULL: no device. */
gkmtl_id gkmtl_new_devices(const gkmtl_api *, gkmtl_id *single);
uint64_t gkmtl_count(const gkmtl_api *, gkmtl_id array);
gkmtl_id gkmtl_new_element(const gkmtl_api *, gkmtl_id array, uint64_t index);
void gkmtl_facts_of(const gkmtl_api *, gkmtl_id device, gkmtl_facts *);
uint64_t gkmtl_allocated(const gkmtl_api *, gkmtl_id device);

gkmtl_id gkmtl_new_queue(const gkmtl_api *, gkmtl_id device);
/* Shared memory; NULL if out of memory. */
gkmtl_id gkmtl_new_buffer(const gkmtl_api *, gkmtl_id device, uint64_t bytes);
void *gkmtl_contents(const gkmtl_api *, gkmtl_id buffer);

/* ---- pipelines ---- */

/* Compiles `source` without fast math and creates a pipeline of its function `name`. NULL: `error` has the log of
 * the compiler, or the step that returned nothing. */
gkmtl_id gkmtl_new_pipeline(const gkmtl_api *, gkmtl_id device, const char *source, const char *name, char *error, size_t capacity);
uint64_t gkmtl_pipeline_threads(const gkmtl_api *, gkmtl_id pipeline); /* maximum threads of a threadgroup */
uint64_t gkmtl_pipeline_width(const gkmtl_api *, gkmtl_id pipeline);   /* threads of a simdgroup */

/* ---- commands ---- */

enum { GKMTL_STATUS_COMPLETED = 4, GKMTL_STATUS_ERROR = 5 }; /* MTLCommandBufferStatus */

void *gkmtl_pool_push(const gkmtl_api *);
void gkmtl_pool_pop(const gkmtl_api *, void *pool);

gkmtl_id gkmtl_new_commands(const gkmtl_api *, gkmtl_id queue);
/* Dispatches of one encoder run one after another. Lives until the pool is drained. */
gkmtl_id gkmtl_encoder(const gkmtl_api *, gkmtl_id commands);
void gkmtl_set_pipeline(const gkmtl_api *, gkmtl_id encoder, gkmtl_id pipeline);
void gkmtl_set_buffer(const gkmtl_api *, gkmtl_id encoder, gkmtl_id buffer, uint64_t offset, uint32_t index);
void gkmtl_set_bytes(const gkmtl_api *, gkmtl_id encoder, const void *bytes, uint32_t count, uint32_t index); /* copied */
void gkmtl_dispatch(const gkmtl_api *, gkmtl_id encoder, gkmtl_size groups, gkmtl_size threads);
void gkmtl_end(const gkmtl_api *, gkmtl_id encoder);
void gkmtl_commit(const gkmtl_api *, gkmtl_id commands);
/* Waits, then returns GKMTL_STATUS_...; for an error `text` has its description. */
uint32_t gkmtl_wait(const gkmtl_api *, gkmtl_id commands, char *text, size_t capacity);

#endif
