/* Reads AMD GPUs from /sys/class/kfd on Linux: architecture and kind of the GPU with a given PCI address. HIP
 * reports the architecture only in a structure whose layout changed between versions. */
#ifndef GK_ROCM_KFD_H
#define GK_ROCM_KFD_H

#include <stdio.h>
#include <stdlib.h>

#include "gk_internal.h"

typedef struct kfd_node {
    unsigned long long domain, location, version, cpu_cores, simds;
} kfd_node;

/* Lines of `name value`; unknown names are skipped. */
static void kfd_parse_line(const char *line, kfd_node *node) {
    char name[48];
    unsigned long long value;
    if (sscanf(line, "%47s %llu", name, &value) != 2) return;
    if (strcmp(name, "domain") == 0) node->domain = value;
    else if (strcmp(name, "location_id") == 0) node->location = value;
    else if (strcmp(name, "gfx_target_version") == 0) node->version = value;
    else if (strcmp(name, "cpu_cores_count") == 0) node->cpu_cores = value;
    else if (strcmp(name, "simd_count") == 0) node->simds = value;
}

/* 90402 -> "gfx942", 90010 -> "gfx90a": decimal pairs, the last one written in hexadecimal. */
static void kfd_arch(unsigned long long version, char *out, size_t capacity) {
    gk_text(out, capacity, "gfx%llu%llx%llx", version / 10000, version / 100 % 100, version % 100);
}

/* location_id is bus << 8 | device << 3 | function. */
static void kfd_pci(const kfd_node *node, char *out, size_t capacity) {
    gk_text(out, capacity, "%04llx:%02llx:%02llx.%llx", node->domain, node->location >> 8 & 0xff, node->location >> 3 & 0x1f,
            node->location & 7);
}

static void kfd_describe(gk_device_info *info) {
    for (int number = 0; number < 128; number++) {
        char text[96];
        char pci[32];
        kfd_node node = {0, 0, 0, 0, 0};
        gk_text(text, sizeof text, "/sys/class/kfd/kfd/topology/nodes/%d/properties", number);
        FILE *file = fopen(text, "r");
        if (!file) return; /* the numbers have no gaps */
        while (fgets(text, sizeof text, file)) kfd_parse_line(text, &node);
        (void)fclose(file);
        kfd_pci(&node, pci, sizeof pci);
        if (node.simds == 0 || strcmp(pci, info->pci) != 0) continue;
        kfd_arch(node.version, info->arch, sizeof info->arch);
        if (node.cpu_cores) info->kind = GK_KIND_INTEGRATED;
        return;
    }
}

#endif
