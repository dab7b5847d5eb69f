/* How threads share out the items of a job by counters. Internal. */
#ifndef GK_SHARE_H
#define GK_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Threads are numbered; thread t belongs to node t % nodes. Each node has a part of the items in proportion to its
 * threads. With one node, or without nodes, the part is everything. */
typedef struct gk_team {
    uint32_t thread, threads, nodes;
} gk_team;

/* How many items of a part are taken. Alone on its cache line. */
typedef struct gk_counter {
    atomic_uint taken;
    char padding[60];
} gk_counter;

/* The items `*from` .. `*end` - 1 of `total` are the part of a node. */
void gk_part_of(const gk_team *, uint32_t node, uint32_t total, uint32_t *from, uint32_t *end);

/* Takes the items first .. last - 1 of `total`; false if none is left. `counters`: one for each node, 0 before the first item
 * is taken. A thread takes from the part of its node, and when that is used up, from the others. Shares are multiples
 * of `least` and shrink towards the end, so that threads of different speeds finish at about the same time. */
bool gk_take(const gk_team *, gk_counter *counters, uint32_t total, uint32_t least, uint32_t *first, uint32_t *last);

#endif
