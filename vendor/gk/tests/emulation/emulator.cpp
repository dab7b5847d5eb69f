#include "emulator.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

emulator::index3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
namespace {

enum state : unsigned char { READY, AT_BARRIER, AT_SHUFFLE, DONE };

// Not a power of two: otherwise the tops of all stacks map to the same few cache lines.
enum { MOST_THREADS = 1024, STACK_BYTES = (64 << 10) + 320 };

// A switch between fibers saves the stack pointer, the frame pointer and the address. The compiler does that with three
// stores; setjmp() of the C library saves every register, encrypts addresses and checks the stack.
#if defined(__x86_64__) || (defined(__aarch64__) && !defined(__clang__))
using place = void *[5];
#define SAVE_PLACE(at) __builtin_setjmp(at)
#define JUMP_TO(at) __builtin_longjmp(at, 1)
#else
using place = jmp_buf;
#define SAVE_PLACE(at) _setjmp(at)
#define JUMP_TO(at) _longjmp(at, 1)
#endif

struct fiber {
    ucontext_t first;
    bool started;
};

// What a switch between threads reads and writes: one cache line.
struct alignas(64) lane {
    place jump;            // where it waits
    unsigned int slots[2]; // values that it offers to others
    unsigned int mask;     // of the shuffle that it has reached
    int line;              // of the barrier at which it waits
    unsigned char turn;    // slot of its next shuffle
};

// By thread number.
fiber fibers[MOST_THREADS];
lane lanes[MOST_THREADS];
offer offers[2][MOST_THREADS];
unsigned char now[MOST_THREADS]; // state
unsigned int current;
place scheduler;            // where run_block() waits
unsigned int threads;       // of this block
unsigned int ended;         // threads of this block
unsigned int turn, round_number; // of the scheduler, see next_thread()
bool ran;                   // a thread ran in this round
unsigned int waiting;       // threads at the barrier
unsigned int passed;        // barriers of this block
unsigned int arrived[MOST_THREADS / GK_WARP]; // lanes of a warp at its next shuffle
gk_gpu_args arguments;
kernel_function body;
kernel *registered;
char *shared_begin, *shared_end;
char failure[384];

char *stacks;

// The order in which threads run between barriers. A result that depends on it is a race: the tests use all three.
enum order { FORWARD, REVERSE, SHUFFLED };

order chosen_order() {
    static const char *text = getenv("GK_EMULATE_ORDER");
    static const order chosen = !text ? FORWARD : strcmp(text, "reverse") == 0 ? REVERSE : strcmp(text, "shuffled") == 0 ? SHUFFLED : FORWARD;
    return chosen;
}

order by_order; // of this launch

// The n-th thread of a round. SHUFFLED uses another order each time and separates warps. An odd factor modulo a power
// of two above the number of threads visits every thread.
unsigned int thread_of_turn(unsigned int n) {
    if (by_order == FORWARD) return n;
    if (by_order == REVERSE) return threads - 1 - n;
    unsigned int size = 1;
    while (size < threads) size *= 2;
    unsigned int at = n;
    do at = (at * (4 * (round_number % 61) + 5) + 2 * round_number + 1) % size;
    while (at >= threads);
    return at;
}

// The thread that runs next, or -1 after a round in which no thread could run.
int next_thread() {
    for (;;) {
        while (turn < threads) {
            const unsigned int next = thread_of_turn(turn++);
            if (now[next] != READY) continue;
            ran = true;
            return static_cast<int>(next);
        }
        if (!ran) return -1;
        turn = 0;
        ++round_number;
        ran = false;
    }
}

// A separate function: the jump must not be in the function that saved its place.
[[noreturn]] __attribute__((noinline)) void enter(unsigned int number) {
    fiber &which = fibers[number];
    current = number;
    threadIdx.x = number;
    threadIdx.y = threadIdx.z = 0;
    if (which.started) JUMP_TO(lanes[number].jump);
    which.started = true;
    setcontext(&which.first);
    abort();
}

// Continues directly with the next thread, or in run_block() if no thread can run.
[[noreturn]] __attribute__((noinline)) void leave() {
    const int next = next_thread();
    if (next < 0) JUMP_TO(scheduler);
    enter(static_cast<unsigned int>(next));
}

// For a thread that has to wait or has ended. A macro: a function that saves its place is not inlined, and the processor
// does not predict where a function returns to on another stack.
#define PAUSE() do { if (SAVE_PLACE(lanes[current].jump) == 0) leave(); } while (false)

// A fiber is reused for later blocks: starting one costs system calls.
void fiber_main() {
    for (;;) {
        body(arguments);
        now[current] = DONE;
        ++ended;
        PAUSE();
    }
}

void reset_fiber(fiber &which) {
    if (!stacks) {
        void *memory = mmap(nullptr, static_cast<size_t>(MOST_THREADS) * STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) abort();
        stacks = static_cast<char *>(memory);
    }
    getcontext(&which.first);
    which.first.uc_stack.ss_sp = stacks + static_cast<size_t>(&which - fibers) * STACK_BYTES;
    which.first.uc_stack.ss_size = STACK_BYTES;
    which.first.uc_link = nullptr;
    makecontext(&which.first, fiber_main, 0);
    which.started = false;
}

bool run_block(const kernel &what) {
    waiting = 0;
    passed = 0;
    ended = 0;
    turn = 0;
    ran = false;
    memset(arrived, 0, sizeof arrived);
    memset(now, READY, sizeof now);
    for (unsigned int n = 0; n < threads; ++n) lanes[n].turn = 0;
    if (SAVE_PLACE(scheduler) == 0) enter(static_cast<unsigned int>(next_thread()));
    if (ended == threads) return true;
    unsigned int count[4] = {0, 0, 0, 0};
    for (unsigned int n = 0; n < threads; ++n) ++count[now[n]];
    snprintf(failure, sizeof failure, "kernel %s, block %u,%u,%u: %u threads wait at a barrier, %u at a shuffle, %u have ended",
             what.name, blockIdx.x, blockIdx.y, blockIdx.z, count[AT_BARRIER], count[AT_SHUFFLE], count[DONE]);
    for (unsigned int n = 0; n < MOST_THREADS; ++n) reset_fiber(fibers[n]);
    return false;
}

} // namespace

