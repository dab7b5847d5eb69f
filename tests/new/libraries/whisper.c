#include "whisper.h"
#include <stdlib.h>
#include <stdio.h>
static ggml_log_callback logger;
void whisper_log_set(ggml_log_callback callback, void *data) { (void)data; logger = callback; }
struct whisper_context { int words, segments; char texts[2][64]; };
static const char *names[] = {"en", "de"};
const char *whisper_print_system_info(void) { return "PLAYED = 1 | "; }
int whisper_lang_max_id(void) { return 1; }
const char *whisper_lang_str(int id) { return names[id]; }
struct whisper_context_params whisper_context_default_params(void) { struct whisper_context_params params = {true, 0}; return params; }
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params) {
    FILE *file = fopen(path, "r");
    if (params.use_gpu || !file) return NULL;
    fclose(file);
    if (logger) logger(GGML_LOG_LEVEL_INFO, "played: loading\n", NULL);
    else fputs("played: loading\n", stderr);
    struct whisper_context *context = malloc(sizeof *context);
    context->words = (int)ggml_backend_dev_count();
    return context;
}
int whisper_model_n_vocab(struct whisper_context *context) { return context->words; }
int whisper_model_n_audio_layer(struct whisper_context *context) { (void)context; return 2; }
int whisper_model_n_text_layer(struct whisper_context *context) { (void)context; return 3; }
void whisper_free(struct whisper_context *context) { free(context); }
struct whisper_full_params whisper_full_default_params(enum whisper_sampling_strategy strategy) { (void)strategy; struct whisper_full_params params = {0}; return params; }
int whisper_is_multilingual(struct whisper_context *context) { (void)context; return 0; }
int whisper_full(struct whisper_context *context, struct whisper_full_params params, const float *samples, int count) {
    float most = 0;
    for (int i = 0; i < count; ++i) if (samples[i] > most) most = samples[i];
    if (params.print_progress || params.n_threads < 1) return -1;
    snprintf(context->texts[0], 64, " %d samples ", count);
    snprintf(context->texts[1], 64, " up to %.0f in %s", most * 1000, params.language);
    for (context->segments = 1; context->segments <= 2; ++context->segments)
        params.new_segment_callback(context, NULL, 1, params.new_segment_callback_user_data);
    context->segments = 2;
    return 0;
}
int whisper_full_n_segments(struct whisper_context *context) { return context->segments; }
int64_t whisper_full_get_segment_t0(struct whisper_context *context, int index) { (void)context; return index ? 6100 : 0; }
int64_t whisper_full_get_segment_t1(struct whisper_context *context, int index) { (void)context; return index ? 6250 : 100; }
const char *whisper_full_get_segment_text(struct whisper_context *context, int index) { return context->texts[index]; }
