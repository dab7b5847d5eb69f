/* gk-budget <table> [--update]: runs every kernel of CUDA with shapes of a model on the watched driver, and compares what its accesses
 * cost (count.cpp) with the committed table. Exit code 0, or 1 with a line for each difference. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "gk_internal.h"

enum { ARENA = 32 << 20, LINE = 256, MOST_ROWS = 512, COLUMNS = 6 };

static const char *const columns = "blocks lines sectors bank-cycles barriers bytes";

typedef struct row {
    char kernel[64], shape[96];
    unsigned long long count[COLUMNS];
} row;

typedef struct table {
    row rows[MOST_ROWS];
    int count;
} table;

static const gk_backend *backend;
static gk_device *device;
static gk_buffer *arena;
static uint64_t used;
static const char *(*counts)(void);
static table measured;

static void check(gk_status status, const char *what) {
    if (status == GK_OK) return;
    fprintf(stderr, "gk-budget: %s: %s: %s\n", what, gk_status_text(status), device ? backend->last_error(device) : "");
    exit(1);
}

static bool parse(const char *line, row *out) {
    unsigned long long *n = out->count;
    return sscanf(line, "%63s %95s %llu %llu %llu %llu %llu %llu", out->kernel, out->shape, n, n + 1, n + 2, n + 3, n + 4, n + 5) == 2 + COLUMNS;
}

static void add(table *to, const row *one) {
    if (to->count == MOST_ROWS) check(GK_OUT_OF_MEMORY, "too many rows");
    to->rows[to->count++] = *one;
}

static const row *find(const table *in, const char *kernel, const char *shape) {
    for (int n = 0; n < in->count; n++)
        if (strcmp(in->rows[n].kernel, kernel) == 0 && (!shape || strcmp(in->rows[n].shape, shape) == 0)) return &in->rows[n];
    return NULL;
}

/* ---- ops ---- */

static gk_tensor slice(uint32_t type, uint32_t ne0, uint32_t ne1, uint64_t bytes) {
    const gk_tensor made = {.buffer = arena, .offset = used, .type = type, .ne = {ne0, ne1, 1, 1}};
    used += (bytes + 255) / 256 * 256;
    return made;
}

static gk_tensor tensor(uint32_t type, uint32_t ne0, uint32_t ne1) {
    return slice(type, ne0, ne1, (uint64_t)ne0 * ne1 * (type == GK_F16 ? 2 : 4));
}

static gk_tensor weight(uint32_t type, uint32_t ne0, uint32_t ne1) {
    return slice(type, ne0, ne1, backend->weight_bytes(device, type, ne0, ne1));
}

/* Adds a row for each kernel that the text of the driver lists. */
static void collect(const char *shape) {
    for (const char *line = counts(); *line; line = strchr(line, '\n') + 1) {
        row one;
        char text[LINE];
        const int name = (int)strcspn(line, " ");
        snprintf(text, sizeof text, "%.*s %s%.*s", name, line, shape, (int)strcspn(line + name, "\n"), line + name);
        if (!parse(text, &one)) check(GK_FAILED, text);
        if (!find(&measured, one.kernel, one.shape) && strcmp(one.kernel, "set_step") != 0) add(&measured, &one);
    }
}

/* Runs an op, and forgets its operands. */
static void run(const gk_op *op, uint32_t tokens, uint32_t position, const char *format, ...) {
    char shape[96];
    va_list list;
    va_start(list, format);
    vsnprintf(shape, sizeof shape, format, list);
    va_end(list);
    const gk_step step = {.n_tok = tokens, .pos = position};
    gk_plan *plan = NULL;
    if (used > ARENA) check(GK_OUT_OF_MEMORY, shape);
    check(backend->plan_build(device, op, 1, &plan), shape);
    check(backend->plan_run(device, plan, &step, 1), shape);
    check(backend->sync(device), shape);
    backend->plan_free(device, plan);
    collect(shape);
    used = 4096; /* after the ids of tokens */
}

static gk_tensor ids(uint32_t count) { return (gk_tensor){.buffer = arena, .type = GK_I32, .ne = {count, 1, 1, 1}}; }

static const uint32_t types[] = {GK_F32, GK_F16, GK_BF16, GK_Q8_0, GK_Q4_0, GK_Q4_K, GK_Q6_K};
enum { TYPES = sizeof types / sizeof *types };

