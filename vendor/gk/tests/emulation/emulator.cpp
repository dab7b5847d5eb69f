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
operands factors[2][MOST_THREADS];       // what they offer to a matrix instruction
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

namespace {

// Waits until all lanes of the warp have come here. The last one does what `complete` says before any continues.
template <typename Complete> inline void meet(unsigned int mask, Complete complete) {
    const unsigned int self = current, first = self - self % GK_WARP;
    meeting &warp = at_shuffle[self / GK_WARP];
    if (warp.arrived == 0) warp.name = mask;
    if (warp.name != mask || mask >= GK_WARP) { // they are at different shuffles: the results are undefined
        fprintf(stderr, "emulator: lanes of a warp meet at shuffles by %u and %u\n", warp.name, mask);
        abort();
    }
    // Two slots suffice: no thread starts the shuffle after the next before all have read this one.
    lanes[self].turn ^= 1;
    if (++warp.arrived < GK_WARP) { // a warp that the block truncates never completes, and is reported
        now[self] = AT_SHUFFLE;
        PAUSE();
    } else {
        warp.arrived = 0;
        memset(now + first, READY, GK_WARP);
        complete(first);
        if (by_order == FORWARD) turn = first; // this warp continues first: its stacks are in the cache
    }
}

// Where the registers of an instruction are. AMD's are from the tables that AMD's matrix instruction calculator prints with
// --register-layout.
struct element {
    unsigned int i, j;
};

struct shape {
    unsigned int columns, of_a, of_b, sums; // elements of a lane
};

constexpr shape shape_of(matrix_instruction which) {
    switch (which) {
    case MMA: return {8, 8, 4, 4};
    case MFMA: return {16, 4, 4, 256 / GK_WARP};
    case WMMA_GFX11: return {16, 16, 16, 256 / GK_WARP};
    default: return {16, 8, 8, 256 / GK_WARP};
    }
}

// Row i of A and element j of k.
constexpr element place_in_a(matrix_instruction which, unsigned int lane, unsigned int n) {
    switch (which) {
    case MMA: return {lane / 4 + n / 2 % 2 * 8, n / 4 * 8 + lane % 4 * 2 + n % 2};
    case MFMA: return {lane & 15, (lane >> 4) * 4 + n};
    case WMMA_GFX11: return {lane & 15, n};
    default: return {lane & 15, (n & 4) * 2 + (lane >> 4) * 4 + (n & 3)};
    }
}

// Column i of B and element j of k.
constexpr element place_in_b(matrix_instruction which, unsigned int lane, unsigned int n) {
    return which == MMA ? element{lane / 4, n / 2 * 8 + lane % 4 * 2 + n % 2} : place_in_a(which, lane, n);
}

// Row i and column j of D.
constexpr element place_in_sum(matrix_instruction which, unsigned int lane, unsigned int n) {
    switch (which) {
    case MMA: return {lane / 4 + n / 2 * 8, lane % 4 * 2 + n % 2};
    case MFMA: return {(lane >> 4) * 4 + n, lane & 15};
    case WMMA_GFX11: return {n * 2 + (lane >> 4), lane & 15};
    default: return {(lane >> 4) * 8 + n, lane & 15};
    }
}

// The instruction of a warp, from what its lanes offer. Sums are in the order of k.
template <matrix_instruction WHICH> void multiply_matrices(operands *warp) {
    constexpr shape is = shape_of(WHICH);
    float a[16][16], b[16][is.columns], sum[16][is.columns];
    for (unsigned int lane = 0; lane < GK_WARP; ++lane) {
        const operands &mine = warp[lane];
        if (WHICH == WMMA_GFX11 && (memcmp(mine.a, warp[lane ^ 16].a, sizeof mine.a) != 0 || memcmp(mine.b, warp[lane ^ 16].b, sizeof mine.b) != 0)) {
            fprintf(stderr, "emulator: the halves of a wave have different factors\n");
            abort();
        }
        for (unsigned int n = 0; n < is.of_a; ++n) a[place_in_a(WHICH, lane, n).i][place_in_a(WHICH, lane, n).j] = mine.a[n];
        for (unsigned int n = 0; n < is.of_b; ++n) b[place_in_b(WHICH, lane, n).j][place_in_b(WHICH, lane, n).i] = mine.b[n];
        for (unsigned int n = 0; n < is.sums; ++n) sum[place_in_sum(WHICH, lane, n).i][place_in_sum(WHICH, lane, n).j] = mine.sum[n];
    }
    for (unsigned int row = 0; row < 16; ++row)
        for (unsigned int k = 0; k < 16; ++k)
            for (unsigned int column = 0; column < is.columns; ++column) sum[row][column] += a[row][k] * b[k][column];
    for (unsigned int lane = 0; lane < GK_WARP; ++lane)
        for (unsigned int n = 0; n < is.sums; ++n)
            warp[lane].sum[n] = sum[place_in_sum(WHICH, lane, n).i][place_in_sum(WHICH, lane, n).j];
}

} // namespace

unsigned int exchange(unsigned int value, unsigned int mask) {
    const unsigned int self = current;
    unsigned int *const offered = slots[lanes[self].turn];
    offered[self] = value;
    meet(mask, [](unsigned int) {});
    return offered[self ^ mask];
}

template <matrix_instruction WHICH> void multiply_add(float *sum, const float *a, const float *b) {
    constexpr shape is = shape_of(WHICH);
    operands *const offered = factors[lanes[current].turn];
    operands &mine = offered[current];
    memcpy(mine.a, a, is.of_a * sizeof *a);
    memcpy(mine.b, b, is.of_b * sizeof *b);
    memcpy(mine.sum, sum, is.sums * sizeof *sum);
    meet(0, [offered](unsigned int first) { multiply_matrices<WHICH>(offered + first); });
    memcpy(sum, mine.sum, is.sums * sizeof *sum);
}

#if GK_HIP
template void multiply_add<MFMA>(float *, const float *, const float *);
template void multiply_add<WMMA_GFX11>(float *, const float *, const float *);
template void multiply_add<WMMA_GFX12>(float *, const float *, const float *);
#else
template void multiply_add<MMA>(float *, const float *, const float *);
#endif

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
