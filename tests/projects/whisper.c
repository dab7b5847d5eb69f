// Prints the system information of whisper.cpp, tries to load an invalid model, and prints logits of a valid one.
#include <stdio.h>

#include "whisper.h"

#define MELS 80
#define FRAMES 64
#define SHOWN 48

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int probe(const char *path) {
    whisper_log_set(quiet, NULL);
    printf("languages %d\n", whisper_lang_max_id() + 1);
    printf("system %s\n", whisper_print_system_info());
    struct whisper_context_params params = whisper_context_default_params();
    params.use_gpu = false;
    struct whisper_context *context = whisper_init_from_file_with_params("/dev/null", params);
    printf("context %s\n", context ? "made" : "refused");
    whisper_free(context);

    context = whisper_init_from_file_with_params(path, params);
    if (!context) {
        return 12;
    }
    static float sound[MELS * FRAMES];
    for (int i = 0; i < MELS * FRAMES; i++) {
        sound[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
    }
    const whisper_token tokens[] = {50257, 50362, 7};
    if (whisper_set_mel(context, sound, FRAMES, MELS) != 0 || whisper_encode(context, 0, 2) != 0 ||
        whisper_decode(context, tokens, 3, 0, 2) != 0) {
        return 13;
    }
    // Only the row of the last token is computed.
    const float *logits = whisper_get_logits(context) + 2 * whisper_model_n_vocab(context);
    printf("heard");
    for (int i = 0; i < SHOWN; i++) {
        printf(" %.5f", logits[i]);
    }
    printf("\n");
    whisper_free(context);
    return 0;
}
