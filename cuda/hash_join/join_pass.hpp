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

// A probe row and some of the build rows that have its key, all of one unit.
struct LongMatch {
    uint64_t probe_row;
    uint64_t build_first;  // of the unit
    uint64_t words;        // where the first of the build rows has its first column word in the list
    uint32_t stride;       // from there to its next word
    uint32_t count;        // of build rows, which are neighbours; 0: there was no room for this match
};

// Where the join kernel leaves probe rows with many matches, for long_matches.cu. What there is no room for, it writes
// itself.
struct LongMatchList {
    LongMatch* matches = nullptr;
    uint64_t matches_capacity = 0;  // 0: there is no list
    // A unit's build rows, range by range: the words behind the key, each of all rows, then, if rows are to be marked,
    // their numbers in the unit.
    uint32_t* words = nullptr;
    uint64_t words_capacity = 0;
    unsigned long long* matches_taken = nullptr;  // [1], may be more than the capacity
    unsigned long long* words_taken = nullptr;    // [1], likewise
    unsigned long long* next_match = nullptr;     // [1]
    uint32_t rows_min = ~0U;                      // build rows that are many
};

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
    LongMatchList long_matches;
};

// What a join kernel does with matches. kList: leaves those of rows that have many on a list, and writes the others.
enum class MatchUse : uint8_t { kCount, kMark, kWrite, kSum, kList };

using JoinKernel = void (*)(JoinPass);

// probe_words: of a probe row; only kWrite has a kernel for each. One file per key width, to compile side by side.
JoinKernel join_kernel_4(MatchUse use, uint32_t probe_words);
JoinKernel join_kernel_8(MatchUse use, uint32_t probe_words);
// The same for kList, of which other joins shall not have the instructions.
JoinKernel join_list_kernel_4(uint32_t probe_words);
JoinKernel join_list_kernel_8(uint32_t probe_words);
// Both sides must have rows that are a key and a payload of its width (SumTargets).
JoinKernel join_kernel_sum(uint32_t key_words);

}}  // namespace spillway::cuda::hash_join
