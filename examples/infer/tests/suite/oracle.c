// Feeds tokens to a model through llama.cpp, continues greedily, and stores ids and all logits.
//
//     oracle MODEL OUT COUNT TOKEN...
//
// OUT: i32 number of given tokens, i32 number of generated tokens, i32 size of the vocabulary, the generated ids as
// i32, and one row of f32 logits after each given or generated token.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "llama.h"

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

// Feeds tokens and appends a row of logits for each.
static int feed(struct llama_context *context, llama_token *tokens, int count, int first, int vocabulary, FILE *out) {
    struct llama_batch batch = llama_batch_init(count, 0, 1);
    batch.n_tokens = count;
    for (int i = 0; i < count; i++) {
        batch.token[i] = tokens[i];
        batch.pos[i] = first + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    int failed = llama_decode(context, batch);
    for (int i = 0; i < count && !failed; i++) {
        failed = fwrite(llama_get_logits_ith(context, i), sizeof(float), (size_t)vocabulary, out) != (size_t)vocabulary;
    }
    llama_batch_free(batch);
    return failed;
}

static llama_token best(const float *logits, int vocabulary) {
    int best = 0;
    for (int id = 1; id < vocabulary; id++) {
        if (logits[id] > logits[best]) {
            best = id;
        }
    }
    return best;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        return 2;
    }
    const int written = atoi(argv[3]), given = argc - 4;
    llama_token *tokens = calloc((size_t)(given + written), sizeof(llama_token));
    for (int i = 0; i < given; i++) {
        tokens[i] = atoi(argv[4 + i]);
    }
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (!model) {
        return 3;
    }
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)(given + written);
    params.n_batch = params.n_ubatch = params.n_ctx;
    params.n_threads = params.n_threads_batch = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = params.type_v = GGML_TYPE_F32;
    struct llama_context *context = llama_init_from_model(model, params);
    FILE *out = fopen(argv[2], "wb");
    if (!context || !out) {
        return 4;
    }
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    const int32_t header[3] = {given, written, vocabulary};
    fwrite(header, sizeof header, 1, out);
    // The ids are not known yet.
    fwrite(tokens + given, sizeof(llama_token), (size_t)written, out);
    int failed = feed(context, tokens, given, 0, vocabulary, out);
    int row = given - 1;
    for (int i = given; i < given + written && !failed; i++) {
        tokens[i] = best(llama_get_logits_ith(context, row), vocabulary);
        failed = feed(context, tokens + i, 1, i, vocabulary, out);
        row = 0;
    }
    fseek(out, sizeof header, SEEK_SET);
    fwrite(tokens + given, sizeof(llama_token), (size_t)written, out);
    if (fclose(out) != 0 || failed) {
        return 5;
    }
    llama_free(context);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
