#pragma once
#include <stdbool.h>
#include "ggml-backend.h"
struct whisper_context;
struct whisper_context_params { bool use_gpu; int gpu_device; };
const char *whisper_print_system_info(void);
int whisper_lang_max_id(void);
const char *whisper_lang_str(int id);
struct whisper_context_params whisper_context_default_params(void);
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params);
int whisper_model_n_vocab(struct whisper_context *context);
int whisper_model_n_audio_layer(struct whisper_context *context);
int whisper_model_n_text_layer(struct whisper_context *context);
void whisper_free(struct whisper_context *context);
