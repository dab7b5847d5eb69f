// Counts what the accesses of a launch cost on a device of NVIDIA's, for budget.c. Lanes of a warp that are at the same place in the code,
// for the same time since the last barrier, execute one instruction. Per instruction:
//
//   - lines and sectors: how many different 128 and 32 bytes of global memory it reads or writes;
//   - bank cycles: how often shared memory is accessed for it. Each of 32 banks delivers one word of four bytes at a time; vectors of
//     8 and 16 bytes take a half and a quarter of the warp at a time.
//
// Per launch: barriers of all blocks, and the sectors that memory reads or writes if the cache keeps everything.
#include <stdio.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator.h"

namespace emulator {
namespace {

enum { LINE = 128, SECTOR = 32, WORD = 4, BANKS = 32, VECTOR = 16, MOST_THREADS = 1024 };

struct lane_access {
    uint64_t address;
    unsigned int lane;
    unsigned long size;
};

struct instruction {
    bool shared;
    std::vector<lane_access> lanes;
};

// Instructions at one place in the code: of each warp, those since the last barrier.
struct place {
    std::vector<instruction> of_warp[MOST_THREADS / GK_WARP];
    unsigned int times[MOST_THREADS];
};

// The last write of a thread: the compiler stores a vector in pieces, which count as one.
struct last_write {
    lane_access *access;
    uint64_t end;
};

struct totals {
    uint64_t lines, sectors, cycles, barriers;
};

std::unordered_map<const void *, place> places;
last_write last_writes[MOST_THREADS];
std::unordered_set<uint64_t> touched[2]; // sectors that this launch has read first, and that it has written
totals total;
std::string report;

// The different units of so many bytes.
uint64_t units(const std::vector<lane_access> &lanes, uint64_t bytes) {
    std::vector<uint64_t> found;
    for (const lane_access &one : lanes)
        for (uint64_t at = one.address / bytes; at <= (one.address + one.size - 1) / bytes; ++at) found.push_back(at);
    std::sort(found.begin(), found.end());
    return static_cast<uint64_t>(std::unique(found.begin(), found.end()) - found.begin());
}

uint64_t bank_cycles(const std::vector<lane_access> &lanes) {
    unsigned long size = WORD;
    for (const lane_access &one : lanes) size = std::max(size, one.size);
    const unsigned int parts = static_cast<unsigned int>(std::min<unsigned long>(size, VECTOR) / WORD);
    std::vector<uint64_t> words[VECTOR / WORD][BANKS];
    for (const lane_access &one : lanes)
        for (uint64_t at = one.address / WORD; at <= (one.address + one.size - 1) / WORD; ++at) {
            std::vector<uint64_t> &bank = words[one.lane * parts / GK_WARP][at % BANKS];
            if (std::find(bank.begin(), bank.end(), at) == bank.end()) bank.push_back(at);
        }
    uint64_t cycles = 0;
    for (const auto &part : words) {
        size_t most = 0;
        for (const std::vector<uint64_t> &bank : part) most = std::max(most, bank.size());
        cycles += most;
    }
    return cycles;
}

void count_instructions() {
    for (auto &entry : places)
        for (std::vector<instruction> &warp : entry.second.of_warp) {
            for (const instruction &one : warp) {
                if (one.shared) {
                    total.cycles += bank_cycles(one.lanes);
                } else {
                    total.lines += units(one.lanes, LINE);
                    total.sectors += units(one.lanes, SECTOR);
                }
            }
        }
    places.clear();
    for (last_write &one : last_writes) one = last_write();
}

} // namespace

bool counting;

void count_launch() {
    total = totals();
    for (auto &sectors : touched) sectors.clear();
}

void count_barrier() {
    if (!counting) return;
    ++total.barriers;
    count_instructions();
}

void count_access(bool shared, bool writes, uint64_t address, unsigned long size, const void *where) {
    const unsigned int thread = threadIdx.x, warp = thread / GK_WARP;
    for (uint64_t at = address / SECTOR; !shared && at <= (address + size - 1) / SECTOR; ++at)
        if (writes || touched[1].count(at) == 0) touched[writes].insert(at);
    last_write &last = last_writes[thread];
    if (writes && last.access && last.end == address && last.access->address / VECTOR == (address + size - 1) / VECTOR) {
        last.access->size += size;
        last.end += size;
        return;
    }
    place &here = places[where];
    std::vector<instruction> &made = here.of_warp[warp];
    const unsigned int time = here.times[thread]++;
    if (time == made.size()) {
        made.push_back({shared, {}});
        made.back().lanes.reserve(GK_WARP); // last_write has pointers to elements
    }
    made[time].lanes.push_back({address, thread % GK_WARP, size});
    if (writes) last = {&made[time].lanes.back(), address + size};
}

void count_end(const char *kernel, index3 grid) {
    if (!counting) return;
    char line[256];
    snprintf(line, sizeof line, "%s %llu %llu %llu %llu %llu %llu\n", kernel, static_cast<unsigned long long>(grid.x) * grid.y * grid.z,
             static_cast<unsigned long long>(total.lines), static_cast<unsigned long long>(total.sectors), static_cast<unsigned long long>(total.cycles),
             static_cast<unsigned long long>(total.barriers), static_cast<unsigned long long>(touched[0].size() + touched[1].size()) * SECTOR);
    report += line;
}

void count_block() {
    if (counting) count_instructions();
}

} // namespace emulator

// Lines of `kernel blocks lines sectors bank-cycles barriers bytes`, one for each launch since the last call. The first call starts to
// count. The text is valid until the next call.
extern "C" __attribute__((visibility("default"))) const char *gk_emulated_counts() {
    static std::string text;
    emulator::counting = true;
    text.swap(emulator::report);
    emulator::report.clear();
    return text.c_str();
}
