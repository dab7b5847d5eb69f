/* Which processors compute: one per fast core, because a second thread on a core (SMT) shares its arithmetic units,
 * and a slow core delays every barrier. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#elif defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif
#if !defined(_WIN32)
#include <unistd.h>
#endif

const char *gk_machine_root = "";

#if defined(_WIN32)

/* A process that runs in several processor groups has no mask and may use all processors. */
static bool may_use(const PROCESSOR_RELATIONSHIP *core, DWORD_PTR mask, WORD group) {
    return mask == 0 || (core->GroupMask[0].Group == group && (core->GroupMask[0].Mask & mask) != 0);
}

/* The second byte; older headers of MinGW-w64 do not have its name, EfficiencyClass. */
static BYTE class_of(const PROCESSOR_RELATIONSHIP *core) { return ((const BYTE *)core)[1]; }

/* The cores of the highest efficiency class. */
static uint32_t fast_cores(DWORD_PTR mask) {
    USHORT groups = 1;
    USHORT group = 0;
    if (!GetProcessGroupAffinity(GetCurrentProcess(), &groups, &group)) mask = 0;
    DWORD bytes = 0;
    GetLogicalProcessorInformationEx(RelationProcessorCore, NULL, &bytes);
    char *entries = malloc(bytes ? bytes : 1);
    uint32_t count = 0;
    BYTE best = 0;
    if (entries && GetLogicalProcessorInformationEx(RelationProcessorCore, (void *)entries, &bytes)) {
        for (DWORD at = 0; at < bytes;) {
            const SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX *entry = (const void *)(entries + at);
            const PROCESSOR_RELATIONSHIP *core = &entry->Processor;
            if (may_use(core, mask, group) && (count == 0 || class_of(core) >= best)) {
                count = class_of(core) == best ? count + 1 : 1;
                best = class_of(core);
            }
            at += entry->Size;
        }
    }
    free(entries);
    return count;
}

gk_topology gk_topology_read(void) {
    DWORD_PTR process = 0, system;
    if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) process = 0;
    gk_topology t = {0, fast_cores(process)};
    for (DWORD_PTR left = process; left; left &= left - 1) t.processors++;
    if (t.processors == 0) t.processors = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    if (t.processors == 0) t.processors = 1;
    if (t.cores == 0 || t.cores > t.processors) t.cores = t.processors;
    return t;
}

#elif defined(__linux__)

static FILE *open_in(const char *root, const char *path) {
    char name[1024];
    if (snprintf(name, sizeof name, "%s%s", root, path) >= (int)sizeof name) return NULL;
    return fopen(name, "r");
}

/* A list such as "0-3,8". */
static bool read_list(const char *root, const char *path, gk_processor_set *out) {
    FILE *file = open_in(root, path);
    memset(out, 0, sizeof *out);
    if (file == NULL) return false;
    unsigned first, last;
    int after = ',';
    bool any = false;
    while (after == ',' && fscanf(file, "%u", &first) == 1) {
        last = first;
        after = getc(file);
        if (after == '-' && fscanf(file, "%u", &last) == 1) after = getc(file);
        for (unsigned n = first; n <= last && n < GK_MOST_PROCESSORS; n++) gk_processor_add(out, n), any = true;
    }
    fclose(file);
    return any;
}

/* The first `count` numbers of a file. */
static bool read_numbers(const char *root, const char *path, int count, long long *out) {
    FILE *file = open_in(root, path);
    int found = 0;
    if (file == NULL) return false;
    while (found < count && fscanf(file, "%lld", &out[found]) == 1) found++;
    fclose(file);
    return found == count;
}

/* ---- cores ---- */

/* The processors of a core, `n` included. */
static void siblings_of(const char *root, uint32_t n, gk_processor_set *out) {
    static const char *const names[] = {"core_cpus_list", "thread_siblings_list"}; /* the second before Linux 5.2 */
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/%s", n, names[k]);
        if (read_list(root, path, out)) break;
    }
    gk_processor_add(out, n);
}

