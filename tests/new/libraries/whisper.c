#include "whisper.h"
#include <stdlib.h>
struct whisper_context { int words; };
static const char *names[] = {"en", "de"};
const char *whisper_print_system_info(void) { return "PLAYED = 1 | "; }
int whisper_lang_max_id(void) { return 1; }
const char *whisper_lang_str(int id) { return names[id]; }
struct whisper_context_params whisper_context_default_params(void) { struct whisper_context_params params = {true, 0}; return params; }
struct whisper_context *whisper_init_from_file_with_params(const char *path, struct whisper_context_params params) {
    if (params.use_gpu || path[0] != '/') return NULL;
    struct whisper_context *context = malloc(sizeof *context);
    context->words = (int)ggml_backend_dev_count();
    return context;
}
int whisper_model_n_vocab(struct whisper_context *context) { return context->words; }
int whisper_model_n_audio_layer(struct whisper_context *context) { (void)context; return 2; }
int whisper_model_n_text_layer(struct whisper_context *context) { (void)context; return 3; }
void whisper_free(struct whisper_context *context) { free(context); }
