/* Files for binaries that a driver has compiled: a magic, the length and a checksum, then the driver's bytes,
 * because not every driver survives a damaged cache. A file that does not match in any of these counts as absent. */
#include "cache_file.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#define PROCESS_ID() ((unsigned long)GetCurrentProcessId())
#else
#include <unistd.h>
#define PROCESS_ID() ((unsigned long)getpid())
#endif

#define MAX_CACHE_BYTES ((uint64_t)256 << 20)

typedef struct file_header {
    char magic[8];
    uint64_t bytes;
    uint64_t checksum;
} file_header;

uint64_t gk_checksum(const uint8_t *data, uint64_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (uint64_t n = 0; n < bytes; n++) hash = (hash ^ data[n]) * 0x100000001b3u;
    return hash;
}

#ifdef _WIN32
/* Converts a UTF-8 path; NULL if it is not valid UTF-8. The caller frees it. */
static wchar_t *wide(const char *path) {
    int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *out = length > 0 ? calloc((size_t)length, sizeof *out) : NULL;
    if (out != NULL) MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, length);
    return out;
}

static FILE *open_file(const char *path, const char *mode) {
    wchar_t *name = wide(path);
    FILE *file = name != NULL ? _wfopen(name, mode[0] == 'r' ? L"rb" : L"wb") : NULL;
    free(name);
    return file;
}

static bool replace_file(const char *from, const char *to) {
    wchar_t *source = wide(from), *target = wide(to);
    bool done = source != NULL && target != NULL && MoveFileExW(source, target, MOVEFILE_REPLACE_EXISTING);
    free(source);
    free(target);
    return done;
}

static void remove_file(const char *path) {
    wchar_t *name = wide(path);
    if (name != NULL) DeleteFileW(name);
    free(name);
}
#else
static FILE *open_file(const char *path, const char *mode) { return fopen(path, mode); }
static bool replace_file(const char *from, const char *to) { return rename(from, to) == 0; }
static void remove_file(const char *path) { remove(path); }
#endif

uint8_t *gk_cache_read(const char *path, const char magic[8], uint64_t *bytes) {
    *bytes = 0;
    FILE *file = open_file(path, "rb");
    if (file == NULL) return NULL;
    file_header header;
    uint8_t *data = NULL;
    if (fread(&header, sizeof header, 1, file) == 1 && memcmp(header.magic, magic, sizeof header.magic) == 0 &&
        header.bytes != 0 && header.bytes <= MAX_CACHE_BYTES) {
        data = malloc((size_t)header.bytes);
        if (data != NULL && (fread(data, (size_t)header.bytes, 1, file) != 1 || fgetc(file) != EOF ||
                             gk_checksum(data, header.bytes) != header.checksum)) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    if (data != NULL) *bytes = header.bytes;
    return data;
}

void gk_cache_write(const char *path, const char magic[8], const uint8_t *data, uint64_t bytes) {
    size_t room = strlen(path) + 32;
    char *temporary = malloc(room);
    if (temporary == NULL) return;
    /* The address distinguishes two devices of one process. */
    gk_text(temporary, room, "%s.%lx.%lx", path, PROCESS_ID() & 0xffffffffu, (unsigned long)((uintptr_t)data & 0xffffffffu));
    FILE *file = open_file(temporary, "wb");
    if (file != NULL) {
        file_header header = {.bytes = bytes, .checksum = gk_checksum(data, bytes)};
        memcpy(header.magic, magic, sizeof header.magic);
        bool written = fwrite(&header, sizeof header, 1, file) == 1 && fwrite(data, (size_t)bytes, 1, file) == 1;
        written = fclose(file) == 0 && written;
        if (!written || !replace_file(temporary, path)) remove_file(temporary);
    }
    free(temporary);
}