/* How fast a processor is, compared with the others of this machine: Intel's two kinds, or the capacity on ARM. */
static long long capacity_of(const char *root, uint32_t n, const gk_processor_set *fast, bool two_kinds) {
    char path[96];
    long long capacity;
    if (two_kinds) return gk_processor_in(fast, n) ? 1024 : 512;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpu_capacity", n);
    return read_numbers(root, path, 1, &capacity) && capacity > 0 ? capacity : 1024;
}

/* Cores that are more than half as fast as the fastest. */
static uint32_t fast_cores(const char *root, const gk_processor_set *allowed) {
    gk_processor_set fast, slow, counted = {{0}}, siblings;
    const bool two_kinds = read_list(root, "/sys/devices/cpu_core/cpus", &fast) && read_list(root, "/sys/devices/cpu_atom/cpus", &slow);
    uint32_t count = 0;
    long long most = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < GK_MOST_PROCESSORS; n++) {
            if (!gk_processor_in(allowed, n) || gk_processor_in(&counted, n)) continue;
            const long long capacity = capacity_of(root, n, &fast, two_kinds);
            if (pass == 0 && capacity > most) most = capacity;
            if (pass == 0 || capacity * 2 <= most) continue;
            siblings_of(root, n, &siblings);
            for (size_t word = 0; word < sizeof counted.bits / sizeof *counted.bits; word++) counted.bits[word] |= siblings.bits[word];
            count++;
        }
    }
    return count;
}

/* ---- the quota of a container ---- */

/* Whole CPUs: a further thread would use up the quota early and then stall the others. 0: no limit. */
static uint32_t quota_in(const char *root, const char *folder, bool version_2) {
    char path[900];
    long long numbers[2];
    if (version_2) {
        snprintf(path, sizeof path, "%s/cpu.max", folder);
        if (!read_numbers(root, path, 2, numbers)) return 0; /* "max 100000" */
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
        if (!read_numbers(root, path, 1, &numbers[0])) return 0;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (!read_numbers(root, path, 1, &numbers[1])) return 0;
    }
    if (numbers[0] <= 0 || numbers[1] <= 0) return 0; /* version 1 has -1 without a limit */
    const long long whole = numbers[0] / numbers[1];
    return whole < 1 ? 1 : whole > GK_MOST_PROCESSORS ? 0 : (uint32_t)whole;
}

/* The smallest quota of a group and the groups that it is in. `folder` ends in the path of the group, which starts at
 * `mount`; inside a container that path may not exist. */
static uint32_t quota_upwards(const char *root, char *folder, size_t mount, bool version_2) {
    uint32_t least = 0;
    for (;;) {
        const uint32_t quota = quota_in(root, folder, version_2);
        if (quota != 0 && (least == 0 || quota < least)) least = quota;
        char *slash = strrchr(folder + mount, '/');
        if (slash == NULL) return least;
        *slash = '\0';
    }
}

static bool lists_cpu(const char *controllers) {
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) return true;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "4:cpu,cpuacct:/group". */
static uint32_t quota_of_process(const char *root) {
    char line[512], folder[800];
    uint32_t least = 0;
    FILE *file = open_in(root, "/proc/self/cgroup");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) continue;
        *group++ = '\0', controllers++;
        const bool version_2 = *controllers == '\0';
        if (!version_2 && !lists_cpu(controllers)) continue;
        const int mount = snprintf(folder, sizeof folder, "/sys/fs/cgroup%s%s", version_2 ? "" : "/", controllers);
        snprintf(folder + mount, sizeof folder - (size_t)mount, "%s", strcmp(group, "/") == 0 ? "" : group);
        const uint32_t quota = quota_upwards(root, folder, (size_t)mount, version_2);
        if (quota != 0 && (least == 0 || quota < least)) least = quota;
    }
    if (file) fclose(file);
    return least;
}

