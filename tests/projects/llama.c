// Loads a model and prints the logits of a few tokens. PROBE_LAYERS is the number of layers on a GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN) {
        fputs(text, stderr);
    }
}

// Prints the project's shared libraries in this process, one per line.
static void modules(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096], last[4096] = "";
    while (maps && fgets(line, sizeof line, maps)) {
        char *name = strrchr(line, '/');
        if (name && strncmp(name, "/libggml-", 9) == 0 && strcmp(name, last) != 0) {
            printf("module %s", name + 1);
            strcpy(last, name);
        }
    }
    if (maps) {
        fclose(maps);
    }
}

int probe(const char *path) {
    llama_log_set(quiet, NULL);
    llama_backend_init();
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        printf("device %s\n", ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    modules();
    struct llama_model_params model_params = llama_model_default_params();
    const char *layers = getenv("PROBE_LAYERS");
    model_params.n_gpu_layers = layers ? atoi(layers) : 0;
    struct llama_model *model = llama_model_load_from_file(path, model_params);
    if (!model) {
        return 2;
    }
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    params.n_batch = 16;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context) {
        return 3;
    }
    llama_token tokens[] = {1, 7, 3, 11};
    if (llama_decode(context, llama_batch_get_one(tokens, 4)) != 0) {
        return 4;
    }
    const float *logits = llama_get_logits_ith(context, -1);
    const int count = llama_vocab_n_tokens(llama_model_get_vocab(model));
    printf("logits");
    for (int i = 0; i < count; i++) {
        printf(" %.5f", logits[i]);
    }
    printf("\n");
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
