/* The processors that this process may use. Internal. */
#ifndef GK_TOPOLOGY_H
#define GK_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct gk_topology {
    uint32_t processors; /* logical ones, at least 1 */
    uint32_t cores;      /* the fast cores among them, each counted once; at least 1 */
} gk_topology;

/* Respects affinity masks and the CPU quota of a container. */
gk_topology gk_topology_read(void);

#if defined(__linux__)
enum { GK_MOST_PROCESSORS = 4096 };

typedef struct gk_processor_set {
    uint64_t bits[GK_MOST_PROCESSORS / 64];
} gk_processor_set;

static inline bool gk_processor_in(const gk_processor_set *set, uint32_t n) { return (set->bits[n / 64] >> n % 64 & 1) != 0; }
static inline void gk_processor_add(gk_processor_set *set, uint32_t n) { set->bits[n / 64] |= UINT64_C(1) << n % 64; }

/* For a process with this affinity mask, from /sys and /proc in the folder `root` ("" for this machine). */
gk_topology gk_topology_of(const char *root, const gk_processor_set *allowed);
#endif

#endif
