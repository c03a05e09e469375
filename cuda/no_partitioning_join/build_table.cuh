// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "no_partitioning_join/npj_policy.hpp"
#include "no_partitioning_join/npj_tables.cuh"

// Inserts every build row that has a key. Per row the key is read once, in order (4 or 8 bytes), and one random sector
// takes an atomic, 1.4 on average with linear probing: 2^27 rows at the 12 G/s of a table of 2 GiB and more 11 ms, 2^20
// rows at the 34 G/s of one in the L2 cache 0.03 ms. Slots of 16 bytes move no more sectors than those of 8 but for
// walks, 2.5 slots in 1.75 sectors, and take a plain store more. Perfect hashing: 2^27 rows of shuffled keys in 512 MiB
// at 13.4 G/s 10 ms; sorted keys share sectors and take a fraction.
namespace spillway::cuda { inline namespace no_partitioning_joins {

struct BuildStatus {
    unsigned long long walk_steps;    // of walks of kWalkReportSteps and more; kWalkTooLong and above: of one of them
    unsigned long long repeated;      // not 0: a key of a perfect hash table comes twice
    unsigned long long out_of_range;  // not 0: a key is outside of its range
};
constexpr unsigned long long kWalkTooLong = 1ULL << 62;

// Thousands of threads may have the same to say.
__device__ inline void raise(unsigned long long* flag) {
    if (*static_cast<volatile unsigned long long*>(flag) == 0) atomicExch(flag, 1ULL);
}

// False: this walk, or all of them together, took too long. Then the table is of no use and every long walk ends at its
// next report; short ones go on, as they cost no more than any build.
__device__ inline bool may_walk_on(uint32_t steps, uint64_t steps_max, BuildStatus* status) {
    if (steps >= kWalkStepsMax) {
        atomicMax(&status->walk_steps, kWalkTooLong);
        return false;
    }
    return atomicAdd(&status->walk_steps, static_cast<unsigned long long>(kWalkReportSteps)) <= steps_max;
}

// From a slot that was taken to the next empty one, of which there are as many as rows.
template <class Table>
__device__ void walk_and_insert(const Table& table, uint64_t slot, typename Table::Key key, uint64_t row,
                                uint64_t steps_max, BuildStatus* status) {
    for (uint32_t steps = 1;; ++steps) {
        if (steps % kWalkReportSteps == 0 && !may_walk_on(steps, steps_max, status)) return;
        slot = table.next(slot);
        if (steps >= kClaimsWithoutLook && table.is_taken(slot)) continue;
        if (!Table::won(table.claim(slot, key, row))) continue;
        table.fill(slot, key);
        return;
    }
}

template <class Table>
__global__ void __launch_bounds__(kNpjThreads, kNpjBlocksPerMultiprocessor)
    build_table_kernel(Table table, KeyRows<typename Table::Key> build, uint64_t walk_steps_max, BuildStatus* status) {
    constexpr uint64_t kTileRows = static_cast<uint64_t>(kNpjThreads) * kNpjUnroll;
    const uint64_t step = gridDim.x * kTileRows;
    for (uint64_t tile = blockIdx.x * kTileRows; tile < build.rows; tile += step) {
        typename Table::Key keys[kNpjUnroll];
        bool there[kNpjUnroll];
#pragma unroll
        for (int u = 0; u < kNpjUnroll; ++u) {
            const uint64_t row = tile + u * kNpjThreads + threadIdx.x;
            there[u] = build.has_key(row);
            keys[u] = there[u] ? Table::stored(__ldcs(&build.keys[row])) : 0;
        }
        // All claims are under way before the first answer is waited for.
        uint64_t slots[kNpjUnroll];
        typename Table::Claim before[kNpjUnroll];
#pragma unroll
        for (int u = 0; u < kNpjUnroll; ++u) {
            const uint64_t row = tile + u * kNpjThreads + threadIdx.x;
            const bool fits = table.first(keys[u], slots[u]);
            if (there[u] && !fits) raise(&status->out_of_range);
            there[u] = there[u] && fits;
            if (there[u]) before[u] = table.claim(slots[u], keys[u], row);
        }
#pragma unroll
        for (int u = 0; u < kNpjUnroll; ++u) {
            if (!there[u]) continue;
            if (Table::won(before[u])) {
                table.fill(slots[u], keys[u]);
            } else if constexpr (Table::kWalks) {
                const uint64_t row = tile + u * kNpjThreads + threadIdx.x;
                walk_and_insert(table, slots[u], keys[u], row, walk_steps_max, status);
            } else {
                raise(&status->repeated);
            }
        }
    }
}

}}  // namespace spillway::cuda::no_partitioning_joins