static void products(uint32_t type, uint32_t k, uint32_t n, uint32_t tokens) {
    gk_op op = {.code = GK_OP_MATMUL};
    op.a = weight(type, k, n), op.b = tensor(GK_F32, k, tokens), op.dst = tensor(GK_F32, n, tokens);
    run(&op, tokens, 0, "%s,k=%u,n=%u,t=%u", gk_type_name(type), k, n, tokens);
    if (tokens > 8) return;
    op.code = GK_OP_GATE_UP;
    op.a = weight(type, k, n), op.d = weight(type, k, n), op.b = tensor(GK_F32, k, tokens), op.dst = tensor(GK_F32, n, tokens);
    run(&op, tokens, 0, "%s,k=%u,n=%u,t=%u", gk_type_name(type), k, n, tokens);
}

static void attention(uint32_t type, uint32_t heads, uint32_t heads_kv, uint32_t width, uint32_t tokens, uint32_t position) {
    gk_op op = {.code = GK_OP_ATTENTION, .i = {(int32_t)heads, (int32_t)heads_kv, (int32_t)width}, .f = {0.1f}};
    op.a = tensor(GK_F32, heads * width, tokens), op.dst = tensor(GK_F32, heads * width, tokens);
    op.b = tensor(type, heads_kv * width, 512), op.c = tensor(type, heads_kv * width, 512);
    run(&op, tokens, position, "%s,heads=%u/%u,d=%u,pos=%u,t=%u", gk_type_name(type), heads, heads_kv, width, position, tokens);
}

static void rows_and_elements(void) {
    for (int n = 0; n < TYPES; n++) {
        gk_op op = {.code = GK_OP_EMBED};
        op.a = weight(types[n], 4096, 8), op.b = ids(1), op.dst = tensor(GK_F32, 4096, 1);
        run(&op, 1, 0, "k=4096,t=1");
    }
    gk_op norm = {.code = GK_OP_RMSNORM, .f = {1e-5f}};
    norm.a = tensor(GK_F32, 4096, 1), norm.b = tensor(GK_F32, 4096, 1), norm.dst = tensor(GK_F32, 4096, 1);
    run(&norm, 1, 0, "k=4096,t=1");
    gk_op rope = {.code = GK_OP_ROPE, .i = {32, 128, 128}};
    rope.a = rope.dst = tensor(GK_F32, 4096, 1), rope.b = tensor(GK_F32, 128, 64);
    run(&rope, 1, 7, "heads=32,d=128,t=1");
    for (uint16_t code = GK_OP_SWIGLU; code <= GK_OP_SOFTMAX; code++) {
        gk_op op = {.code = code, .f = {1}};
        op.a = tensor(GK_F32, 14336, 1), op.dst = tensor(GK_F32, 14336, 1);
        if (code != GK_OP_SILU && code != GK_OP_SOFTMAX) op.b = tensor(GK_F32, 14336, 1);
        run(&op, 1, 0, "k=14336,t=1");
    }
    for (int n = 0; n < 4; n++) {
        gk_op op = {.code = GK_OP_COPY};
        op.a = tensor(types[n / 2], 4096, 1), op.dst = tensor(types[n % 2], 4096, 1);
        run(&op, 1, 0, "k=4096,t=1");
    }
    for (int n = 0; n < 4; n++) {
        gk_op op = {.code = n < 2 ? GK_OP_KV_WRITE : GK_OP_ROPE_KV, .flags = n < 2 ? 0 : GK_NEOX, .i = {8, 128, n < 2 ? 0 : 128}};
        op.a = tensor(GK_F32, 1024, 1), op.b = tensor(GK_F32, 1024, 1);
        op.dst = tensor(types[n % 2], 1024, 64), op.c = tensor(types[n % 2], 1024, 64);
        if (n >= 2) op.d = tensor(GK_F32, 128, 64);
        run(&op, 1, 7, "heads=8,d=128,t=1");
    }
    gk_op step = {.code = GK_OP_STEP};
    step.a = ids(1), step.b = tensor(GK_I32, 1, 1), step.dst = tensor(GK_I32, 64, 1);
    run(&step, 1, 0, "t=1");
}

static void selection(uint32_t n, uint32_t k) {
    gk_op op = {.code = k ? GK_OP_TOPK : GK_OP_ARGMAX, .i = {(int32_t)k}};
    op.a = tensor(GK_F32, n, 1), op.dst = tensor(GK_I32, k ? k : 1, 1);
    if (k) op.c = tensor(GK_F32, k, 1);
    run(&op, 1, 0, "n=%u,k=%u", n, k ? k : 1);
}

