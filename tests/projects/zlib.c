// Compresses a text and decompresses it.
#include <stdio.h>
#include <string.h>

#include "zlib-ng.h"

int probe(const char *text) {
    const size_t length = strlen(text);
    unsigned char packed[512], back[512];
    size_t packed_length = sizeof(packed), back_length = sizeof(back);
    if (zng_compress(packed, &packed_length, (const unsigned char *)text, length) != Z_OK) {
        return 2;
    }
    if (zng_uncompress(back, &back_length, packed, packed_length) != Z_OK || memcmp(back, text, length) != 0) {
        return 3;
    }
    printf("%zu bytes restored\n", back_length);
    return 0;
}
