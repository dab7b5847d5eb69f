#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "ggml-backend.h"
enum ggml_log_level { GGML_LOG_LEVEL_INFO = 2, GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char *text, void *data);
void whisper_log_set(ggml_log_callback callback, void *data);
struct whisper_context;
struct whisper_state;
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
enum whisper_sampling_strategy { WHISPER_SAMPLING_GREEDY, WHISPER_SAMPLING_BEAM_SEARCH };
typedef void (*whisper_new_segment_callback)(struct whisper_context *context, struct whisper_state *state, int count, void *data);
struct whisper_full_params {
    int n_threads;
    bool print_progress;
    const char *language;
    whisper_new_segment_callback new_segment_callback;
    void *new_segment_callback_user_data;
};
struct whisper_full_params whisper_full_default_params(enum whisper_sampling_strategy strategy);
int whisper_is_multilingual(struct whisper_context *context);
int whisper_full(struct whisper_context *context, struct whisper_full_params params, const float *samples, int count);
int whisper_full_n_segments(struct whisper_context *context);
int64_t whisper_full_get_segment_t0(struct whisper_context *context, int index);
int64_t whisper_full_get_segment_t1(struct whisper_context *context, int index);
const char *whisper_full_get_segment_text(struct whisper_context *context, int index);
