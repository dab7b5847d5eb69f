// A model whose tokens are bytes, and which continues `abc` with `def` up to `z`.
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
struct llama_model { uint64_t size; };
struct llama_context { uint32_t left; llama_token last; };
struct llama_sampler { int unused; };
static ggml_log_callback log_to;
void llama_backend_init(void) {}
void llama_log_set(ggml_log_callback log_callback, void *user_data) { (void)user_data; log_to = log_callback; }
static void say(enum ggml_log_level level, const char *text) {
    if (log_to) log_to(level, text, NULL); else fputs(text, stderr);
}
const char *llama_print_system_info(void) { return "PLAYED = 1 | "; }
struct llama_model_params llama_model_default_params(void) {
    struct llama_model_params params = {NULL, -1, false};
    return params;
}
struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params) {
    // Without a GPU, a program has to say so.
    FILE *file = params.n_gpu_layers == 0 && params.devices && !params.devices[0] ? fopen(path, "rb") : NULL;
    if (!file) {
        say(GGML_LOG_LEVEL_ERROR, "played: no such model\n");
        return NULL;
    }
    say(GGML_LOG_LEVEL_INFO, "played: loading\n");
    struct llama_model *model = malloc(sizeof *model);
    for (model->size = 0; fgetc(file) != EOF; ++model->size) {}
    fclose(file);
    return model;
}
void llama_model_free(struct llama_model *model) { free(model); }
int32_t llama_model_desc(const struct llama_model *model, char *text, size_t size) {
    return snprintf(text, size, "played F32, %d bytes", (int)model->size);
}
int32_t llama_model_n_ctx_train(const struct llama_model *model) { (void)model; return 32; }
const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model) { return (const struct llama_vocab *)model; }
int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text, int32_t text_len, llama_token *tokens, int32_t n_tokens_max, bool add_special, bool parse_special) {
    (void)vocab; (void)parse_special;
    if (!add_special || n_tokens_max < text_len) return -text_len;
    for (int32_t index = 0; index < text_len; ++index) tokens[index] = text[index];
    return text_len;
}
int32_t llama_token_to_piece(const struct llama_vocab *vocab, llama_token token, char *text, int32_t length, int32_t lstrip, bool special) {
    (void)vocab; (void)length; (void)lstrip; (void)special;
    text[0] = (char)token;
    return 1;
}
bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token) { (void)vocab; return token > 'z'; }
struct llama_context_params llama_context_default_params(void) {
    struct llama_context_params params = {512};
    return params;
}
struct llama_context *llama_init_from_model(struct llama_model *model, struct llama_context_params params) {
    struct llama_context *context = malloc(sizeof *context);
    (void)model;
    context->left = params.n_ctx;
    return context;
}
void llama_free(struct llama_context *context) { free(context); }
uint32_t llama_n_batch(const struct llama_context *context) { (void)context; return 2; }
struct llama_batch llama_batch_get_one(llama_token *tokens, int32_t n_tokens) {
    struct llama_batch batch = {n_tokens, tokens};
    return batch;
}
int32_t llama_decode(struct llama_context *context, struct llama_batch batch) {
    if (batch.n_tokens > 2 || (uint32_t)batch.n_tokens > context->left) return 1;
    context->left -= (uint32_t)batch.n_tokens;
    context->last = batch.token[batch.n_tokens - 1];
    return 0;
}
struct llama_sampler *llama_sampler_init_greedy(void) { return malloc(sizeof(struct llama_sampler)); }
void llama_sampler_free(struct llama_sampler *sampler) { free(sampler); }
llama_token llama_sampler_sample(struct llama_sampler *sampler, struct llama_context *context, int32_t index) {
    (void)sampler; (void)index;
    return context->last + 1;
}
