/* Files that keep what a driver has compiled. Not installed. */
#ifndef GK_CACHE_FILE_H
#define GK_CACHE_FILE_H

#include "gk_internal.h"

/* The bytes of a whole and undamaged file with this magic, to be freed; NULL if there is none. */
uint8_t *gk_cache_read(const char *path, const char magic[8], uint64_t *bytes);
/* Replaces the file at once, so that readers see the old one or the new one. Failures are not errors. */
void gk_cache_write(const char *path, const char magic[8], const uint8_t *data, uint64_t bytes);

/* FNV-1a. */
uint64_t gk_checksum(const uint8_t *data, uint64_t bytes);

#endif
