#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* mkdtemp, nftw */
#endif
/* The default number of threads and the memory nodes, on machines whose /sys and /proc are written to a temporary folder. */
#include "gk_test.h"
#include "topology.h"

#if defined(__linux__)

#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 11, MOST_MASKS = 4, MOST_LISTED = 32 };

/* Formats as in Linux 6.1: Documentation/ABI/stable/sysfs-devices-system-cpu and testing/sysfs-bus-event_source-devices. */
typedef struct machine {
    const char *name, *siblings_file;
    const char *siblings[MOST_LISTED]; /* of each processor */
    const char *capacity[MOST_LISTED];
    const char *files[MOST_FILES][2];
    struct {
        uint32_t from, to, step; /* the affinity mask */
        uint32_t processors, cores;
    } masks[MOST_MASKS];
} machine;

#define PAIRS_OF_12700K \
    {"0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7", "8-9", "8-9", "10-11", "10-11", "12-13", "12-13", "14-15", "14-15", "16", "17", "18", "19"}
#define PAIRS_OF_7950X \
    {"0,16", "1,17", "2,18", "3,19", "4,20", "5,21", "6,22", "7,23", "8,24", "9,25", "10,26", "11,27", "12,28", "13,29", "14,30", "15,31", \
     "0,16", "1,17", "2,18", "3,19", "4,20", "5,21", "6,22", "7,23", "8,24", "9,25", "10,26", "11,27", "12,28", "13,29", "14,30", "15,31"}

#define NODES "/sys/devices/system/node/"

