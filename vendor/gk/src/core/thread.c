#include "thread.h"

#include <time.h>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
static inline void pause_core(void) { _mm_pause(); }
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
static inline void pause_core(void) { __asm__ __volatile__("yield"); }
#else
static inline void pause_core(void) {}
#endif

#if defined(_WIN32)

static DWORD WINAPI enter(LPVOID start) {
    gk_thread_start *s = start;
    s->run(s->argument);
    return 0;
}

bool gk_thread_create(gk_thread *thread, gk_thread_start *start) {
    *thread = CreateThread(NULL, 0, enter, start, 0, NULL);
    return *thread != NULL;
}

void gk_thread_join(gk_thread thread) {
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

double gk_seconds(void) {
    LARGE_INTEGER ticks, frequency;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&frequency);
    return (double)ticks.QuadPart / (double)frequency.QuadPart;
}

static void mutex_init(gk_mutex *m) { InitializeSRWLock(m); }
static void mutex_destroy(gk_mutex *m) { (void)m; }
static void mutex_lock(gk_mutex *m) { AcquireSRWLockExclusive(m); }
static void mutex_unlock(gk_mutex *m) { ReleaseSRWLockExclusive(m); }
static void condition_init(gk_condition *c) { InitializeConditionVariable(c); }
static void condition_destroy(gk_condition *c) { (void)c; }
static void condition_wait(gk_condition *c, gk_mutex *m) { SleepConditionVariableSRW(c, m, INFINITE, 0); }
static void condition_broadcast(gk_condition *c) { WakeAllConditionVariable(c); }

#else

static void *enter(void *start) {
    gk_thread_start *s = start;
    s->run(s->argument);
    return NULL;
}

bool gk_thread_create(gk_thread *thread, gk_thread_start *start) {
    return pthread_create(thread, NULL, enter, start) == 0;
}

void gk_thread_join(gk_thread thread) { pthread_join(thread, NULL); }

double gk_seconds(void) {
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void mutex_init(gk_mutex *m) { pthread_mutex_init(m, NULL); }
static void mutex_destroy(gk_mutex *m) { pthread_mutex_destroy(m); }
static void mutex_lock(gk_mutex *m) { pthread_mutex_lock(m); }
static void mutex_unlock(gk_mutex *m) { pthread_mutex_unlock(m); }
static void condition_init(gk_condition *c) { pthread_cond_init(c, NULL); }
static void condition_destroy(gk_condition *c) { pthread_cond_destroy(c); }
static void condition_wait(gk_condition *c, gk_mutex *m) { pthread_cond_wait(c, m); }
static void condition_broadcast(gk_condition *c) { pthread_cond_broadcast(c); }

#endif

void gk_barrier_init(gk_barrier *b, uint32_t count) {
    atomic_init(&b->count, count);
    atomic_init(&b->arrived, 0);
    atomic_init(&b->generation, 0);
    atomic_init(&b->sleepers, 0);
    mutex_init(&b->mutex);
    condition_init(&b->wake);
}

void gk_barrier_destroy(gk_barrier *b) {
    condition_destroy(&b->wake);
    mutex_destroy(&b->mutex);
}

/* True as soon as the generation is another one. Limited by the clock: a pause takes 1 to 140 cycles, depending on the processor. */
static bool spin_until_raised(const gk_barrier *b, unsigned generation, double seconds) {
    if (seconds <= 0) return false;
    for (double end = 0;;) {
        for (int n = 0; n < 64; n++) {
            if (atomic_load_explicit(&b->generation, memory_order_acquire) != generation) return true;
            pause_core();
        }
        const double now = gk_seconds();
        if (end == 0) end = now + seconds;
        if (now == 0 || now >= end) return false;
    }
}

/* The last thread raises the generation and then looks for sleepers; a sleeper registers and then looks at the
 * generation. Both sides have a fence between the two steps, so at least one of them sees the other. Sequentially
 * consistent operations would guarantee the same, but QEMU's AArch64 lets a store-release pass behind a later
 * load-acquire, and both threads slept. */
void gk_barrier_wait(gk_barrier *b, double spin) {
    if (atomic_load_explicit(&b->count, memory_order_relaxed) == 1) return;
    unsigned generation = atomic_load(&b->generation);
    if (atomic_fetch_add(&b->arrived, 1) + 1 == atomic_load(&b->count)) {
        atomic_store_explicit(&b->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&b->generation, generation + 1, memory_order_release);
        atomic_thread_fence(memory_order_seq_cst);
        if (atomic_load_explicit(&b->sleepers, memory_order_relaxed) != 0) {
            mutex_lock(&b->mutex);
            condition_broadcast(&b->wake);
            mutex_unlock(&b->mutex);
        }
        return;
    }
    if (spin_until_raised(b, generation, spin)) return;
    mutex_lock(&b->mutex);
    atomic_fetch_add_explicit(&b->sleepers, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    while (atomic_load_explicit(&b->generation, memory_order_acquire) == generation) condition_wait(&b->wake, &b->mutex);
    atomic_fetch_sub_explicit(&b->sleepers, 1, memory_order_relaxed);
    mutex_unlock(&b->mutex);
}
