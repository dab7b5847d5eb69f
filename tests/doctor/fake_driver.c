/* A driver library with the first functions of all vendors' APIs, which misbehave as FAULT selects. */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGFAULT 1
#define ABORT 2
#define HANG 3
#define LEAVE 4
#define NONSENSE 5
#define FLOOD 6

static int misbehave(void) {
    switch (FAULT) {
    case SEGFAULT: raise(SIGSEGV); break;
    case ABORT: fputs("driver: assertion failed\n", stderr); abort();
    case HANG: for (;;) sleep(1);
    case LEAVE: puts("{\"status\":\"maybe\""); fflush(stdout); _exit(0);
    case NONSENSE: printf("\033[31m::error::{\"status\":\"ok\"}\n]]>\n"); fflush(stdout); return 0;
    case FLOOD: for (int line = 0; line < 200000; line++) puts("WARNING: lavapipe is not a conformant driver"); fflush(stdout); raise(SIGSEGV);
    }
    return 0;
}

/* CUDA */
int cuDriverGetVersion(int *version) { int status = misbehave(); *version = -77; return status; }
int cuInit(unsigned flags) { (void)flags; return misbehave(); }
int cuDeviceGetCount(int *count) { *count = 3; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) { (void)device; memset(name, 0xff, (size_t)length); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { (void)attribute; (void)device; *value = -1; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1; return 0; }
int cuDeviceGetPCIBusId(char *text, int length, int device) { (void)device; memset(text, '\'', (size_t)length); return 0; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { (void)device; memset(uuid, 0, 16); return 0; }

/* HIP */
int hipRuntimeGetVersion(int *version) { *version = -1; return misbehave(); }
int hipGetDeviceCount(int *count) { int status = misbehave(); *count = 1; return status; }
int hipDeviceGetName(char *name, int length, int device) { (void)device; memset(name, 0, (size_t)length); return 0; }
int hipDeviceTotalMem(size_t *bytes, int device) { (void)device; *bytes = SIZE_MAX; return 0; }
int hipDeviceGetPCIBusId(char *text, int length, int device) { (void)device; memset(text, 0, (size_t)length); return 0; }
int hipGetDevicePropertiesR0600(unsigned char *properties, int device) { (void)device; memset(properties, 0x80, 64); return 0; }

/* OpenCL: more platforms than callers have room for */
int clGetPlatformIDs(unsigned room, void **platforms, unsigned *count) {
    int status = misbehave();
    for (unsigned index = 0; platforms && index < room; index++) platforms[index] = (void *)(uintptr_t)0xdead;
    if (count) *count = 4000000000u;
    return status;
}
int clGetDeviceIDs(void *platform, uint64_t kind, unsigned room, void **devices, unsigned *count) {
    (void)platform; (void)kind;
    for (unsigned index = 0; devices && index < room; index++) devices[index] = (void *)(uintptr_t)0xbeef;
    if (count) *count = 4000000000u;
    return 0;
}
int clGetPlatformInfo(void *platform, unsigned key, size_t room, void *value, size_t *size) {
    (void)platform; (void)key; (void)size;
    memset(value, 0x1b, room);
    return 0;
}
int clGetDeviceInfo(void *device, unsigned key, size_t room, void *value, size_t *size) {
    (void)device; (void)key; (void)size;
    memset(value, 0x07, room);
    return 0;
}

/* Level Zero */
unsigned zeInit(unsigned flags) { (void)flags; return (unsigned)misbehave(); }
unsigned zeDriverGet(unsigned *count, void **drivers) { *count = 1; drivers[0] = NULL; return 0; }
unsigned zeDeviceGet(void *driver, unsigned *count, void **devices) { (void)driver; *count = 1; devices[0] = NULL; return 0; }
unsigned zeDeviceGetProperties(void *device, void *properties) { (void)device; memset((char *)properties + 16, 0xff, 300); return 0; }

/* Vulkan */
static int create_instance(const void *create, const void *allocator, void **instance) {
    (void)create; (void)allocator;
    int status = misbehave();
    *instance = NULL;
    return status ? status : -12345;
}
static int instance_version(uint32_t *version) { *version = 0xffffffffu; return 0; }
void *vkGetInstanceProcAddr(void *instance, const char *name) {
    (void)instance;
    if (!strcmp(name, "vkCreateInstance")) return (void *)create_instance;
    if (!strcmp(name, "vkEnumerateInstanceVersion")) return (void *)instance_version;
    return NULL;
}