static const machine MACHINES[] = {
    {"12700K: 8 cores with SMT, 4 slow ones", "core_cpus_list", PAIRS_OF_12700K, {NULL},
     {{"/sys/devices/cpu_core/cpus", "0-15"}, {"/sys/devices/cpu_atom/cpus", "16-19"}},
     {{0, 19, 1, 20, 8}, {16, 19, 1, 4, 4}, {0, 16, 2, 9, 8}, {1, 1, 1, 1, 1}}},
    {"7950X: 16 cores with SMT", "thread_siblings_list", PAIRS_OF_7950X, {NULL}, {{NULL}},
     {{0, 31, 1, 32, 16}, {0, 7, 1, 8, 8}, {3, 19, 16, 2, 1}, {12, 19, 1, 8, 8}}},
    {"RK3588: 4 slow cores, 4 fast ones", "core_cpus_list", {"0", "1", "2", "3", "4", "5", "6", "7"},
     {"414", "414", "414", "414", "1024", "1024", "1024", "1024"}, {{NULL}}, {{0, 7, 1, 8, 4}, {0, 3, 1, 4, 4}, {2, 5, 1, 4, 2}}},
    {"a phone: 4 slow cores, 3 fast ones, 1 faster", "core_cpus_list", {"0", "1", "2", "3", "4", "5", "6", "7"},
     {"250", "250", "250", "250", "894", "894", "894", "1024"}, {{NULL}}, {{0, 7, 1, 8, 4}}},
    {"container with 2.5 CPUs", "core_cpus_list", PAIRS_OF_7950X, {NULL},
     {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "250000 100000\n"}}, {{0, 31, 1, 2, 2}, {5, 5, 1, 1, 1}}},
    {"container with half a CPU", "core_cpus_list", PAIRS_OF_7950X, {NULL},
     {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "50000 100000\n"}}, {{0, 31, 1, 1, 1}}},
    {"service whose slice has a quota", "core_cpus_list", PAIRS_OF_7950X, {NULL},
     {{"/proc/self/cgroup", "0::/work.slice/run.service\n"},
      {"/sys/fs/cgroup/work.slice/run.service/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/work.slice/cpu.max", "400000 100000\n"},
      {"/sys/fs/cgroup/other.slice/cpu.max", "100000 100000\n"}},
     {{0, 31, 1, 4, 4}}},
    {"cgroup version 1 with 3 CPUs", "core_cpus_list", PAIRS_OF_7950X, {NULL},
     {{"/proc/self/cgroup", "9:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n3:cpuset:/docker/0123\n0::/\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n"},
      {"/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n"}},
     {{0, 31, 1, 3, 3}}},
    {"cgroup version 1 without a limit", "core_cpus_list", PAIRS_OF_7950X, {NULL},
     {{"/proc/self/cgroup", "4:cpu:/\n"}, {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"}, {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}},
     {{0, 31, 1, 32, 16}}},
    {"unreadable lists", "core_cpus_list", {"", "x", "5-", "99999999"}, {"", "-1"}, {{"/sys/devices/cpu_core/cpus", ""}}, {{0, 3, 1, 4, 4}}},
    {"nothing in /sys", "core_cpus_list", {NULL}, {NULL}, {{NULL}}, {{0, 6, 1, 7, 7}}},
};

static const struct {
    machine machine;
    const char *nodes[MOST_MASKS]; /* the processors of the memory nodes, with each mask */
} WITH_NODES[] = {
    {{"2 processors with 4 cores each", "core_cpus_list", {"0", "1", "2", "3", "4", "5", "6", "7"}, {NULL},
     {{NODES "online", "0-1\n"}, {NODES "node0/cpulist", "0-3\n"}, {NODES "node1/cpulist", "4-7\n"}},
     {{0, 7, 1, 8, 8}, {2, 6, 2, 3, 3}, {0, 3, 1, 4, 4}}}, {"0 1 2 3|4 5 6 7", "2|4 6", ""}},
    {{"a GPU whose memory is a node", "core_cpus_list", {"0", "1", "2", "3"}, {NULL},
     {{NODES "online", "0,2-3\n"}, {NODES "node0/cpulist", "0,2\n"}, {NODES "node2/cpulist", "\n"}, {NODES "node3/cpulist", "1,3\n"}},
     {{0, 3, 1, 4, 4}}}, {"0 2|1 3"}},
    {{"10 memory nodes", "core_cpus_list", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, {NULL},
     {{NODES "online", "0-9\n"}, {NODES "node0/cpulist", "0"}, {NODES "node1/cpulist", "1"}, {NODES "node2/cpulist", "2"}, {NODES "node3/cpulist", "3"},
      {NODES "node4/cpulist", "4"}, {NODES "node5/cpulist", "5"}, {NODES "node6/cpulist", "6"}, {NODES "node7/cpulist", "7"}, {NODES "node8/cpulist", "8"},
      {NODES "node9/cpulist", "9"}},
     {{0, 9, 1, 10, 10}}}, {"0 8|1 9|2|3|4|5|6|7"}},
};

/* An error, or NULL. */
static const char *write_text(const char *root, const char *path, const char *text) {
    char name[512];
    gk_text(name, sizeof name, "%s%s", root, path);
    for (char *slash = strchr(name + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(name, 0700) != 0 && errno != EEXIST) return "a folder cannot be created";
        *slash = '/';
    }
    FILE *file = fopen(name, "w");
    if (file == NULL) return "a file cannot be created";
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written ? NULL : "a file cannot be written";
}

/* A new temporary folder; false if there is none. */
static bool new_folder(char root[256]) {
    const char *temporary = getenv("TMPDIR");
    gk_text(root, 256, "%s/gk-topology-XXXXXX", temporary ? temporary : "/tmp");
    return mkdtemp(root) != NULL;
}

static void write_or_fail(suite *s, const char *root, const char *path, const char *text) {
    const char *error = write_text(root, path, text);
    if (error) case_fail(s, "%s: %s", path, error);
}

static void write_machine(suite *s, const char *root, const machine *m) {
    char path[128];
    for (uint32_t n = 0; n < MOST_LISTED; n++) {
        gk_text(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/%s", n, m->siblings_file);
        if (m->siblings[n]) write_or_fail(s, root, path, m->siblings[n]);
        gk_text(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpu_capacity", n);
        if (m->capacity[n]) write_or_fail(s, root, path, m->capacity[n]);
    }
    for (int n = 0; n < MOST_FILES && m->files[n][0]; n++) write_or_fail(s, root, m->files[n][0], m->files[n][1]);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void nodes_text(const char *root, const gk_processor_set *mask, char text[MOST_LISTED * GK_MOST_NODES]) {
    gk_nodes nodes;
    size_t at = 0;
    gk_nodes_of(root, mask, &nodes);
    text[0] = '\0';
    for (uint32_t node = 0; node < nodes.count; node++) {
        bool first = true;
        for (uint32_t n = 0; n < MOST_LISTED; n++) {
            if (!gk_processor_in(&nodes.processors[node], n)) continue;
            at += (size_t)sprintf(text + at, "%s%u", !first ? " " : node ? "|" : "", n);
            first = false;
        }
    }
}

static const char *write_nodes(const char *root, uint32_t count) {
    enum { MOST = 64 };
    cpu_set_t allowed;
    uint32_t processors[MOST], found = 0;
    char path[64], text[MOST * 5];
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "the processors are unknown";
    for (uint32_t n = 0; n < CPU_SETSIZE && found < MOST; n++) {
        if (CPU_ISSET(n, &allowed)) processors[found++] = n;
    }
    gk_text(text, sizeof text, "0-%u", count - 1);
    const char *error = write_text(root, NODES "online", text);
    for (uint32_t node = 0; node < count && error == NULL; node++) {
        size_t at = 0;
        /* With few processors, nodes share them. */
        for (uint32_t n = node; n == node || n < found; n += count) at += (size_t)sprintf(text + at, "%s%u", at ? "," : "", processors[n % found]);
        gk_text(path, sizeof path, NODES "node%u/cpulist", node);
        error = write_text(root, path, text);
    }
    return error;
}

const char *pretend_nodes(uint32_t count) {
    static char root[256];
    if (gk_machine_root == root) nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    gk_machine_root = "";
    if (count == 0) return NULL;
    if (!new_folder(root)) return "no temporary folder";
    gk_machine_root = root;
    return write_nodes(root, count);
}

static void test_machine(suite *s, const machine *m, const char *const *nodes) {
    char root[256], got[MOST_LISTED * GK_MOST_NODES];
    case_begin(s, "topology", "", "%s", m->name);
    if (!new_folder(root)) case_fail(s, "no temporary folder %s", root);
    else write_machine(s, root, m);
    for (int n = 0; n < MOST_MASKS && m->masks[n].step && case_going(s); n++) {
        gk_processor_set mask = {{0}};
        for (uint32_t cpu = m->masks[n].from; cpu <= m->masks[n].to; cpu += m->masks[n].step) gk_processor_add(&mask, cpu);
        const gk_topology t = gk_topology_of(root, &mask);
        if (t.processors != m->masks[n].processors || t.cores != m->masks[n].cores) {
            case_fail(s, "mask %d: %u processors and %u cores instead of %u and %u", n, t.processors, t.cores, m->masks[n].processors, m->masks[n].cores);
        }
        const char *wanted = nodes ? nodes[n] : ""; /* nothing is known about the only node */
        nodes_text(root, &mask, got);
        if (strcmp(got, wanted) != 0) case_fail(s, "mask %d: the nodes are `%s` instead of `%s`", n, got, wanted);
    }
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    case_end(s);
}

static void other_machines(suite *s) {
    for (size_t k = 0; k < sizeof MACHINES / sizeof *MACHINES; k++) test_machine(s, &MACHINES[k], NULL);
    for (size_t k = 0; k < sizeof WITH_NODES / sizeof *WITH_NODES; k++) test_machine(s, &WITH_NODES[k].machine, WITH_NODES[k].nodes);
}

#else

const char *pretend_nodes(uint32_t count) { return count ? "memory nodes are read only on Linux" : NULL; }

static void other_machines(suite *s) { (void)s; } /* their files are read only on Linux */

#endif

void test_topology(suite *s) {
    other_machines(s);
    case_begin(s, "topology", "", "this machine");
    const gk_topology t = gk_topology_read();
    if (t.cores < 1 || t.cores > t.processors) case_fail(s, "%u cores of %u processors", t.cores, t.processors);
    case_end(s);
}
