// The argument block that the emulator (tests/emulation/emulator.h) passes to a kernel: for Metal, its function and
// everything set on the encoder. Replaces src/gpu/args.h.
#ifndef GK_METAL_TEST_ARGS_H
#define GK_METAL_TEST_ARGS_H

#include <stdint.h>

struct alignas(16) gk_metal_uint3 {
    unsigned int x, y, z;
};

typedef void (*gk_metal_function)(unsigned char *, unsigned char *, unsigned char *, unsigned char *, unsigned char *,
                                  unsigned int *, const void *, gk_metal_uint3, unsigned int, unsigned int, unsigned int);

enum { GK_METAL_OPERANDS = 6, GK_METAL_BYTES = 64 };

struct gk_gpu_args {
    gk_metal_function function;
    unsigned char *operand[GK_METAL_OPERANDS];
    alignas(16) unsigned char bytes[GK_METAL_BYTES];
};

#endif
