/* For hybrid.py: a library that LD_PRELOAD loads into infer. It slows every other thread of gk down, as if it ran on a
 * slower core: a timer interrupts the thread all the time, and its handler keeps the core busy. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { PERIOD = 200000, BUSY = 100000 }; /* nanoseconds: far less than an op of the model takes */

typedef struct start {
    void *(*run)(void *);
    void *argument;
} start;

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void keep_busy(int signal) {
    (void)signal;
    for (const long end = now() + BUSY; now() < end;) {
    }
}

static void slow_down(void) {
    struct sigaction action = {.sa_handler = keep_busy, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 8, &action, NULL);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 8};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    timer_t timer;
    const struct itimerspec every = {{0, PERIOD}, {0, PERIOD}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &every, NULL) != 0) abort();
}

static void *run_slowly(void *argument) {
    const start s = *(start *)argument;
    free(argument);
    slow_down();
    return s.run(s.argument);
}

/* HYBRID_THREADS: the threads of a device, the first of which is the main thread. gk passes no attributes, Rust does. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    static atomic_uint created;
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    const char *threads = getenv("HYBRID_THREADS");
    if (attributes != NULL || threads == NULL || atoi(threads) < 2) return create(thread, attributes, run, argument);
    if (atomic_fetch_add(&created, 1) % (unsigned)(atoi(threads) - 1) % 2 != 0) return create(thread, attributes, run, argument);
    start *s = malloc(sizeof *s);
    if (s == NULL) return 1;
    *s = (start){run, argument};
    return create(thread, attributes, run_slowly, s);
}

__attribute__((constructor)) static void slow_main_thread(void) {
    if (getenv("HYBRID_MAIN")) slow_down();
}
