// SPDX-License-Identifier: Apache-2.0
// One table in GPU memory, searched by linear probing and filled by compare-and-swap. The paper's rows remember the row
// that inserted their key, at which its number stands, ours the slot: the number is there when the kernel has ended.
// Slots are never freed, so that what the L1 cache says of a key that is there stays true, and rows of hot keys and of
// few groups are found without an access to the L2 cache. Only an empty slot is asked for again, by the atomic
// operation that claims it.
// Numbers are reserved by a warp for all of its new groups at once. Warps come to that in another order than they
// claimed slots, so that the keys of a sample are numbered before all others: of 2^20 keys with Zipf frequencies the
// first ones may else have any of the numbers that the rows bring which are on their way together, some 300,000.
// Bytes: the table cleared; keys read and a slot's number written per row, in order, and a random sector read; for each
// group its number written at random. 2^28 rows of 4-byte keys and few groups: 2.1 GB, 0.54 ms at 3.98 TB/s; with 2^26
// groups a sector of 32 bytes per row beside them, 8.6 GB, 2.2 ms, and what insertions take.
#include <cstdint>
#include <utility>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/dense/dense_policy.hpp"
#include "group_by/dense/number_groups.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

// What the kernel tells the host, which reads whole words of 8 bytes.
struct NumberCounters {
    unsigned long long groups;
    unsigned long long failed;  // 1: a key has no place
};

// A key that was in the slot some time ago, or kEmpty. Tools that watch memory get the look of all tables.
template <int kKeyWords>
__device__ inline typename MixedKey<kKeyWords>::Key glance(const GlobalSlots<kKeyWords>& table, uint64_t at) {
#ifdef SPILLWAY_CUDA_PLAIN_COPIES
    return table.look(&table.keys[at]);
#else
    return __ldca(&table.keys[at]);
#endif
}

// Sets `slot` to the slot of the key, searched from there on, or to kNoSlot; true: the key is new.
template <int kKeyWords>
__device__ inline bool claim_group(const GlobalSlots<kKeyWords>& table, typename MixedKey<kKeyWords>::Key mixed,
                                   uint64_t walk_max, unsigned long long* failed, uint64_t& slot) {
    using Slots = GlobalSlots<kKeyWords>;
    using KeyWord = typename Slots::KeyWord;
    if (mixed == Slots::kEmpty) {
        slot = table.slots;
        return table.look(&table.keys[slot]) != 0 && atomicExch(&table.keys[slot], KeyWord{0}) != 0;
    }
    for (uint64_t step = 1; step <= walk_max; ++step) {
        KeyWord there = glance<kKeyWords>(table, slot);
        if (there == Slots::kEmpty) {
            there = atomicCAS(&table.keys[slot], static_cast<KeyWord>(Slots::kEmpty), static_cast<KeyWord>(mixed));
            if (there == Slots::kEmpty) return true;
        }
        if (there == mixed) return false;
        slot = slot + 1 == table.slots ? 0 : slot + 1;
        if (step % kNumberWalkCheck == 0 && __ldcg(failed) != 0) break;  // of a table that is full
    }
    atomicExch(failed, 1ULL);
    slot = Slots::kNoSlot;
    return false;
}

// Numbers for the new groups among a warp's rows, is_new a bit for each row of the lane; by all lanes.
template <int kKeyWords>
__device__ inline void number_new_groups(const GlobalSlots<kKeyWords>& table, const uint64_t (&slot)[kNumberRows],
                                         uint32_t is_new, unsigned long long* groups) {
    uint32_t lanes[kNumberRows];
    uint32_t count = 0;
#pragma unroll
    for (int r = 0; r < kNumberRows; ++r) {
        lanes[r] = __ballot_sync(kFullWarp, (is_new >> r & 1) != 0);
        count += __popc(lanes[r]);
    }
    if (count == 0) return;
    unsigned long long number = 0;
    if (lane_index() == 0) number = atomicAdd(groups, static_cast<unsigned long long>(count));
    number = __shfl_sync(kFullWarp, number, 0);
#pragma unroll
    for (int r = 0; r < kNumberRows; ++r) {
        if ((is_new >> r & 1) != 0) {
            *table.place(0, slot[r]) = static_cast<uint32_t>(number + __popc(lanes[r] & lanes_below()));
        }
        number += __popc(lanes[r]);
    }
}

// Every step-th row, so many of them.
struct NumberedRows {
    uint64_t rows;
    uint64_t step;
    uint32_t* slots;  // of each row; nullptr: nobody asks for them
};

