/* Kernels in SPIR-V, written by compile.cpp and read by driver.cpp: entry, module, entry, module, and so on. Both
 * are built together, so the format needs no version. */
#ifndef GK_SYCL_IMAGE_H
#define GK_SYCL_IMAGE_H

#include <stdint.h>

#define GK_SYCL_SUB_GROUP 32 /* lanes per sub-group for which the kernels are compiled */

typedef struct gk_sycl_entry {
    char name[60]; /* of the only kernel in the module, terminated by a zero */
    uint32_t bytes; /* of the module, a multiple of 4 */
} gk_sycl_entry;

#endif
