// Multiplies two matrices on every device and compares the product with a reference in double precision.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

enum { K = 96, M = 24, N = 16 };

static int on_device(ggml_backend_dev_t device, const float *a, const float *b) {
    ggml_backend_t backend = ggml_backend_dev_init(device, NULL);
    if (!backend) {
        return 2;
    }
    struct ggml_init_params params = {ggml_tensor_overhead() * 8 + ggml_graph_overhead(), NULL, true};
    struct ggml_context *context = ggml_init(params);
    struct ggml_tensor *left = ggml_new_tensor_2d(context, GGML_TYPE_F32, K, M);
    struct ggml_tensor *right = ggml_new_tensor_2d(context, GGML_TYPE_F32, K, N);
    struct ggml_tensor *product = ggml_mul_mat(context, left, right);
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, product);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
    ggml_backend_tensor_set(left, a, 0, sizeof(float) * K * M);
    ggml_backend_tensor_set(right, b, 0, sizeof(float) * K * N);
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) {
        return 3;
    }
    static float got[M * N];
    ggml_backend_tensor_get(product, got, 0, sizeof(got));
    double worst = 0;
    for (int n = 0; n < N; n++) {
        for (int m = 0; m < M; m++) {
            double sum = 0;
            for (int k = 0; k < K; k++) {
                sum += (double)a[m * K + k] * b[n * K + k];
            }
            worst = fmax(worst, fabs(sum - got[n * M + m]));
        }
    }
    printf("device %s differs by %s\n", ggml_backend_dev_name(device), worst < 2e-2 ? "little" : "much");
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    ggml_backend_free(backend);
    return worst < 2e-2 ? 0 : 4;
}

int probe(const char *argument) {
    (void)argument;
    static float a[K * M], b[K * N];
    for (int i = 0; i < K * M; i++) {
        a[i] = (float)((i * 37) % 101) / 101.0f - 0.5f;
    }
    for (int i = 0; i < K * N; i++) {
        b[i] = (float)((i * 53) % 97) / 97.0f - 0.5f;
    }
    for (size_t i = 0; i < ggml_backend_reg_count(); i++) {
        printf("backend %s\n", ggml_backend_reg_name(ggml_backend_reg_get(i)));
    }
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        const int rc = on_device(ggml_backend_dev_get(i), a, b);
        if (rc) {
            return rc;
        }
    }
    return 0;
}