template <int kKeyWords>
__global__ void __launch_bounds__(kNumberThreads)
    number_groups_kernel(const __grid_constant__ GlobalGroups groups, const typename MixedKey<kKeyWords>::Key* keys,
                         const uint32_t* valid, NumberedRows numbered, NumberCounters* counters) {
    constexpr uint64_t kBlockRows = static_cast<uint64_t>(kNumberThreads) * kNumberRows;
    using Slots = GlobalSlots<kKeyWords>;
    const Slots table = groups.table<kKeyWords>();
    const uint64_t walk_max = min(static_cast<uint64_t>(groups.walk_max), groups.slots);
    for (uint64_t first = blockIdx.x * kBlockRows; first < numbered.rows; first += gridDim.x * kBlockRows) {
        typename MixedKey<kKeyWords>::Key mixed[kNumberRows];
        typename MixedKey<kKeyWords>::Key seen[kNumberRows];
        uint64_t slot[kNumberRows];
        uint32_t is_new = 0;
        bool has_no_place = false;
#pragma unroll
        for (int r = 0; r < kNumberRows; ++r) {
            const uint64_t place = first + r * kNumberThreads + threadIdx.x;
            const uint64_t row = place * numbered.step;
            const bool has_key =
                place < numbered.rows && (valid == nullptr || (__ldg(&valid[row / 32]) >> (row % 32) & 1) != 0);
            mixed[r] = has_key ? MixedKey<kKeyWords>::mix(__ldcs(&keys[row])) : 0;
            slot[r] = has_key ? global_slot<kKeyWords>(mixed[r], groups.slots) : Slots::kNoSlot;
        }
#pragma unroll
        for (int r = 0; r < kNumberRows; ++r) {
            seen[r] = slot[r] == Slots::kNoSlot ? Slots::kEmpty : glance<kKeyWords>(table, slot[r]);
        }
#pragma unroll
        for (int r = 0; r < kNumberRows; ++r) {
            if (slot[r] == Slots::kNoSlot || (seen[r] == mixed[r] && seen[r] != Slots::kEmpty)) continue;
            if (claim_group<kKeyWords>(table, mixed[r], walk_max, &counters->failed, slot[r])) is_new |= 1U << r;
            has_no_place |= slot[r] == Slots::kNoSlot;
        }
        // The attempt has failed, and every warp that comes to a full table leaves with the first rows that tell it so.
        // Nobody else asks: one address that all warps look at with all rows cost a tenth of the whole group-by.
        if (__any_sync(kFullWarp, has_no_place)) return;
        number_new_groups<kKeyWords>(table, slot, is_new, &counters->groups);
        if (numbered.slots == nullptr) continue;
#pragma unroll
        for (int r = 0; r < kNumberRows; ++r) {
            const uint64_t row = first + r * kNumberThreads + threadIdx.x;
            if (row < numbered.rows) __stcs(&numbered.slots[row], static_cast<uint32_t>(slot[r]));
        }
    }
}

// A slot per thread. Bytes: the table once, a key written at random per group.
template <int kKeyWords>
__global__ void __launch_bounds__(kNumberThreads)
    write_group_keys_kernel(const __grid_constant__ GlobalGroups groups, typename MixedKey<kKeyWords>::Key* keys) {
    const GlobalSlots<kKeyWords> table = groups.table<kKeyWords>();
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t slot = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; slot <= groups.slots; slot += step) {
        if (table.is_taken(slot)) keys[table.get(0, slot)] = MixedKey<kKeyWords>::unmix(table.key_of(slot));
    }
}

void launch_numbers(Device& device, const GroupByRequest& request, const GlobalGroups& table, const NumberedRows& rows,
                    NumberCounters* counters) {
    const dim3 grid = grid_over(device, rows.rows, static_cast<uint64_t>(kNumberThreads) * kNumberRows, 8);
    if (request.key.width == 4) {
        launch(number_groups_kernel<1>, grid, dim3(kNumberThreads), 0, device.stream(), table,
               static_cast<const uint32_t*>(request.key.data), request.key_valid, rows, counters);
    } else {
        launch(number_groups_kernel<2>, grid, dim3(kNumberThreads), 0, device.stream(), table,
               static_cast<const uint64_t*>(request.key.data), request.key_valid, rows, counters);
    }
}

uint64_t table_bytes(const GlobalGroups& table, uint32_t key_bytes) {
    return table.entries * (key_bytes + sizeof(uint32_t));
}

}  // namespace

std::optional<NumberedGroups> number_groups(Device& device, const GroupByRequest& request, const NumberTable& table,
                                            uint64_t sampled_rows) {
    const uint32_t key_bytes = request.key.width;
    NumberedGroups numbered;
    numbered.table.walk_max = table.walk_max;
    numbered.memory.make(device, key_bytes, 1, table.slots, numbered.table);
    numbered.row_slots = device.memory().allocate(request.rows * sizeof(uint32_t), "groups of rows");
    const Allocation memory = device.memory().allocate(sizeof(NumberCounters), "counters of a group-by");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(memory.as(), 0, memory.bytes(), device.stream()));
    auto* const counters = memory.as<NumberCounters>();
    if (sampled_rows > 0 && sampled_rows < request.rows) {
        launch_numbers(device, request, numbered.table, {sampled_rows, request.rows / sampled_rows, nullptr}, counters);
    }
    launch_numbers(device, request, numbered.table, {request.rows, 1, numbered.row_slots.as<uint32_t>()}, counters);
    const auto counted = read_published<NumberCounters>(device, counters);
    if (counted.failed != 0) return std::nullopt;
    numbered.groups = counted.groups;
    count_moved(device,
                table_bytes(numbered.table, key_bytes) + request.rows * (key_bytes + sizeof(uint32_t)) +
                    sector_bytes(device, request.rows, key_bytes, numbered.table.entries * key_bytes) +
                    sector_bytes(device, numbered.groups, sizeof(uint32_t), numbered.table.entries * sizeof(uint32_t)));
    return numbered;
}

void write_group_keys(Device& device, const NumberedGroups& numbered, uint32_t key_bytes, void* keys) {
    count_moved(device, table_bytes(numbered.table, key_bytes) +
                            sector_bytes(device, numbered.groups, key_bytes, numbered.groups * key_bytes));
    const dim3 grid = grid_over(device, numbered.table.slots + 1, kNumberThreads, 8);
    if (key_bytes == 4) {
        launch(write_group_keys_kernel<1>, grid, dim3(kNumberThreads), 0, device.stream(), numbered.table,
               static_cast<uint32_t*>(keys));
    } else {
        launch(write_group_keys_kernel<2>, grid, dim3(kNumberThreads), 0, device.stream(), numbered.table,
               static_cast<uint64_t*>(keys));
    }
}

}}  // namespace spillway::cuda::grouping
