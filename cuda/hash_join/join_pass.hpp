// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/packed_match.cuh"

namespace spillway::cuda { inline namespace hash_join {

struct JoinSide {
    const uint32_t* rows = nullptr;
    const uint64_t* begin = nullptr;  // [partitions]
    const uint64_t* end = nullptr;
    uint32_t row_words = 1;
    uint8_t* marks = nullptr;  // a byte per row of `rows`: set to 1 where it has a match; nullptr: nobody asks
};

// Sums over matches, of rows that are a key and one payload as wide as the key.
struct SumTargets {
    unsigned long long* totals = nullptr;  // [kSumTotals]
    bool keys = false;                     // whether they are wanted: turning mixed keys back takes instructions
};
enum SumTotal : uint32_t { kMatchTotal, kKeyTotal, kBuildTotal, kProbeTotal };
constexpr uint32_t kSumTotals = 4;

struct JoinPass {
    JoinSide build;
    JoinSide probe;
    uint64_t partitions = 1;
    const uint64_t* first_unit = nullptr;  // [partitions + 1]
    unsigned long long* next_unit = nullptr;
    uint32_t build_capacity = 0;   // rows that a block holds, a multiple of kRegionAlignRows
    uint32_t probe_unit_rows = 0;  // of a unit at most, a multiple of kRegionAlignRows
    uint32_t buckets = 4;          // of a block's hash table, a multiple of 4
    uint32_t chain_buckets = ~0U;  // those that chains use of them, likewise; tables of repeated keys use all
    uint32_t radix_bits = 0;
    PackedOutput output;
    SumTargets sums;
};

// What a join kernel does with matches.
enum class MatchUse : uint8_t { kCount, kMark, kWrite, kSum };

using JoinKernel = void (*)(JoinPass);

// probe_words: of a probe row; only kWrite has a kernel for each. One file per key width, to compile side by side.
JoinKernel join_kernel_4(MatchUse use, uint32_t probe_words);
JoinKernel join_kernel_8(MatchUse use, uint32_t probe_words);
// Both sides must have rows that are a key and a payload of its width (SumTargets).
JoinKernel join_kernel_sum(uint32_t key_words);

}}  // namespace spillway::cuda::hash_join
