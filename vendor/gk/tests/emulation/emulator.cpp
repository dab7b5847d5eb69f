#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fibers.h"

emulator::index3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
namespace {

enum state : unsigned char { READY, AT_BARRIER, AT_SHUFFLE, DONE };

// Not a power of two: otherwise the tops of all stacks map to the same few cache lines.
enum { MOST_THREADS = 1024, STACK_BYTES = (64 << 10) + 320 };

struct lane {
    place waits;        // where it continues
    unsigned char turn; // slot of its next shuffle
};

// What the threads of a warp, or of a block, that wait for the others have named.
struct meeting {
    unsigned int arrived, name;
};

// By thread number.
lane lanes[MOST_THREADS];
unsigned int slots[2][MOST_THREADS]; // values that lanes offer to others at a shuffle
fragment fragments[2][MOST_THREADS];
struct factors {
    float a[16], b[16];
} amd_factors[2][MOST_THREADS];
unsigned char now[MOST_THREADS]; // state
unsigned int current;
place scheduler;            // where run_block() continues
unsigned int threads;       // of this block
unsigned int ended;         // threads of this block
unsigned int turn, round_number; // of the scheduler, see find_thread()
bool ran;                   // a thread ran in this round
meeting at_barrier;         // named by line
meeting at_shuffle[MOST_THREADS / GK_WARP]; // named by the mask
gk_gpu_args arguments;
kernel_function body;
kernel *registered;
char *shared_begin, *shared_end;
char failure[384];

char *stacks;
unsigned int prepared; // fibers that are at their start, or wait for the next block

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
__attribute__((noinline)) int find_thread() {
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

// Continues with the next thread, or in run_block() if no thread can run.
inline place &next_place() {
    const bool simple = by_order == FORWARD && turn < threads && now[turn] == READY; // the usual case, without a call
    if (simple) ran = true;
    const int next = simple ? static_cast<int>(turn++) : find_thread();
    if (next < 0) return scheduler;
    current = static_cast<unsigned int>(next);
    threadIdx.x = current;
    threadIdx.y = threadIdx.z = 0;
    return lanes[current].waits;
}

// For a thread that has to wait or has ended. A macro, see SWITCH().
#define PAUSE() \
    do { \
        place &here = lanes[current].waits; \
        SWITCH(here, next_place()); \
    } while (false)

// A fiber is reused for later blocks: elsewhere than on x86-64, starting one costs system calls.
void fiber_main() {
    for (;;) {
        body(arguments);
        now[current] = DONE;
        ++ended;
        PAUSE();
    }
}

void prepare_fibers(unsigned int count) {
    if (!stacks) {
        const size_t bytes = static_cast<size_t>(MOST_THREADS) * STACK_BYTES;
        void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) abort();
        stacks = static_cast<char *>(memory);
        watch_stacks(stacks, stacks + bytes);
    }
    for (; prepared < count; ++prepared)
        start_at(lanes[prepared].waits, stacks + static_cast<size_t>(prepared) * STACK_BYTES, STACK_BYTES, fiber_main);
}

bool run_block(const kernel &what) {
    at_barrier.arrived = 0;
    ended = 0;
    turn = 0;
    ran = false;
    for (meeting &one : at_shuffle) one.arrived = 0;
    memset(now, READY, threads);
    for (unsigned int n = 0; n < threads; ++n) lanes[n].turn = 0;
    SWITCH(scheduler, next_place());
    if (ended == threads) return true;
    unsigned int count[4] = {0, 0, 0, 0};
    for (unsigned int n = 0; n < threads; ++n) ++count[now[n]];
    snprintf(failure, sizeof failure, "kernel %s, block %u,%u,%u: %u threads wait at a barrier, %u at a shuffle, %u have ended",
             what.name, blockIdx.x, blockIdx.y, blockIdx.z, count[AT_BARRIER], count[AT_SHUFFLE], count[DONE]);
    prepared = 0; // the stacks are in use
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

unsigned int add(unsigned int *to, unsigned int value) {
    watch_atomic(to, sizeof *to);
    const unsigned int before = *to;
    *to += value;
    return before;
}

void barrier(int line) {
    const unsigned int mine = static_cast<unsigned int>(line);
    if (at_barrier.arrived == 0) at_barrier.name = mine;
    if (at_barrier.name != mine) { // two barriers at once: hangs or worse on hardware
        fprintf(stderr, "emulator: threads of a block meet at the barriers of lines %u and %u\n", at_barrier.name, mine);
        abort();
    }
    if (++at_barrier.arrived < threads) {
        now[current] = AT_BARRIER;
        PAUSE();
        return;
    }
    at_barrier.arrived = 0;
    watch_barrier();
    memset(now, READY, threads);
}

unsigned int exchange(unsigned int value, unsigned int mask) {
    const unsigned int self = current, first = self - self % GK_WARP;
    meeting &warp = at_shuffle[self / GK_WARP];
    if (warp.arrived == 0) warp.name = mask;
    if (warp.name != mask || mask >= GK_WARP) { // they are at different shuffles: the results are undefined
        fprintf(stderr, "emulator: lanes of a warp meet at shuffles by %u and %u\n", warp.name, mask);
        abort();
    }
    // Two slots suffice: no thread starts the shuffle after the next before all have read this one.
    const unsigned int *const offered = slots[lanes[self].turn];
    slots[lanes[self].turn][self] = value;
    lanes[self].turn ^= 1;
    if (++warp.arrived < GK_WARP) { // a warp that the block truncates never completes, and is reported
        now[self] = AT_SHUFFLE;
        PAUSE();
    } else {
        warp.arrived = 0;
        memset(now + first, READY, GK_WARP);
        if (by_order == FORWARD) turn = first; // this warp continues first: its stacks are in the cache
    }
    return offered[self ^ mask];
}

// A 16 x 16 and a 16 x 8 matrix: lanes 4 * n to 4 * n + 3 have rows n and n + 8 of a and column n of b.
void multiply_add(float (&sum)[4], const float (&mine)[12]) {
    fragment *slot = fragments[lanes[current].turn]; // as for exchange(): two suffice
    memcpy(slot[current].values, mine, sizeof mine);
    exchange(0, 0);
    const unsigned int lane = current % GK_WARP;
    const fragment *row = slot + (current - lane) + lane / 4 * 4, *column = slot + (current - lane) + lane % 4 * 2 * 4;
    for (unsigned int e = 0; e < 4; ++e) {
        for (unsigned int k = 0; k < 16; ++k) {
            const unsigned int of = k % 8 / 2, half = k / 8, which = k % 2;
            sum[e] += row[of].values[half * 4 + e / 2 * 2 + which] * column[e % 2 * 4 + of].values[8 + half * 2 + which];
        }
    }
}

namespace {
// Where the registers are, from the tables that AMD's matrix instruction calculator prints with --register-layout.
struct element {
    unsigned int i, j;
};

unsigned int factor_elements(matrix_instruction which) { return which == MFMA ? 4 : which == WMMA_GFX11 ? 16 : 8; }

// Row i of A (column i of B) and element j of k.
element factor_place(matrix_instruction which, unsigned int lane, unsigned int n) {
    switch (which) {
    case MFMA: return {lane & 15, (lane >> 4) * 4 + n};
    case WMMA_GFX11: return {lane & 15, n};
    default: return {lane & 15, (n & 4) * 2 + (lane >> 4) * 4 + (n & 3)};
    }
}

// Row i and column j of D.
element sum_place(matrix_instruction which, unsigned int lane, unsigned int n) {
    switch (which) {
    case MFMA: return {(lane >> 4) * 4 + n, lane & 15};
    case WMMA_GFX11: return {n * 2 + (lane >> 4), lane & 15};
    default: return {(lane >> 4) * 8 + n, lane & 15};
    }
}

// Where an element of a factor is: the inverse of factor_place().
struct holder {
    unsigned int lane, n;
};

const holder (&holders_of(matrix_instruction which))[16][16] {
    static holder table[16][16];
    static bool filled; // a process has one kind of instruction
    for (unsigned int lane = 0; lane < GK_WARP && !filled; ++lane)
        for (unsigned int n = 0; n < factor_elements(which); ++n) {
            const element place = factor_place(which, lane, n);
            table[place.i][place.j] = {lane, n};
        }
    filled = true;
    return table;
}
} // namespace

void multiply_add_amd(matrix_instruction which, float *sum, const float *a, const float *b) {
    factors *slot = amd_factors[lanes[current].turn]; // as for exchange(): two suffice
    const unsigned int elements = factor_elements(which);
    memcpy(slot[current].a, a, elements * sizeof *a);
    memcpy(slot[current].b, b, elements * sizeof *b);
    exchange(0, 0);
    const unsigned int lane = current % GK_WARP, twin = current ^ 16;
    const factors *warp = slot + (current - lane);
    if (which == WMMA_GFX11 && memcmp(&slot[current], &slot[twin], sizeof *slot) != 0) {
        fprintf(stderr, "emulator: the halves of a wave have different factors\n");
        abort();
    }
    const holder(&holders)[16][16] = holders_of(which);
    for (unsigned int n = 0; n < 256 / GK_WARP; ++n) {
        const element place = sum_place(which, lane, n);
        for (unsigned int k = 0; k < 16; ++k) {
            const holder of_a = holders[place.i][k], of_b = holders[place.j][k];
            sum[n] += warp[of_a.lane].a[of_a.n] * warp[of_b.lane].b[of_b.n];
        }
    }
}

const char *launch(const kernel &what, index3 grid, index3 block, const gk_gpu_args &args) {
    if (block.y != 1 || block.z != 1 || block.x == 0 || block.x > what.threads || block.x > MOST_THREADS) {
        snprintf(failure, sizeof failure, "kernel %s: %u threads, compiled for %u", what.name, block.x, what.threads);
        return failure;
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
        snprintf(failure, sizeof failure, "kernel %s: a grid of %u, %u, %u", what.name, grid.x, grid.y, grid.z);
        return failure;
    }
    threads = block.x;
    prepare_fibers(threads);
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
        watch_block();
        const bool ended = run_block(what);
        const char *wrong = watch_end();
        if (wrong) snprintf(failure, sizeof failure, "kernel %s: %s", what.name, wrong);
        if (wrong || !ended) return failure;
    }
    count_end(what.name, grid);
    return nullptr;
}

} // namespace emulator
