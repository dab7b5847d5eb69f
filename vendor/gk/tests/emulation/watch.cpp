// Checks every access of the kernels, as compute-sanitizer does on a device: kernels.cpp is compiled with the
// compiler's instrumentation for thread sanitizers, and these are the functions that it calls. Detects four kinds of
// errors, independently of the order in which threads run:
//
//   - races: two threads access the same byte, at least one of them writes, and there is no barrier of the block in between.
//     Blocks share no barrier, so every such pair in two blocks of a launch is a race. A shuffle is not a barrier;
//   - vector loads and stores that are not aligned to their size, which fault on a device;
//   - accesses outside of allocations, to the byte;
//   - shared memory that is read before its block has written it.
//
// Atomic operations never race.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <vector>

#include "emulator.h"

// Start and end of the library itself, defined by the linker.
extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

namespace emulator {
namespace {

enum { PAGE = 4096, GRAIN = 2, CACHED = 256, NOBODY = 0x10000 };

// Identifies an access: the time, above the number of the thread. Time advances with each launch, block and barrier, and
// blocks run one after another, so a comparison with the first stamp of a launch or block shows whether it contains an
// access. Stamp 0 does not exist.
typedef uint64_t stamp;
enum { TIME_SHIFT = 11, MANY = 1 << 10, THREAD = MANY - 1 };

// State of GRAIN bytes, the smallest unit that kernels write. With MANY, other threads have also read at that time.
struct shadow {
    stamp write, read;
};

struct range {
    uint64_t begin, bytes;
    shadow *grains; // the first contains the byte at `begin`
    size_t mapped;
};

std::vector<range> allowed;  // allocations
range shared_range;          // set before the vector exists
const range *recent[CACHED]; // the range of an access, by page number: most accesses are near an earlier one
range stacks;
stamp time_now = static_cast<stamp>(1) << TIME_SHIFT, launch_start, block_start;
bool running;
char found[320];

bool contains(const range &which, uint64_t address) { return address - which.begin < which.bytes; }

size_t grains_bytes(const range &which) { return (which.bytes / GRAIN + 1) * sizeof(shadow); }

// Zeros that take no memory before they are used.
void map_grains(range &which) {
    which.mapped = grains_bytes(which);
    void *memory = mmap(nullptr, which.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "emulator: %zu bytes of memory can't be watched\n", static_cast<size_t>(which.bytes));
        abort();
    }
    which.grains = static_cast<shadow *>(memory);
}

void forget_recent() {
    for (const range *&one : recent) one = nullptr;
}

__attribute__((noinline, cold)) void complain(const char *what, uint64_t address, unsigned long size, unsigned other) {
    if (found[0]) return; // the first error is the cause
    const int used = snprintf(found, sizeof found, "%s: %lu bytes of %s memory at ...%06llx, block %u,%u,%u, thread %u", what, size,
                              contains(shared_range, address) ? "shared" : "global", static_cast<unsigned long long>(address & 0xffffff),
                              blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
    if (other != NOBODY) snprintf(found + used, sizeof found - static_cast<size_t>(used), " and thread %u", other);
}

bool same_time(stamp x, stamp y) { return (x ^ y) >> TIME_SHIFT == 0; }
unsigned thread_of(stamp one) { return static_cast<unsigned>(one & THREAD); }

// True if nothing orders the two accesses. Each block has its own shared memory on a device; here blocks reuse one
// range.
template <bool SHARED> bool concurrent(stamp before, stamp now) {
    if (before < launch_start) return false;
    if (before < block_start) return !SHARED;
    return same_time(before, now) && thread_of(before) != thread_of(now);
}

template <bool SHARED, bool WRITES> inline void access_grain(shadow &grain, stamp now, uint64_t address, unsigned long size) {
    if (grain.write >= launch_start && concurrent<SHARED>(grain.write, now))
        complain(WRITES ? "race of two writes" : "race of a read with a write", address, size, thread_of(grain.write));
    if (WRITES) {
        if (grain.read >= launch_start && (concurrent<SHARED>(grain.read, now) || ((grain.read & MANY) && same_time(grain.read, now))))
            complain("race of a write with a read", address, size, thread_of(grain.read));
        grain.write = now;
        return;
    }
    if (SHARED && grain.write < block_start) complain("read of memory that was never written", address, size, NOBODY);
    if (grain.read == now) return;
    if (!same_time(grain.read, now)) grain.read = now;
    else if (thread_of(grain.read) != thread_of(now)) grain.read |= MANY;
}

template <bool SHARED, bool WRITES> inline void access_grains(const range &at, uint64_t address, unsigned long size) {
    const stamp now = time_now | threadIdx.x;
    shadow *const first = at.grains + (address / GRAIN - at.begin / GRAIN);
    shadow *const last = at.grains + ((address + size - 1) / GRAIN - at.begin / GRAIN);
    for (shadow *grain = first; grain <= last; ++grain) access_grain<SHARED, WRITES>(*grain, now, address, size);
}

__attribute__((noinline)) const range *find_range(uint64_t address) {
    for (const range &one : allowed)
        if (contains(one, address)) return recent[address / PAGE % CACHED] = &one;
    return nullptr;
}

const range *range_of(uint64_t address) {
    const range *at = recent[address / PAGE % CACHED];
    return at && contains(*at, address) ? at : find_range(address);
}

// Is the access allowed? Its address must be a multiple of `alignment`: the size of the instruction, a power of two.
bool check_place(const range *at, uint64_t address, unsigned long size, unsigned long alignment) {
    if (!at) complain("no such memory", address, size, NOBODY);
    else if (size > at->bytes - (address - at->begin)) complain("past the end of an allocation", address, size, NOBODY);
    else if ((address & (alignment - 1)) != 0) complain("misaligned", address, size, NOBODY);
    else return true;
    return false;
}

// An access that is not to the stack of a thread. Shared memory may be part of the library, which is not watched.
template <bool WRITES> inline void access(uint64_t address, unsigned long size, unsigned long alignment, const void *where) {
    if (!running) return;
    if (contains(shared_range, address)) {
        if (check_place(&shared_range, address, size, alignment)) access_grains<true, WRITES>(shared_range, address, size);
        if (counting) count_access(true, WRITES, address - shared_range.begin, size, where);
        return;
    }
    const uint64_t library = reinterpret_cast<uint64_t>(__ehdr_start);
    if (address - library < reinterpret_cast<uint64_t>(_end) - library) return;
    const range *at = range_of(address);
    if (check_place(at, address, size, alignment)) access_grains<false, WRITES>(*at, address, size);
    if (counting) count_access(false, WRITES, address, size, where);
}

// Instances with constants. Separate from the hooks, so that these save no registers before they know that the access is
// to a stack, as most are.
template <bool WRITES, unsigned SIZE, unsigned ALIGNMENT> __attribute__((noinline)) void access_of(uint64_t address, const void *where) {
    access<WRITES>(address, SIZE, ALIGNMENT, where);
}

} // namespace

void watch_memory(uint64_t begin, uint64_t bytes) {
    range made = {begin, bytes, nullptr, 0};
    map_grains(made);
    allowed.push_back(made);
    forget_recent();
}

// Old stamps of another range are those of an earlier launch, which has no effect.
void watch_shared(void *begin, void *end) {
    const range before = shared_range;
    shared_range.begin = reinterpret_cast<uint64_t>(begin);
    shared_range.bytes = reinterpret_cast<uint64_t>(end) - shared_range.begin;
    if (grains_bytes(shared_range) <= before.mapped) return;
    if (before.mapped) munmap(before.grains, before.mapped);
    map_grains(shared_range);
}

void watch_stacks(void *begin, void *end) {
    stacks.begin = reinterpret_cast<uint64_t>(begin);
    stacks.bytes = reinterpret_cast<uint64_t>(end) - stacks.begin;
}

void forget_memory(uint64_t begin) {
    for (range &one : allowed) {
        if (one.begin != begin) continue;
        munmap(one.grains, one.mapped);
        one = allowed.back();
        allowed.pop_back();
        forget_recent();
        return;
    }
}

static void next_time() { time_now += static_cast<stamp>(1) << TIME_SHIFT; }

void watch_barrier() {
    next_time();
    count_barrier();
}

void watch_launch() {
    next_time();
    count_launch();
    launch_start = time_now;
    found[0] = '\0';
}

void watch_block() {
    next_time();
    block_start = time_now;
    running = true;
}

const char *watch_end() {
    running = false;
    count_block();
    return found[0] ? found : nullptr;
}

void watch_atomic(const void *pointer, unsigned size) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    if (running) check_place(contains(shared_range, address) ? &shared_range : range_of(address), address, size, size);
}

} // namespace emulator

// The functions that the compiler calls. A copy that may be unaligned has no alignment.
#define HOOK(name, size, alignment, writes) \
    extern "C" void name(void *pointer) { \
        const uint64_t address = reinterpret_cast<uint64_t>(pointer); \
        if (!emulator::contains(emulator::stacks, address)) emulator::access_of<writes, size, alignment>(address, __builtin_return_address(0)); \
    }
#define HOOKS(size) \
    HOOK(__tsan_read##size, size, size, false) \
    HOOK(__tsan_write##size, size, size, true) \
    HOOK(__tsan_unaligned_read##size, size, 1, false) \
    HOOK(__tsan_unaligned_write##size, size, 1, true)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void *pointer, unsigned long bytes) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    if (!emulator::contains(emulator::stacks, address)) emulator::access<false>(address, bytes, 1, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *pointer, unsigned long bytes) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    if (!emulator::contains(emulator::stacks, address)) emulator::access<true>(address, bytes, 1, __builtin_return_address(0));
}
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
