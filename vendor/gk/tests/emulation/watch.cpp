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

#include <vector>

#include "emulator.h"

namespace emulator {
namespace {

enum { PAGE = 4096, GRAIN = 2, SLOTS = 1 << 14, NOBODY = 0x10000 };

// Identifies an access: launch, block, number of barriers that the block had passed, thread. Launch 0 does not exist.
struct stamp {
    uint32_t launch, block;
    uint16_t epoch, thread;
};

// State of GRAIN bytes, the smallest unit that kernels write.
struct shadow {
    stamp write, read;
    bool many; // further threads of that block and epoch have read
};

struct shadow_page {
    uint64_t number;
    shadow *grains;
};

struct range {
    uint64_t begin, end;
};

shadow_page pages[SLOTS]; // indexed by a hash of the page number
size_t pages_used;
std::vector<range> allowed; // allocations
size_t last_range;
range shared_range; // set before the vector exists
uint32_t launch_number, block_number;
bool running;
char found[320];

shadow *shadows_of(uint64_t page) {
    size_t at = (page * 0x9e3779b97f4a7c15u) >> 50; // 14 bits
    while (pages[at].grains && pages[at].number != page) at = (at + 1) % SLOTS;
    if (!pages[at].grains) {
        pages[at].number = page;
        pages[at].grains = static_cast<shadow *>(calloc(PAGE / GRAIN, sizeof(shadow)));
        if (!pages[at].grains || ++pages_used > SLOTS / 2) {
            fprintf(stderr, "emulator: the kernels access more memory than can be watched\n");
            abort();
        }
    }
    return pages[at].grains;
}

bool in_shared(uint64_t address) { return address >= shared_range.begin && address < shared_range.end; }

void complain(const char *what, uint64_t address, unsigned size, unsigned other) {
    if (found[0]) return; // the first error is the cause
    const int used = snprintf(found, sizeof found, "%s: %u bytes of %s memory at ...%06llx, block %u,%u,%u, thread %u", what, size,
                              in_shared(address) ? "shared" : "global", static_cast<unsigned long long>(address & 0xffffff),
                              blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
    if (other != NOBODY) snprintf(found + used, sizeof found - static_cast<size_t>(used), " and thread %u", other);
}

bool same_time(const stamp &x, const stamp &y) { return x.launch == y.launch && x.block == y.block && x.epoch == y.epoch; }

// True if nothing orders the two accesses. Each block has its own shared memory on a device; here blocks reuse one
// range.
bool concurrent(const stamp &before, const stamp &now, bool shared) {
    if (before.launch != now.launch) return false;
    if (before.block != now.block) return !shared;
    return before.epoch == now.epoch && before.thread != now.thread;
}

void note(shadow &grain, const stamp &now, bool writes) {
    if (writes) {
        grain.write = now;
    } else if (same_time(grain.read, now)) {
        grain.many = grain.many || grain.read.thread != now.thread;
    } else {
        grain.read = now;
        grain.many = false;
    }
}

const range *range_of(uint64_t address) {
    if (in_shared(address)) return &shared_range;
    if (last_range < allowed.size() && address >= allowed[last_range].begin && address < allowed[last_range].end) return &allowed[last_range];
    for (last_range = 0; last_range < allowed.size(); ++last_range)
        if (address >= allowed[last_range].begin && address < allowed[last_range].end) return &allowed[last_range];
    return nullptr;
}

// Is the access allowed? Its alignment must equal the size of the instruction.
bool check_place(uint64_t address, unsigned size) {
    const range *at = range_of(address);
    if (!at) complain("no such memory", address, size, NOBODY);
    else if (address + size > at->end) complain("past the end of an allocation", address, size, NOBODY);
    else if (address % size != 0) complain("misaligned", address, size, NOBODY);
    else return true;
    return false;
}

void access(const void *pointer, unsigned size, bool writes) {
    const uint64_t address = reinterpret_cast<uint64_t>(pointer);
    if (!running || (!range_of(address) && is_private(pointer)) || !check_place(address, size)) return;
    const stamp now = {launch_number, block_number, static_cast<uint16_t>(barriers_passed()), static_cast<uint16_t>(threadIdx.x)};
    for (uint64_t at = address / GRAIN * GRAIN; at < address + size; at += GRAIN) {
        shadow &grain = shadows_of(at / PAGE)[at % PAGE / GRAIN];
        if (concurrent(grain.write, now, in_shared(at)))
            complain(writes ? "race of two writes" : "race of a read with a write", address, size, grain.write.thread);
        else if (writes && (concurrent(grain.read, now, in_shared(at)) || (grain.many && same_time(grain.read, now))))
            complain("race of a write with a read", address, size, grain.read.thread);
        else if (!writes && in_shared(at) && (grain.write.launch != now.launch || grain.write.block != now.block))
            complain("read of memory that was never written", address, size, NOBODY);
        note(grain, now, writes);
    }
}

void access_bytes(const void *pointer, unsigned long bytes, bool writes) {
    for (unsigned long i = 0; i < bytes; ++i) access(static_cast<const char *>(pointer) + i, 1, writes);
}

} // namespace

void watch_memory(uint64_t begin, uint64_t bytes) { allowed.push_back({begin, begin + bytes}); }

void watch_shared(void *begin, void *end) {
    shared_range = {reinterpret_cast<uint64_t>(begin), reinterpret_cast<uint64_t>(end)};
}

void forget_memory(uint64_t begin) {
    for (range &one : allowed) {
        if (one.begin != begin) continue;
        one = allowed.back();
        allowed.pop_back();
        return;
    }
}

void watch_launch() {
    ++launch_number;
    found[0] = '\0';
}

void watch_block(uint64_t number) {
    block_number = static_cast<uint32_t>(number);
    running = true;
}

const char *watch_end() {
    running = false;
    return found[0] ? found : nullptr;
}

void watch_atomic(const void *pointer, unsigned size) {
    if (running) check_place(reinterpret_cast<uint64_t>(pointer), size);
}

} // namespace emulator

// The functions that the compiler calls. It treats a copy that may be unaligned as one of bytes.
#define HOOKS(size) \
    extern "C" void __tsan_read##size(void *address) { emulator::access(address, size, false); } \
    extern "C" void __tsan_write##size(void *address) { emulator::access(address, size, true); } \
    extern "C" void __tsan_unaligned_read##size(void *address) { emulator::access_bytes(address, size, false); } \
    extern "C" void __tsan_unaligned_write##size(void *address) { emulator::access_bytes(address, size, true); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
extern "C" void __tsan_read_range(void *address, unsigned long bytes) { emulator::access_bytes(address, bytes, false); }
extern "C" void __tsan_write_range(void *address, unsigned long bytes) { emulator::access_bytes(address, bytes, true); }
extern "C" void __tsan_init() {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
