/* Runs llama.cpp's tokenizer: one line of token ids for each text. Hashes of the results are in
 * tests/suite/hard_strings.txt; the test of the same name documents how to run it.
 *
 * usage: tokenize VOCABULARY.gguf TEXTS plain|parse
 * TEXTS holds each text as its length in bytes (32 bits little-endian) and its bytes. */

#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void silent(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int fail(const char * what) {
    fprintf(stderr, "tokenize: %s\n", what);
    return 1;
}

int main(int count, char ** arguments) {
    if (count != 4) return fail("three arguments are required");
    llama_log_set(silent, NULL);
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    struct llama_model * model = llama_model_load_from_file(arguments[1], params);
    if (!model) return fail("the vocabulary cannot be loaded");
    const struct llama_vocab * vocab = llama_model_get_vocab(model);
    FILE * texts = fopen(arguments[2], "rb");
    if (!texts) return fail("the texts cannot be opened");
    const bool parse = strcmp(arguments[3], "parse") == 0;
    unsigned char size[4];
    while (fread(size, 1, 4, texts) == 4) {
        const int32_t length = (int32_t) (size[0] | size[1] << 8 | size[2] << 16 | (unsigned) size[3] << 24);
        char * text = malloc((size_t) length + 1);
        const int32_t room = 8 * length + 16;
        llama_token * ids = malloc(sizeof *ids * (size_t) room);
        if (!text || !ids) return fail("no memory");
        if (fread(text, 1, (size_t) length, texts) != (size_t) length) return fail("the texts are truncated");
        const int32_t found = llama_tokenize(vocab, text, length, ids, room, false, parse);
        if (found < 0) return fail("more than eight tokens per byte");
        for (int32_t i = 0; i < found; i++) printf(i ? " %d" : "%d", ids[i]);
        putchar('\n');
        free(ids);
        free(text);
    }
    fclose(texts);
    llama_model_free(model);
    return 0;
}
