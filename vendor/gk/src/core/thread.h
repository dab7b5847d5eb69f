/* Threads, a clock, and a barrier that spins briefly before it sleeps: a shim over POSIX and Win32. Internal. */
#ifndef GK_THREAD_H
#define GK_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef HANDLE gk_thread;
typedef SRWLOCK gk_mutex;
typedef CONDITION_VARIABLE gk_condition;
#else
#include <pthread.h>
typedef pthread_t gk_thread;
typedef pthread_mutex_t gk_mutex;
typedef pthread_cond_t gk_condition;
#endif

typedef struct gk_thread_start {
    void (*run)(void *);
    void *argument;
} gk_thread_start;

/* `start` must outlive the thread. */
bool gk_thread_create(gk_thread *, gk_thread_start *start);
void gk_thread_join(gk_thread);

/* A monotonic clock; only differences are meaningful. */
double gk_seconds(void);

/* All `count` threads leave gk_barrier_wait together. Reusable. */
typedef struct gk_barrier {
    atomic_uint count; /* may grow while some of the threads already wait */
    atomic_uint arrived;
    atomic_uint generation;
    atomic_uint sleepers;
    gk_mutex mutex;
    gk_condition wake;
} gk_barrier;

void gk_barrier_init(gk_barrier *, uint32_t count);
void gk_barrier_destroy(gk_barrier *);
/* Spins for about this many seconds before it sleeps. */
void gk_barrier_wait(gk_barrier *, double spin);

#endif
