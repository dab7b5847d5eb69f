/* gk-test: compares a backend with the float64 reference, op by op and plan by plan.
 *
 *   gk-test [--backend ID] [--device N | --arch NAME] [--threads N [--same-as N]] [--nodes N] [--exact] [--seed S] [--only PART] [--seconds N] [--json]
 *   gk-test --list [--json]      backends in this program and their devices
 *   gk-test --bench [--threads N] [--bytes N] [--exact]  bytes per second of matrix times vector, and of a loop that reads or a copy, as JSON
 *
 * --same-as: compares with the same device and this number of threads instead of the reference, bit by bit.
 * --nodes: as if this machine had so many memory nodes; with them, the cpu backend binds its threads.
 * --seconds: cases that would start later are skipped and counted as not run. Exit code: 0 all passed, 1 a case
 * failed, 2 usage, 3 the backend has no device. */
#include "gk_test.h"
#include "topology.h"

typedef const gk_backend *(*backend_entry)(void);

static const backend_entry BACKENDS[] = {
#ifdef GK_HAVE_CPU
    gk_backend_cpu,
#endif
#ifdef GK_HAVE_CUDA
    gk_backend_cuda,
#endif
#ifdef GK_HAVE_ROCM
    gk_backend_rocm,
#endif
#ifdef GK_HAVE_METAL
    gk_backend_metal,
#endif
#ifdef GK_HAVE_VULKAN
    gk_backend_vulkan,
#endif
#ifdef GK_HAVE_SYCL
    gk_backend_sycl,
#endif
#ifdef GK_HAVE_OPENCL
    gk_backend_opencl,
#endif
    gk_backend_ref,
};
enum { BACKEND_COUNT = sizeof BACKENDS / sizeof *BACKENDS };

typedef struct arguments {
    const char *backend;
    const char *only;
    const char *arch; /* of the device, instead of its index */
    long device;
    unsigned long long seed, bytes, threads, nodes, same_as, seconds;
    bool json, list, bench, exact, limited;
} arguments;

/* ---- output ---- */

void print_json_text(const char *text) {
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\') printf("\\%c", *c);
        else if (*c < 0x20) printf("\\u%04x", *c);
        else putchar(*c);
    }
    putchar('"');
}

static void print_field(const char *name, const char *text) {
    printf("\"%s\":", name);
    print_json_text(text);
}

static void print_report_json(const char *backend, const suite *s, const gk_device_info *info) {
    const report *r = &s->report;
    printf("{");
    print_field("backend", backend);
    printf(",");
    print_field("device", s->name);
    printf(",");
    print_field("arch", info->arch);
    printf(",");
    print_field("driver", info->driver);
    printf(",\"passed\":%zu,\"failed\":%zu,\"skipped\":%zu,\"not_run\":%zu,\"cases\":[", r->passed, r->failed, r->skipped, r->not_run);
    for (size_t n = 0; n < r->count; n++) {
        const report_case *c = &r->cases[n];
        printf(n ? ",\n{" : "\n{");
        print_field("op", c->op);
        printf(",");
        print_field("type", c->type);
        printf(",");
        print_field("shape", c->shape);
        if (c->nmse >= 0 && c->nmse < 1e300) printf(",\"nmse\":%.3g", c->nmse);
        if (c->state == CASE_SKIPPED) {
            printf(",");
            print_field("skipped", c->note);
        } else {
            printf(",\"ok\":%s", c->state == CASE_OK ? "true" : "false");
        }
        if (c->state == CASE_FAILED) {
            printf(",");
            print_field("error", c->note);
        }
        printf("}");
    }
    printf("\n]}\n");
}

static void print_report_text(const char *backend, const suite *s) {
    const report *r = &s->report;
    for (size_t n = 0; n < r->count; n++) {
        const report_case *c = &r->cases[n];
        if (c->state == CASE_OK || (c->state == CASE_SKIPPED && strcmp(c->note, NOT_RUN) == 0)) continue;
        printf("%s %s %s %s: %s\n", c->state == CASE_FAILED ? "FAILED " : "skipped", c->op, c->type, c->shape, c->note);
    }
    printf("%s (%s): %zu passed, %zu failed, %zu skipped", backend, s->name, r->passed, r->failed, r->skipped);
    if (r->not_run) printf(", %zu of these because of the time limit", r->not_run);
    printf("\n");
}

/* Reported as one skipped case, so that readers need to parse only one form. */
static int report_no_device(const arguments *a, const char *backend, const char *why) {
    if (a->json) {
        printf("{");
        print_field("backend", backend);
        printf(",\"device\":\"\",\"passed\":0,\"failed\":0,\"skipped\":1,\"not_run\":0,\"cases\":[\n{\"op\":\"device\",\"type\":\"\",\"shape\":\"\",");
        print_field("skipped", why);
        printf("}\n]}\n");
    } else {
        printf("%s: skipped: %s\n", backend, why);
    }
    return 3;
}

/* ---- commands ---- */

static int list(const arguments *a) {
    if (a->json) printf("{\"backends\":[");
    for (int n = 0; n < BACKEND_COUNT; n++) {
        const gk_backend *b = BACKENDS[n]();
        gk_device_info infos[16];
        char why[640] = "";
        int count = 0;
        gk_status status = b->enumerate(infos, 16, &count, why, sizeof why);
        if (status != GK_OK) count = 0;
        if (a->json) printf("%s{\"backend\":\"%s\",\"status\":\"%s\",\"why\":", n ? ",\n" : "\n", b->id, gk_status_text(status)), print_json_text(why), printf(",\"devices\":[");
        else if (count == 0) printf("%s: %s: %s\n", b->id, gk_status_text(status), why);
        for (int d = 0; d < count && d < 16; d++) {
            if (a->json) {
                printf("%s{\"index\":%d,", d ? "," : "", d);
                print_field("name", infos[d].name);
                printf(",");
                print_field("arch", infos[d].arch);
                printf(",");
                print_field("driver", infos[d].driver);
                printf(",\"memory_total\":%llu,\"memory_free\":%llu}", (unsigned long long)infos[d].memory_total, (unsigned long long)infos[d].memory_free);
            } else {
                printf("%s %d: %s, %s %s\n", b->id, d, infos[d].name, infos[d].arch, infos[d].driver);
            }
        }
        if (a->json) printf("]}");
    }
    if (a->json) printf("\n]}\n");
    return 0;
}