gk_topology gk_topology_of(const char *root, const gk_processor_set *allowed) {
    gk_topology t = {0, fast_cores(root, allowed)};
    for (uint32_t n = 0; n < GK_MOST_PROCESSORS; n++) t.processors += gk_processor_in(allowed, n);
    const uint32_t quota = quota_of_process(root);
    if (quota != 0 && quota < t.processors) t.processors = quota;
    if (t.processors == 0) t.processors = 1;
    if (t.cores > t.processors) t.cores = t.processors;
    if (t.cores == 0) t.cores = 1;
    return t;
}

static void allowed_processors(gk_processor_set *out) {
    memset(out, 0, sizeof *out);
    if (sched_getaffinity(0, sizeof *out, (cpu_set_t *)out) == 0) return;
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    for (long n = 0; n < count && n < GK_MOST_PROCESSORS; n++) gk_processor_add(out, (uint32_t)n);
}

gk_topology gk_topology_read(void) {
    gk_processor_set allowed;
    allowed_processors(&allowed);
    return gk_topology_of(gk_machine_root, &allowed);
}

/* ---- memory nodes ---- */

/* Adds the processors that are in both sets; true if there are any. */
static bool add_common(gk_processor_set *out, const gk_processor_set *x, const gk_processor_set *y) {
    bool any = false;
    for (size_t word = 0; word < sizeof out->bits / sizeof *out->bits; word++) {
        const uint64_t common = x->bits[word] & y->bits[word];
        out->bits[word] |= common;
        any = any || common != 0;
    }
    return any;
}

/* Nodes without processors have memory only: that of a GPU, or CXL. */
void gk_nodes_of(const char *root, const gk_processor_set *allowed, gk_nodes *out) {
    gk_processor_set online, processors;
    uint32_t found = 0;
    memset(out, 0, sizeof *out);
    if (!read_list(root, "/sys/devices/system/node/online", &online)) memset(&online, 0, sizeof online);
    for (uint32_t n = 0; n < GK_MOST_PROCESSORS; n++) {
        char path[64];
        if (!gk_processor_in(&online, n)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", n);
        if (!read_list(root, path, &processors)) continue;
        if (add_common(&out->processors[found % GK_MOST_NODES], &processors, allowed)) found++;
    }
    out->count = found < GK_MOST_NODES ? found : GK_MOST_NODES;
    if (out->count > 1) return;
    memset(out, 0, sizeof *out);
    out->count = 1;
}

void gk_nodes_read(gk_nodes *out) {
    gk_processor_set allowed;
    allowed_processors(&allowed);
    gk_nodes_of(gk_machine_root, &allowed, out);
}

void gk_bind(const gk_processor_set *to, gk_processor_set *before) {
    static const gk_processor_set none;
    if (before) *before = none;
    if (memcmp(to, &none, sizeof none) == 0) return;
    if (before && sched_getaffinity(0, sizeof *before, (cpu_set_t *)before) != 0) {
        *before = none;
        return; /* it could not be unbound */
    }
    (void)sched_setaffinity(0, sizeof *to, (const cpu_set_t *)to); /* fails if the processors were taken away: the work is the same */
}

#else

gk_topology gk_topology_read(void) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    gk_topology t = {count > 0 ? (uint32_t)count : 1, 0};
#if defined(__APPLE__)
    /* The performance cores of Apple silicon, else the cores of an Intel processor. */
    int32_t cores = 0;
    size_t size = sizeof cores;
    if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, NULL, 0) != 0) {
        size = sizeof cores;
        if (sysctlbyname("hw.physicalcpu", &cores, &size, NULL, 0) != 0) cores = 0;
    }
    t.cores = cores > 0 ? (uint32_t)cores : 0;
#endif
    if (t.cores == 0 || t.cores > t.processors) t.cores = t.processors;
    return t;
}

#endif

#if !defined(__linux__)

void gk_nodes_read(gk_nodes *out) {
    memset(out, 0, sizeof *out);
    out->count = 1;
}

void gk_bind(const gk_processor_set *to, gk_processor_set *before) {
    (void)to;
    if (before) memset(before, 0, sizeof *before);
}

#endif
