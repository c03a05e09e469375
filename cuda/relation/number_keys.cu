// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "relation/key_parts.cuh"
#include "relation/relation_grid.cuh"

// Keys as numbers: an open-addressing table over the build side's rows, in which rows with one key share a slot. The
// key's number is the row that took the slot. Equal hashes are not taken for equal keys: every candidate is compared in
// full.
//
// Per row of either side: its key once in order, a random sector of slots (1.4 on average at half load; 42 G/s in an
// H200's memory, with an atomic where the slot is empty 12 G/s), and the key of the candidate, which is one random
// sector per key column, two for byte strings (offsets, bytes). 2^27 build rows and as many probe rows with a 20-byte
// string each: some 11 + 3 ms for slots and 2 * 2 * 3.2 ms for comparisons.
namespace spillway::cuda { inline namespace relation {

namespace {

constexpr unsigned long long kEmptySlot = ~0ULL;
constexpr uint32_t kRowBits = 48;  // of a slot; above them hash bits, so that few other keys are compared
constexpr unsigned long long kRowMask = (1ULL << kRowBits) - 1;
// The last row number with the highest hash bits would be an empty slot.
constexpr uint64_t kNumberedRowsMax = kRowMask;

struct KeySlots {
    unsigned long long* slots;
    uint32_t bits;
    uint64_t hash_mask;

    __device__ uint64_t hash(const KeyView& keys, uint64_t row) const { return hash_key(keys, row) & hash_mask; }
    __device__ uint64_t first(uint64_t hash) const { return hash >> (64 - bits); }
    __device__ uint64_t next(uint64_t slot) const { return (slot + 1) & ((1ULL << bits) - 1); }
    __device__ static unsigned long long entry(uint64_t hash, uint64_t row) { return hash << kRowBits | row; }
    __device__ static bool same_hash(unsigned long long a, unsigned long long b) { return (a ^ b) >> kRowBits == 0; }
};

__device__ void store_number(void* numbers, uint32_t width, uint64_t row, uint64_t number) {
    if (width == 4) {
        static_cast<uint32_t*>(numbers)[row] = static_cast<uint32_t>(number);
    } else {
        static_cast<uint64_t*>(numbers)[row] = number;
    }
}

// The first row with this row's key; the row itself when it is that.
__device__ uint64_t insert_key(const KeySlots& table, const KeyView& keys, uint64_t row) {
    const uint64_t hash = table.hash(keys, row);
    const unsigned long long entry = KeySlots::entry(hash, row);
    for (uint64_t slot = table.first(hash);; slot = table.next(slot)) {
        // A key that comes often is looked at, not claimed: atomics on one address queue up.
        unsigned long long taken = __ldcg(&table.slots[slot]);
        if (taken == kEmptySlot) taken = atomicCAS(&table.slots[slot], kEmptySlot, entry);
        if (taken == kEmptySlot) return row;
        if (KeySlots::same_hash(taken, entry) && equal_keys(keys, row, keys, taken & kRowMask)) {
            return taken & kRowMask;
        }
    }
}

// Bytes: see above; a slot is read and written.
__global__ void __launch_bounds__(kRelationThreads)
    insert_keys(KeySlots table, const __grid_constant__ KeyView keys, void* numbers, uint32_t width) {
    for_rows(keys.rows, [&](uint64_t row) {
        store_number(numbers, width, row, has_key(keys, row) ? insert_key(table, keys, row) : 0);
    });
}

struct FoundKey {
    bool is_found;
    uint64_t number;
};

__device__ FoundKey find_key(const KeySlots& table, const KeyView& build, const KeyView& probe, uint64_t row) {
    const uint64_t hash = table.hash(probe, row);
    const unsigned long long entry = KeySlots::entry(hash, 0);
    for (uint64_t slot = table.first(hash);; slot = table.next(slot)) {
        const unsigned long long taken = __ldg(&table.slots[slot]);
        if (taken == kEmptySlot) return {false, 0};
        if (KeySlots::same_hash(taken, entry) && equal_keys(probe, row, build, taken & kRowMask)) {
            return {true, taken & kRowMask};
        }
    }
}

// Bytes: see above, and a bit per row written.
__global__ void __launch_bounds__(kRelationThreads)
    find_keys(KeySlots table, const __grid_constant__ KeyView build, const __grid_constant__ KeyView probe,
              void* numbers, uint32_t width, uint32_t* found_bits) {
    for_warp_rows(probe.rows, [&](uint64_t first) {
        const uint64_t row = first + lane_index();
        FoundKey found{false, 0};
        if (row < probe.rows) {
            if (has_key(probe, row)) found = find_key(table, build, probe, row);
            store_number(numbers, width, row, found.number);
        }
        const uint32_t word = __ballot_sync(kFullWarp, found.is_found);
        if (lane_index() == 0) found_bits[first / 32] = word;
    });
}

uint32_t slot_bits_for(uint64_t rows) {
    uint32_t bits = kKeySlotBitsMin;
    while ((1ULL << bits) < rows * kKeySlotsPerRow) ++bits;
    return bits;
}

}  // namespace

NumberedSides number_keys(Device& device, const KeyView& build, const KeyView* probe, const KeyOptions& options) {
    if (build.rows > kNumberedRowsMax) throw Error(ErrorCode::kInvalid, "a table of more rows than any memory holds");
    const cudaStream_t stream = device.stream();
    const uint32_t bits = slot_bits_for(build.rows);
    const uint64_t bytes = sizeof(unsigned long long) << bits;
    const Allocation slots = device.memory().allocate(bytes, "table of keys");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(slots.as(), 0xff, bytes, stream));
    // The table cleared, and a slot per row, read and written where it is built. Keys are counted by who knows their
    // bytes; that candidates are compared is left out, for nobody counts them.
    const auto slot_bytes = [&](uint64_t rows) { return sector_bytes(device, rows, sizeof(uint64_t), bytes); };
    count_moved(device, bytes + 2 * slot_bytes(build.rows));
    const KeySlots table{slots.as<unsigned long long>(), bits, options.hash_mask};

    NumberedSides sides;
    sides.width = options.wide_numbers || build.rows >= ~uint32_t{0} ? 8 : 4;
    sides.build.numbers = device.memory().allocate(build.rows * sides.width, "numbers of keys");
    count_moved(device, sides.build.numbers.bytes());
    launch(insert_keys, relation_grid(device, build.rows), dim3(kRelationThreads), 0, stream, table, build,
           sides.build.numbers.as(), sides.width);
    if (probe == nullptr) return sides;
    sides.probe.numbers = device.memory().allocate(probe->rows * sides.width, "numbers of keys");
    sides.probe.found = device.memory().allocate(bitmap_words(probe->rows) * sizeof(uint32_t), "found keys");
    count_moved(device, slot_bytes(probe->rows) + sides.probe.numbers.bytes() + sides.probe.found.bytes());
    launch(find_keys, relation_grid(device, probe->rows), dim3(kRelationThreads), 0, stream, table, build, *probe,
           sides.probe.numbers.as(), sides.width, sides.probe.found.as<uint32_t>());
    return sides;
}

}}  // namespace spillway::cuda::relation
