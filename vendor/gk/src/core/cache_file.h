/* Files for binaries that a driver has compiled. Not installed. */
#ifndef GK_CACHE_FILE_H
#define GK_CACHE_FILE_H

#include "gk_internal.h"

/* Returns the contents of an undamaged file with this magic, or NULL. The caller frees them. */
uint8_t *gk_cache_read(const char *path, const char magic[8], uint64_t *bytes);
/* Replaces the file atomically: readers see the old file or the new one. Failures are ignored. */
void gk_cache_write(const char *path, const char magic[8], const uint8_t *data, uint64_t bytes);

/* FNV-1a. */
uint64_t gk_checksum(const uint8_t *data, uint64_t bytes);

#endif
