#include "share.h"

/* Threads of the nodes before this one. */
static uint32_t threads_before(const gk_team *team, uint32_t node) {
    const uint32_t rest = team->threads % team->nodes;
    return node * (team->threads / team->nodes) + (node < rest ? node : rest);
}

void gk_part_of(const gk_team *team, uint32_t node, uint32_t total, uint32_t *from, uint32_t *end) {
    *from = (uint32_t)((uint64_t)total * threads_before(team, node) / team->threads);
    *end = (uint32_t)((uint64_t)total * threads_before(team, node + 1) / team->threads);
}

static bool take_of_part(gk_counter *counter, uint32_t threads, uint32_t count, uint32_t least, uint32_t *first, uint32_t *last) {
    enum { SHARES = 4 }; /* a share is this part of an equal one: a core may be that much slower than the others */
    uint32_t at = atomic_load_explicit(&counter->taken, memory_order_relaxed);
    do {
        if (at >= count) return false;
        const uint32_t left = count - at, shares = (left - 1) / (SHARES * threads * least) + 1;
        *last = threads == 1 || shares * least > left ? count : at + shares * least;
    } while (!atomic_compare_exchange_weak_explicit(&counter->taken, &at, *last, memory_order_relaxed, memory_order_relaxed));
    *first = at;
    return true;
}

bool gk_take(const gk_team *team, gk_counter *counters, uint32_t total, uint32_t least, uint32_t *first, uint32_t *last) {
    for (uint32_t n = 0; n < team->nodes; n++) {
        const uint32_t node = (team->thread + n) % team->nodes;
        uint32_t from, end;
        gk_part_of(team, node, total, &from, &end);
        /* Even the only thread of a node leaves something to the others. */
        const uint32_t sharing = team->nodes == 1 ? team->threads : (team->threads - 1) / team->nodes + 2;
        if (!take_of_part(&counters[node], sharing, end - from, least, first, last)) continue;
        *first += from, *last += from;
        return true;
    }
    return false;
}
