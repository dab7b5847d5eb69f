/* Adds two arrays and checks the sums: tests the compiler, the linker and the C library. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    enum { count = 1024 };
    float *a = malloc(count * sizeof(float)), *b = malloc(count * sizeof(float));
    if (a == NULL || b == NULL) return 1;
    for (int i = 0; i < count; i++) a[i] = (float)i, b[i] = 2.0f * (float)i;
    for (int i = 0; i < count; i++) a[i] += b[i];
    for (int i = 0; i < count; i++)
        if (a[i] != 3.0f * (float)i) {
            fprintf(stderr, "result: element %d is %g\n", i, (double)a[i]);
            return 1;
        }
    free(a), free(b);
    printf("ok: processor\n");
    return 0;
}
