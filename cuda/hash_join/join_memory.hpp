// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_policy.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda {

// Matches of a warp that wait until there are 32: what is left of a write, and what each probe row of a thread adds.
constexpr uint32_t kQueueRows = kWarpThreads + 4 * kDirectLanesMin;
constexpr uint32_t kListedRows = 2 * kQueueRows;  // in the same place, of 16 bits
constexpr uint32_t kJoinWarps = kJoinThreads / kWarpThreads;

// Shared memory of a block: build rows, buckets, queues, chains.
struct JoinMemory {
    static __host__ __device__ uint64_t bytes(uint64_t capacity, uint32_t row_words, uint64_t buckets,
                                              bool holds_keys) {
        return capacity * (row_words * 4ULL + (holds_keys ? 0 : 4)) + buckets * 4 + kJoinWarps * kQueueRows * 4ULL;
    }
};

struct QueuedPair {
    uint16_t probe;  // row of the unit
    uint16_t build;  // row of the block
};

}  // namespace spillway::cuda
