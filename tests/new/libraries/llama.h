#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "ggml-backend.h"
#define LLAMA_PLAYED 1
enum ggml_log_level { GGML_LOG_LEVEL_INFO = 2, GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char *text, void *user_data);
typedef int32_t llama_token;
struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_sampler;
struct llama_model_params { ggml_backend_dev_t *devices; int32_t n_gpu_layers; bool vocab_only; };
struct llama_context_params { uint32_t n_ctx; };
struct llama_batch { int32_t n_tokens; llama_token *token; };
void llama_backend_init(void);
void llama_log_set(ggml_log_callback log_callback, void *user_data);
const char *llama_print_system_info(void);
struct llama_model_params llama_model_default_params(void);
struct llama_model *llama_model_load_from_file(const char *path, struct llama_model_params params);
void llama_model_free(struct llama_model *model);
int32_t llama_model_desc(const struct llama_model *model, char *text, size_t size);
int32_t llama_model_n_ctx_train(const struct llama_model *model);
const struct llama_vocab *llama_model_get_vocab(const struct llama_model *model);
int32_t llama_tokenize(const struct llama_vocab *vocab, const char *text, int32_t text_len, llama_token *tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const struct llama_vocab *vocab, llama_token token, char *text, int32_t length, int32_t lstrip, bool special);
bool llama_vocab_is_eog(const struct llama_vocab *vocab, llama_token token);
struct llama_context_params llama_context_default_params(void);
struct llama_context *llama_init_from_model(struct llama_model *model, struct llama_context_params params);
void llama_free(struct llama_context *context);
uint32_t llama_n_batch(const struct llama_context *context);
struct llama_batch llama_batch_get_one(llama_token *tokens, int32_t n_tokens);
int32_t llama_decode(struct llama_context *context, struct llama_batch batch);
struct llama_sampler *llama_sampler_init_greedy(void);
void llama_sampler_free(struct llama_sampler *sampler);
llama_token llama_sampler_sample(struct llama_sampler *sampler, struct llama_context *context, int32_t index);
