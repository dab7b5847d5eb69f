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

enum { GK_MOST_PROCESSORS = 4096, GK_MOST_NODES = 8 };

typedef struct gk_processor_set {
    uint64_t bits[GK_MOST_PROCESSORS / 64];
} gk_processor_set;

static inline bool gk_processor_in(const gk_processor_set *set, uint32_t n) { return (set->bits[n / 64] >> n % 64 & 1) != 0; }
static inline void gk_processor_add(gk_processor_set *set, uint32_t n) { set->bits[n / 64] |= UINT64_C(1) << n % 64; }

/* The memory nodes (NUMA) with processors that this process may use; one without processors where there is only one, or
 * where nothing is known about them. Those past the eighth count as part of the first ones. */
typedef struct gk_nodes {
    uint32_t count;
    gk_processor_set processors[GK_MOST_NODES];
} gk_nodes;

void gk_nodes_read(gk_nodes *);

/* The folder with this machine's /sys and /proc: "", except in tests. */
extern const char *gk_machine_root;

/* Binds the calling thread to these processors, if there are any. `before`, if not NULL, becomes the processors to which it
 * was bound; empty if that did not change. */
void gk_bind(const gk_processor_set *, gk_processor_set *before);

#if defined(__linux__)
/* For a process with this affinity mask, from /sys and /proc in the folder `root` ("" for this machine). */
gk_topology gk_topology_of(const char *root, const gk_processor_set *allowed);
void gk_nodes_of(const char *root, const gk_processor_set *allowed, gk_nodes *);
#endif

#endif