static const gk_backend *find_backend(const char *id) {
    for (int n = 0; n < BACKEND_COUNT; n++) {
        if (id == NULL || strcmp(BACKENDS[n]()->id, id) == 0) return BACKENDS[n]();
    }
    return NULL;
}

static int test(const arguments *a, const gk_backend *backend) {
    gk_device_info infos[16];
    char why[640] = "";
    int count = 0;
    gk_status status = backend->enumerate(infos, 16, &count, why, sizeof why);
    if (status == GK_OK && count == 0) gk_text(why, sizeof why, "no device");
    if (status != GK_OK || count == 0) return report_no_device(a, backend->id, why[0] ? why : gk_status_text(status));
    int device = (int)a->device;
    for (int n = 0; a->arch && n < count && n < 16; n++) {
        if (strcmp(infos[n].arch, a->arch) == 0) device = n;
    }
    if (device >= count || device >= 16 || (a->arch && strcmp(infos[device].arch, a->arch) != 0)) {
        fprintf(stderr, "gk-test: %s has no such device: see --list\n", backend->id);
        return 2;
    }
    suite s = {.seed = a->seed, .exact = a->exact, .nodes = (uint32_t)a->nodes, .same_as = (uint32_t)a->same_as, .deadline = a->limited ? gk_seconds() + (double)a->seconds : 0};
    gk_text(s.name, sizeof s.name, "%s", infos[device].name);
    const char *error = suite_open(&s, backend, device, (uint32_t)a->threads, &status, why, sizeof why);
    if (error) {
        char text[800];
        gk_text(text, sizeof text, "%s: %s: %s", error, gk_status_text(status), why);
        suite_close(&s);
        return report_no_device(a, backend->id, text);
    }
    static const struct {
        const char *name;
        void (*run)(suite *);
    } parts[] = {{"core", test_core}, {"core", test_topology}, {"core", test_share}, {"core", test_fuse}, {"matmul", test_matmul}, {"fused", test_fused}, {"attention", test_attention}, {"small", test_small_ops},
                 {"plans", test_plans}, {"bad", test_bad_arguments}};
    for (size_t n = 0; n < sizeof parts / sizeof *parts; n++) {
        if (a->only == NULL || strstr(parts[n].name, a->only)) parts[n].run(&s);
    }
    if (a->json) print_report_json(backend->id, &s, &infos[device]);
    else print_report_text(backend->id, &s);
    int code = s.report.failed || s.report.passed == 0 ? 1 : 0;
    suite_close(&s);
    return code;
}

/* ---- arguments ---- */

static int usage(const char *problem) {
    fprintf(stderr, "gk-test: %s\nusage: gk-test [--backend ID] [--device N | --arch NAME] [--threads N [--same-as N]] [--nodes N] [--exact] [--seed S] [--only core|matmul|fused|attention|small|plans|bad] [--seconds N] [--json]\n"
                    "       gk-test --list [--json]\n       gk-test --bench [--backend ID] [--device N] [--threads N] [--bytes N] [--exact]\n", problem);
    return 2;
}

static bool parse_number(const char *text, unsigned long long *out) {
    char *end;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

int main(int argc, char **argv) {
    arguments a = {.seed = 1, .bytes = 1200000000};
    for (int n = 1; n < argc; n++) {
        const char *name = argv[n];
        if (strcmp(name, "--json") == 0) a.json = true;
        else if (strcmp(name, "--list") == 0) a.list = true;
        else if (strcmp(name, "--bench") == 0) a.bench = true;
        else if (strcmp(name, "--exact") == 0) a.exact = true;
        else if (n + 1 == argc) return usage("unknown argument, or its value is missing");
        else {
            unsigned long long number = 0;
            const char *value = argv[++n];
            bool is_number = parse_number(value, &number);
            if (strcmp(name, "--backend") == 0) a.backend = value;
            else if (strcmp(name, "--only") == 0) a.only = value;
            else if (strcmp(name, "--arch") == 0) a.arch = value;
            else if (strcmp(name, "--device") == 0 && is_number && number < 1000) a.device = (long)number;
            else if (strcmp(name, "--threads") == 0 && is_number && number <= 1024) a.threads = number;
            else if (strcmp(name, "--nodes") == 0 && is_number && number <= GK_MOST_NODES) a.nodes = number;
            else if (strcmp(name, "--same-as") == 0 && is_number && number <= 1024) a.same_as = number;
            else if (strcmp(name, "--seed") == 0 && is_number) a.seed = number;
            else if (strcmp(name, "--seconds") == 0 && is_number) a.seconds = number, a.limited = true;
            else if (strcmp(name, "--bytes") == 0 && is_number) a.bytes = number;
            else return usage("unknown argument, or a value that is not a number");
        }
    }
    if (a.list) return list(&a);
    const gk_backend *backend = find_backend(a.backend);
    if (backend == NULL) return usage("no such backend in this program: see --list");
    return a.bench ? bench(backend, (int)a.device, a.bytes, &(gk_open_options){.threads = (uint32_t)a.threads, .flags = a.exact ? GK_OPEN_EXACT : 0}) : test(&a, backend);
}