/* Every kernel that a device with these flags uses. */
static void run_all(uint32_t flags) {
    const gk_open_options options = {.flags = flags};
    char why[512] = "";
    if (backend->open(0, &options, &device, why, sizeof why) != GK_OK) check(GK_FAILED, why);
    collect("-");
    check(backend->alloc(device, ARENA, GK_USAGE_STATE, &arena), "alloc");
    float *values = malloc(ARENA);
    uint32_t random = 1;
    if (!values) check(GK_OUT_OF_MEMORY, "values");
    for (int n = 0; n < ARENA / 4; n++) values[n] = n < 1024 ? 0 : (float)((random = random * 1664525u + 1013904223u) >> 8) / (1 << 24);
    check(backend->write(device, arena, 0, values, ARENA), "write");
    free(values);
    used = 4096;
    if (!flags) {
        rows_and_elements();
        selection(4096, 0), selection(128256, 0), selection(128256, 40), selection(152064, 256);
    }
    for (int n = 0; n < TYPES; n++) {
        products(types[n], 4096, 64, 1), products(types[n], 4096, 64, 8);
        products(types[n], 512, 64, 64);
        if (!flags && types[n] != GK_F32) products(types[n], 512, 256, 64), products(types[n], 512, 256, 256);
    }
    for (uint32_t width = 64; width <= 256; width *= 2) {
        for (uint32_t group = 1; group <= 8; group *= 2)
            for (int n = 0; n < 2; n++) attention(types[n], 8, 8 / group, width, 1, 400);
        for (int n = 0; n < 2; n++) attention(types[n], 2, 1, width, 64, 64);
    }
    backend->close(device);
    device = NULL;
}

/* ---- the table ---- */

static int compare(const table *before) {
    int different = 0;
    for (int n = 0; n < before->count + measured.count; n++) {
        const row *one = n < before->count ? &before->rows[n] : &measured.rows[n - before->count];
        const row *old = find(before, one->kernel, one->shape), *now = find(&measured, one->kernel, one->shape);
        bool same = old && now;
        /* Compilers differ a little in what they load twice. */
        for (int i = 0; i < COLUMNS && same; i++)
            same = now->count[i] * 100 <= old->count[i] * 102 && now->count[i] * 102 >= old->count[i] * 100;
        if (same || (n >= before->count && old)) continue;
        different = 1;
        printf("%s %s: %s\n", one->kernel, one->shape, !old ? "not in the table" : !now ? "no longer measured" : columns);
        for (int which = 0; which < 2 && old && now; which++) {
            printf("  %s", which ? "now:  " : "table:");
            for (int i = 0; i < COLUMNS; i++) printf(" %llu", (which ? now : old)->count[i]);
            printf("\n");
        }
    }
    return different;
}

int main(int count, char **arguments) {
    static table before;
    static const char *const kernels[] = {
#define X(name) #name,
        GK_GPU_KERNELS(X)
#undef X
    };
    gk_device_info info;
    char line[LINE], why[512] = "";
    int devices = 0, missing = 0;
    if (count < 2) check(GK_BAD_ARGUMENT, "usage: gk-budget <table> [--update]");
    backend = gk_backend_cuda();
    if (backend->enumerate(&info, 1, &devices, why, sizeof why) != GK_OK) check(GK_FAILED, why);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *function = driver ? dlsym(driver, "gk_emulated_counts") : NULL;
    if (!function) check(GK_NO_DRIVER, "not the watched driver");
    memcpy(&counts, &function, sizeof counts);
    (void)counts();
    run_all(0);
    run_all(GK_OPEN_EXACT);
    for (size_t n = 0; n < sizeof kernels / sizeof *kernels; n++) {
        if (find(&measured, kernels[n], NULL) || strcmp(kernels[n], "set_step") == 0) continue;
        printf("%s: no shape here runs it\n", kernels[n]);
        missing = 1;
    }
    FILE *file = fopen(arguments[1], count > 2 ? "w" : "r");
    if (!file) check(GK_FAILED, arguments[1]);
    if (count > 2) {
        fprintf(file, "# What one launch of each CUDA kernel accesses, in the emulation. Written and compared by gk-budget (budget.c, count.cpp).\n"
                      "kernel shape %s\n", columns);
        for (int n = 0; n < measured.count; n++) {
            fprintf(file, "%s %s", measured.rows[n].kernel, measured.rows[n].shape);
            for (int i = 0; i < COLUMNS; i++) fprintf(file, " %llu", measured.rows[n].count[i]);
            fprintf(file, "\n");
        }
        return fclose(file) != 0 || missing;
    }
    for (row one; fgets(line, sizeof line, file);)
        if (parse(line, &one)) add(&before, &one);
    (void)fclose(file);
    if (compare(&before) || missing) {
        printf("gk-budget: if that is intended: gk-budget %s --update, and the reason in the commit\n", arguments[1]);
        return 1;
    }
    printf("%d rows as in the table\n", before.count);
    return 0;
}
