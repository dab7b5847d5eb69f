// Asks whisper.cpp for itself, and has it refuse a file that is no model.
#include <stdio.h>

#include "whisper.h"

int probe(const char *path) {
    printf("languages %d\n", whisper_lang_max_id() + 1);
    printf("system %s\n", whisper_print_system_info());
    struct whisper_context *context = whisper_init_from_file_with_params(path, whisper_context_default_params());
    printf("context %s\n", context ? "made" : "refused");
    whisper_free(context);
    return 0;
}
