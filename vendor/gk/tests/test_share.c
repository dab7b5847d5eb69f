#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* RUSAGE_THREAD, sched_getaffinity */
#endif
/* How threads share out items, and in which node's memory the cpu backend stores weights. */
#include "gk_test.h"
#include "share.h"
#include "topology.h"

enum { MOST_ITEMS = 300 };

/* Threads take items in random order until none is left. Fails unless every item is taken once, and no thread takes one of
 * another node while its own node has any. */
static void take_all(suite *s, gk_team team, uint32_t total, uint32_t least) {
    gk_counter counters[GK_MOST_NODES] = {{0}};
    uint32_t takes[MOST_ITEMS] = {0}, left[GK_MOST_NODES], from, end, tired = 0;
    for (uint32_t node = 0, at = 0; node < team.nodes; node++, at = end) {
        gk_part_of(&team, node, total, &from, &end);
        left[node] = end - from;
        if (from != at || end > total || (node + 1 == team.nodes && end != total)) case_fail(s, "the part of node %u is %u to %u", node, from, end);
    }
    while (tired < 64 && case_going(s)) {
        uint32_t first, last;
        team.thread = random_below(s, team.threads);
        const uint32_t own = team.thread % team.nodes;
        if (!gk_take(&team, counters, total, least, &first, &last)) {
            tired++;
            continue;
        }
        if (first >= last || last > total) case_fail(s, "items %u to %u of %u", first, last, total);
        for (uint32_t item = first; item < last && case_going(s); item++) {
            uint32_t node = 0;
            for (gk_part_of(&team, node, total, &from, &end); item >= end; gk_part_of(&team, node, total, &from, &end)) node++;
            if (node != own && left[own] != 0) case_fail(s, "thread %u takes item %u of node %u", team.thread, item, node);
            left[node]--;
            takes[item]++;
        }
    }
    for (uint32_t item = 0; item < total; item++) {
        if (takes[item] != 1) case_fail(s, "item %u is taken %u times", item, takes[item]);
    }
}

static void shares(suite *s) {
    static const gk_team teams[] = {{0, 1, 1}, {0, 2, 1}, {0, 5, 1}, {0, 2, 2}, {0, 5, 2}, {0, 16, 4}, {0, 3, 8}, {0, 64, 8}};
    static const uint32_t totals[] = {0, 1, 7, 64, 299}, leasts[] = {1, 4};
    for (size_t n = 0; n < sizeof teams / sizeof *teams; n++) {
        case_begin(s, "share", "", "threads=%u,nodes=%u", teams[n].threads, teams[n].nodes);
        for (size_t k = 0; k < sizeof totals / sizeof *totals; k++) {
            for (size_t m = 0; m < sizeof leasts / sizeof *leasts; m++) take_all(s, teams[n], totals[k], leasts[m]);
        }
        case_end(s);
    }
}

#if defined(__linux__) && defined(GK_HAVE_CPU)

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

/* Pages that this thread was the first to access. */
static long first_accesses(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_minflt : 0;
}

/* Writes a weight of two nodes, first the rows of one, then those of the other. `accesses`: by this thread, which is of the first. */
static const char *write_halves(const gk_backend *b, gk_device *d, long accesses[2]) {
    enum { WIDTH = 8192, ROWS = 4096, CHUNK = 64 };
    gk_tensor weight = {.type = GK_F16, .ne = {WIDTH, ROWS, 1, 1}};
    if (b->alloc(d, b->weight_bytes(d, GK_F16, WIDTH, ROWS), GK_USAGE_WEIGHT, &weight.buffer) != GK_OK) return "alloc failed";
    uint16_t *rows = must_alloc(WIDTH * CHUNK * sizeof *rows);
    memset(rows, 0, WIDTH * CHUNK * sizeof *rows);
    bool ok = true;
    for (uint32_t half = 0; half < 2; half++) {
        const long before = first_accesses();
        for (uint32_t row = 0; row < ROWS / 2; row += CHUNK) ok = b->weight_put(d, &weight, rows, half * ROWS / 2 + row, CHUNK) == GK_OK && ok;
        accesses[half] = first_accesses() - before;
    }
    free(rows);
    b->release(d, weight.buffer);
    return ok ? NULL : "weight_put failed";
}

/* Threads of this process that may use fewer processors. */
static int threads_with_fewer(int processors) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        cpu_set_t set;
        const int thread = atoi(entry->d_name);
        if (thread != 0 && sched_getaffinity(thread, sizeof set, &set) == 0 && CPU_COUNT(&set) < processors) count++;
    }
    if (folder) closedir(folder);
    return count;
}

static void first_access(suite *s) {
    const gk_backend *b = gk_backend_cpu();
    const gk_open_options options = {.threads = 2, .flags = GK_OPEN_BIND};
    gk_device *device = NULL;
    char why[512] = "";
    cpu_set_t before, after;
    long accesses[2] = {0, 0};
    case_begin(s, "share", "f16", "first access to weights");
    sched_getaffinity(0, sizeof before, &before);
    const int others = threads_with_fewer(CPU_COUNT(&before)); /* of the suite, or of another backend's driver */
    const char *error = pretend_nodes(2);
    if (error == NULL && b->open(0, &options, &device, why, sizeof why) != GK_OK) error = why;
    pretend_nodes(0);
    if (error == NULL) error = write_halves(b, device, accesses);
    const int bound = threads_with_fewer(CPU_COUNT(&before)) - others;
    if (device) b->close(device);
    sched_getaffinity(0, sizeof after, &after);
    if (error) case_fail(s, "%s", error);
    else if (!CPU_EQUAL(&before, &after)) case_fail(s, "the calling thread remains bound");
    else if (bound != 1 && CPU_COUNT(&before) > 1) case_fail(s, "%d threads are bound instead of the other one", bound);
    else if (accesses[0] + accesses[1] == 0) case_skip(s, "the system does not count accesses");
    else if (accesses[0] < 8 || accesses[1] > accesses[0] / 4) case_fail(s, "%ld accesses to its own half, %ld to the other", accesses[0], accesses[1]);
    case_end(s);
}

#else

static void first_access(suite *s) { (void)s; }

#endif

void test_share(suite *s) {
    shares(s);
    first_access(s);
}
