/* gk-test: compares backends with the float64 reference. */
#include <stdio.h>

#include "gk.h"

int main(void) {
    printf("gk-test: %s\n", gk_op_name(GK_OP_MATMUL));
    return 0;
}
