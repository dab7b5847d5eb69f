/* Cases and their results; the two devices. */
#include "gk_test.h"

void *must_alloc(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (memory == NULL) {
        fprintf(stderr, "gk-test: out of memory\n");
        exit(2);
    }
    return memory;
}

static void format_into(char *out, size_t capacity, const char *format, va_list arguments) {
    if (vsnprintf(out, capacity, format, arguments) < 0) out[0] = '\0';
}

void case_begin(suite *s, const char *op, const char *type, const char *shape, ...) {
    s->now = (report_case){.nmse = -1, .state = CASE_OK};
    gk_text(s->now.op, sizeof s->now.op, "%s", op);
    gk_text(s->now.type, sizeof s->now.type, "%s", type);
    va_list arguments;
    va_start(arguments, shape);
    format_into(s->now.shape, sizeof s->now.shape, shape, arguments);
    va_end(arguments);
    /* Each case is independent of the cases before it. */
    s->random = s->seed * 0x9e3779b97f4a7c15u + s->report.count * 0xbf58476d1ce4e5b9u + 1;
    for (int n = 0; n < 2; n++) memset(s->sides[n].used, 0, sizeof s->sides[n].used);
    s->case_open = true;
    if (s->deadline > 0 && gk_seconds() >= s->deadline) {
        case_skip(s, "%s", NOT_RUN);
        s->report.not_run++;
    }
}

void case_fail(suite *s, const char *format, ...) {
    if (s->now.state != CASE_OK) return;
    s->now.state = CASE_FAILED;
    va_list arguments;
    va_start(arguments, format);
    format_into(s->now.note, sizeof s->now.note, format, arguments);
    va_end(arguments);
}

void case_skip(suite *s, const char *format, ...) {
    if (s->now.state != CASE_OK) return;
    s->now.state = CASE_SKIPPED;
    va_list arguments;
    va_start(arguments, format);
    format_into(s->now.note, sizeof s->now.note, format, arguments);
    va_end(arguments);
}

bool case_going(const suite *s) { return s->now.state == CASE_OK; }

void case_end(suite *s) {
    report *r = &s->report;
    if (r->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 256;
        report_case *grown = realloc(r->cases, r->capacity * sizeof *grown);
        if (grown == NULL) {
            fprintf(stderr, "gk-test: out of memory\n");
            exit(2);
        }
        r->cases = grown;
    }
    r->cases[r->count++] = s->now;
    if (s->now.state == CASE_OK) r->passed++;
    if (s->now.state == CASE_FAILED) r->failed++;
    if (s->now.state == CASE_SKIPPED) r->skipped++;
    s->case_open = false;
}

bool expect_status(suite *s, int which, gk_status got, gk_status wanted, const char *what) {
    if (got == wanted) return true;
    const side *d = &s->sides[which];
    case_fail(s, "%s on %s: %s instead of %s: %s", what, d->backend->id, gk_status_text(got), gk_status_text(wanted),
              d->backend->last_error(d->device));
    return false;
}

/* ---- random: splitmix64 ---- */

uint64_t random_u64(suite *s) {
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double random_uniform(suite *s) { return (double)(random_u64(s) >> 11) / 9007199254740992.0; }

uint32_t random_below(suite *s, uint32_t n) { return (uint32_t)(random_u64(s) % n); }

/* The sum of twelve uniform numbers: approximately normal, and the same on every system. */
double random_gauss(suite *s) {
    double sum = -6;
    for (int n = 0; n < 12; n++) sum += random_uniform(s);
    return sum;
}

/* ---- devices ---- */

/* The state arena is the largest: attention caches, and a matmul of 129 rows. */
static const uint64_t ARENA_BYTES[3] = {48u << 20, 64u << 20, 1u << 16};
static const uint32_t ARENA_USAGE[3] = {GK_USAGE_WEIGHT, GK_USAGE_STATE, GK_USAGE_STAGING};

static gk_status open_side(side *d, const gk_backend *backend, int index, const gk_open_options *options, char *why,
                           size_t why_capacity) {
    d->backend = backend;
    gk_status status = backend->open(index, options, &d->device, why, why_capacity);
    if (status != GK_OK) return status;
    for (int n = 0; n < 3; n++) {
        d->arena_bytes[n] = ARENA_BYTES[n];
        status = backend->alloc(d->device, ARENA_BYTES[n], ARENA_USAGE[n], &d->arena[n]);
        if (status == GK_OK) continue;
        gk_text(why, why_capacity, "alloc of %llu bytes: %s", (unsigned long long)ARENA_BYTES[n],
                backend->last_error(d->device));
        return status;
    }
    return GK_OK;
}

const char *suite_open(suite *s, const gk_backend *backend, int index, uint32_t threads, gk_status *status, char *why,
                       size_t why_capacity) {
    const gk_open_options options = {.threads = threads, .flags = (s->exact ? GK_OPEN_EXACT : 0u) | (s->nodes ? GK_OPEN_BIND : 0u)};
    const gk_open_options other = {.threads = s->same_as, .flags = s->exact ? GK_OPEN_EXACT : 0};
    *status = s->same_as ? open_side(&s->sides[SIDE_REF], backend, index, &other, why, why_capacity)
                         : open_side(&s->sides[SIDE_REF], gk_backend_ref(), 0, NULL, why, why_capacity);
    if (*status != GK_OK) return "the reference did not open";
    bool plain = threads == 0 && options.flags == 0;
    const char *error = pretend_nodes(s->nodes);
    if (error) return error;
    *status = open_side(&s->sides[SIDE_TESTED], backend, index, plain ? NULL : &options, why, why_capacity);
    pretend_nodes(0);
    if (*status != GK_OK) return "the device did not open";
    return NULL;
}

bool may_round_on_gpu(const suite *s) {
    const char *id = s->sides[SIDE_TESTED].backend->id;
    return !s->exact && (strcmp(id, "cuda") == 0 || strcmp(id, "rocm") == 0);
}

void suite_close(suite *s) {
    for (int n = 0; n < 2; n++) {
        side *d = &s->sides[n];
        if (d->device) d->backend->close(d->device);
        d->device = NULL;
    }
    free(s->report.cases);
}
