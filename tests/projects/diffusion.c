// Prints the system information of stable-diffusion.cpp.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stable-diffusion.h"

int probe(const char *argument) {
    (void)argument;
    printf("system %s\n", sd_get_system_info());
    printf("type %s\n", sd_type_name(SD_TYPE_Q8_0));
    return sd_get_num_physical_cores() > 0 ? 0 : 2;
}
