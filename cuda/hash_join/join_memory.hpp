// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/gpu_facts.hpp"
#include "hash_join/join_policy.hpp"
#include "primitive/warp_threads.hpp"

namespace spillway::cuda { inline namespace hash_join {

// A row of a block's hash table has a word of 18 bits of its key and the 14-bit number of the next row of its chain.
constexpr int kBuildNumberBits = 14;  // the upper ones of a word
constexpr int kHeldKeyBits = 32 - kBuildNumberBits;
constexpr uint32_t kHeldKey = (1U << kHeldKeyBits) - 1;
constexpr uint32_t kNoBuildRow = (1U << kBuildNumberBits) - 1;
constexpr uint32_t kEmptyBucket = ~0U;  // its number is kNoBuildRow: where the bits of a key match it, no row is found
constexpr uint32_t kBucketsMin = 16;    // of a table, however few its rows

// Keys of 4 bytes of one bucket whose lowest 18 bits are equal are equal: they have the radix bits r in common, so that
// others would be 2^(18 + r) apart behind these, which is another bucket where there are 2^(14 - r). Then walks need no
// look at keys, and the chains' words take the keys' place in the rows.
SPILLWAY_HOST_DEVICE constexpr bool chains_hold_keys(uint32_t key_words, uint32_t radix_bits) {
    return key_words == 1 && (static_cast<uint64_t>(kBucketsMin) << radix_bits) >= 1ULL << kBuildNumberBits;
}

// Matches of a warp that wait until there are 32: what is left of a write, and what each probe row of a thread adds.
constexpr uint32_t kQueueRows = kWarpThreads + 4 * kDirectLanesMin;
constexpr uint32_t kListedRows = 2 * kQueueRows;  // in the same place, of 16 bits
constexpr uint32_t kJoinWarps = kJoinThreads / kWarpThreads;

// Shared memory of a block: build rows, buckets, queues, chains.
struct JoinMemory {
    static constexpr SPILLWAY_HOST_DEVICE uint64_t bytes(uint64_t capacity, uint32_t row_words, uint64_t buckets,
                                                         bool holds_keys) {
        return capacity * (row_words * 4ULL + (holds_keys ? 0 : 4)) + buckets * 4 + kJoinWarps * kQueueRows * 4ULL;
    }
};

// What does not depend on rows: queues, and more than the kernel's own variables.
constexpr uint64_t kJoinReservedBytes = JoinMemory::bytes(0, 0, 0, false) + 1024;

// What a block of the join kernel has room for.
struct BlockRoom {
    uint32_t rows = 0;
    uint32_t buckets = 4;
};
BlockRoom block_room(const GpuFacts& gpu, uint32_t key_words, uint32_t row_words, int radix_bits);

// Further radix bits, of one pass at most, with which a partition of so many build rows, made of `done` bits, fits a
// block's shared memory; as many as one pass takes where it would not with any.
int second_pass_bits(const GpuFacts& gpu, uint32_t key_words, uint32_t row_words, uint64_t partition_rows, int done);

struct QueuedPair {
    uint16_t probe;  // row of the unit
    uint16_t build;  // row of the block
};

}}  // namespace spillway::cuda::hash_join
