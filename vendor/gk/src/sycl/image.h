/* Kernels in SPIR-V as compile.cpp writes and driver.cpp reads them: entry, module, entry, module, to the end. Both are
 * built together, so there is no version. */
#ifndef GK_SYCL_IMAGE_H
#define GK_SYCL_IMAGE_H

#include <stdint.h>

#define GK_SYCL_SUB_GROUP 32 /* lanes that run together: what the kernels are compiled for */

typedef struct gk_sycl_entry {
    char name[60]; /* of the one kernel in the module, with a zero at its end */
    uint32_t bytes; /* of the module, a multiple of 4 */
} gk_sycl_entry;

#endif
