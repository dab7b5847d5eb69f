/* Memory sizes and page allocation: the part of host backends that differs between operating systems. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/sysinfo.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif
#endif

#define HUGE_PAGE (2u << 20)

#if defined(_WIN32)

void gk_host_memory_of_machine(uint64_t *free_bytes, uint64_t *total_bytes) {
    MEMORYSTATUSEX status;
    memset(&status, 0, sizeof status);
    status.dwLength = sizeof status;
    bool known = GlobalMemoryStatusEx(&status) != 0;
    *free_bytes = known ? status.ullAvailPhys : 0;
    *total_bytes = known ? status.ullTotalPhys : 0;
}

void *gk_host_map(uint64_t bytes, uint64_t *mapped) {
    *mapped = bytes;
    if (bytes > SIZE_MAX) return NULL;
    return VirtualAlloc(NULL, (SIZE_T)bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
}

void gk_host_unmap(void *pages, uint64_t mapped) {
    (void)mapped;
    if (pages) VirtualFree(pages, 0, MEM_RELEASE);
}

#else

#if defined(__linux__)

/* The number after `key` in a file such as /proc/meminfo, or the first number for an empty key. */
static bool number_in_file(const char *path, const char *key, uint64_t *out) {
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    char line[256];
    bool found = false;
    size_t length = strlen(key);
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) != 0) continue;
        char *end;
        *out = strtoull(line + length, &end, 10);
        found = end != line + length;
        if (length == 0) break;
    }
    fclose(file);
    return found;
}

void gk_host_memory_of_machine(uint64_t *free_bytes, uint64_t *total_bytes) {
    uint64_t kib, limit, used;
    struct sysinfo machine;
    *free_bytes = *total_bytes = 0;
    /* sysinfo does not include what the page cache could give back, but it works without /proc. */
    if (sysinfo(&machine) == 0) {
        *free_bytes = ((uint64_t)machine.freeram + machine.bufferram) * machine.mem_unit;
        *total_bytes = (uint64_t)machine.totalram * machine.mem_unit;
    }
    if (number_in_file("/proc/meminfo", "MemAvailable:", &kib)) *free_bytes = kib * 1024;
    if (number_in_file("/proc/meminfo", "MemTotal:", &kib)) *total_bytes = kib * 1024;
    /* The limit of a container, cgroup v2; "max" is not a number. */
    if (!number_in_file("/sys/fs/cgroup/memory.max", "", &limit)) return;
    if (!number_in_file("/sys/fs/cgroup/memory.current", "", &used) || limit >= *total_bytes) return;
    *total_bytes = limit;
    uint64_t left = used < limit ? limit - used : 0;
    if (left < *free_bytes) *free_bytes = left;
}

#elif defined(__APPLE__)

void gk_host_memory_of_machine(uint64_t *free_bytes, uint64_t *total_bytes) {
    size_t size = sizeof *total_bytes;
    if (sysctlbyname("hw.memsize", total_bytes, &size, NULL, 0) != 0) *total_bytes = 0;
    vm_statistics64_data_t statistics;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    *free_bytes = 0;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&statistics, &count) != KERN_SUCCESS) return;
    *free_bytes = ((uint64_t)statistics.free_count + statistics.inactive_count) * (uint64_t)sysconf(_SC_PAGESIZE);
}

#else

void gk_host_memory_of_machine(uint64_t *free_bytes, uint64_t *total_bytes) {
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);
    *total_bytes = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
    *free_bytes = *total_bytes;
}

#endif

void *gk_host_map(uint64_t bytes, uint64_t *mapped) {
    uint64_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
    uint64_t size = gk_align_u64(bytes, alignment);
    uint64_t room = size + (alignment == HUGE_PAGE ? HUGE_PAGE : 0);
    *mapped = size;
    if (size == 0 || room < size || room > SIZE_MAX) return NULL;
    unsigned char *pages = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    if (alignment != HUGE_PAGE) return pages;
    /* Unmaps the parts before and after the aligned range. */
    size_t before = (size_t)(gk_align_u64((uint64_t)(uintptr_t)pages, HUGE_PAGE) - (uint64_t)(uintptr_t)pages);
    size_t after = (size_t)(room - size) - before;
    if (before) munmap(pages, before);
    if (after) munmap(pages + before + size, after);
#if defined(MADV_HUGEPAGE)
    (void)madvise(pages + before, (size_t)size, MADV_HUGEPAGE); /* only advice: small pages work too */
#endif
    return pages + before;
}

void gk_host_unmap(void *pages, uint64_t mapped) {
    if (pages) munmap(pages, (size_t)mapped);
}

#endif