kernel::kernel(const char *kernel_name, unsigned int most_threads, kernel_function kernel_body)
    : name(kernel_name), threads(most_threads), body(kernel_body), next(registered) {
    registered = this;
}

const kernel *find(const char *name) {
    for (const kernel *at = registered; at; at = at->next)
        if (strcmp(at->name, name) == 0) return at;
    return nullptr;
}

void shared_memory(void *begin, void *end) {
    shared_begin = static_cast<char *>(begin);
    shared_end = static_cast<char *>(end);
    watch_shared(begin, end);
}

unsigned int barriers_passed() { return passed; }

// Start of the library itself, defined by the linker.
extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

bool is_private(const void *pointer) {
    const char *at = static_cast<const char *>(pointer);
    return (at >= stacks && at < stacks + static_cast<size_t>(MOST_THREADS) * STACK_BYTES) || (at >= __ehdr_start && at < _end);
}

unsigned int add(unsigned int *to, unsigned int value) {
    watch_atomic(to, sizeof *to);
    const unsigned int before = *to;
    *to += value;
    return before;
}

void barrier(int line) {
    lanes[current].line = line;
    if (++waiting < threads) {
        now[current] = AT_BARRIER;
        PAUSE();
        return;
    }
    waiting = 0;
    ++passed;
    for (unsigned int n = 0; n < threads; ++n) {
        if (lanes[n].line != line) { // two barriers at once: hangs or worse on hardware
            fprintf(stderr, "emulator: threads of a block meet at the barriers of lines %d and %d\n", line, lanes[n].line);
            abort();
        }
        now[n] = READY;
    }
}

unsigned int exchange(unsigned int value, unsigned int mask) {
    const unsigned int first = current - current % GK_WARP;
    lanes[current].slots[lanes[current].turn] = value;
    lanes[current].turn ^= 1;
    lanes[current].mask = mask;
    if (++arrived[first / GK_WARP] < GK_WARP) { // a warp that the block truncates never completes, and is reported
        now[current] = AT_SHUFFLE;
        PAUSE();
    } else {
        // Lanes that name different partners are at different shuffles: their results are undefined.
        for (unsigned int n = first; n < first + GK_WARP; ++n) {
            if (lanes[n].mask == mask && mask < GK_WARP) continue;
            fprintf(stderr, "emulator: lanes of a warp meet at shuffles by %u and %u\n", mask, lanes[n].mask);
            abort();
        }
        arrived[first / GK_WARP] = 0;
        memset(now + first, READY, GK_WARP);
        if (by_order == FORWARD) turn = first; // this warp continues first: its stacks are in the cache
    }
    // Two slots suffice: no thread starts the shuffle after the next before all have read this one. Nothing is kept in a
    // variable: another thread ran in between.
    return lanes[current ^ lanes[current].mask].slots[lanes[current].turn ^ 1];
}

const offer *gather(const float (&values)[12]) {
    offer *slot = offers[lanes[current].turn]; // as for exchange(): two suffice
    memcpy(slot[current].values, values, sizeof values);
    exchange(0, 0);
    return slot + (current - current % GK_WARP);
}

const char *launch(const kernel &what, index3 grid, index3 block, const gk_gpu_args &args) {
    static bool prepared;
    if (!prepared) {
        for (unsigned int n = 0; n < MOST_THREADS; ++n) reset_fiber(fibers[n]);
        prepared = true;
    }
    if (block.y != 1 || block.z != 1 || block.x == 0 || block.x > what.threads || block.x > MOST_THREADS) {
        snprintf(failure, sizeof failure, "kernel %s: %u threads, compiled for %u", what.name, block.x, what.threads);
        return failure;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        snprintf(failure, sizeof failure, "kernel %s: a grid of %u, %u, %u", what.name, grid.x, grid.y, grid.z);
        return failure;
    }
    threads = block.x;
    blockDim = block;
    gridDim = grid;
    arguments = args;
    body = what.body;
    by_order = chosen_order();
    memset(shared_begin, 0xff, static_cast<size_t>(shared_end - shared_begin));
    watch_launch();
    const uint64_t blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    for (uint64_t n = 0; n < blocks; ++n) {
        const uint64_t number = by_order == REVERSE ? blocks - 1 - n : n;
        blockIdx.x = static_cast<unsigned int>(number % grid.x);
        blockIdx.y = static_cast<unsigned int>(number / grid.x % grid.y);
        blockIdx.z = static_cast<unsigned int>(number / grid.x / grid.y);
        watch_block(number);
        const bool ended = run_block(what);
        const char *wrong = watch_end();
        if (wrong) snprintf(failure, sizeof failure, "kernel %s: %s", what.name, wrong);
        if (wrong || !ended) return failure;
    }
    return nullptr;
}

} // namespace emulator
