// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// What every join is asked for, in GPU memory and beyond it.
namespace spillway::cuda { inline namespace api {

// Numbers of the sides, wherever there are two of something.
constexpr int kBuildSide = 0;
constexpr int kProbeSide = 1;

// Keys that kernels compare have 4 or 8 bytes, values of columns 1, 2, 4, 8 or 16.
constexpr uint32_t kKeyBytesMax = 8;
constexpr uint32_t kValueBytesMax = 16;
constexpr bool is_key_width(uint32_t bytes) {
    return bytes == 4 || bytes == kKeyBytesMax;
}
constexpr bool is_value_width(uint32_t bytes, uint32_t most = kValueBytesMax) {
    return bytes > 0 && bytes <= most && (bytes & (bytes - 1)) == 0;
}

// Joins in GPU memory; docs/api.md says what their names stand for.
enum class JoinAlgorithm : uint8_t {
    kRadixHash = 0,         // packed rows, radix partitioned, joined in shared memory: PHJ-TR in rows
    kNoPartitioning = 1,    // NPJ, linear probing
    kPerfectHash = 2,       // NPJ, an array indexed by key - first_key
    kBucketChain = 3,       // PHJ-UR: row numbers in chains of buckets, payloads gathered
    kSortMergeGather = 4,   // SMJ-UR
    kSortMergeColumns = 5,  // SMJ-TR
    kMergeSort = 6,         // sort-merge join by merge sort
    kSharedHistogram = 7,   // PHJ by shared histograms: row numbers in contiguous partitions, payloads gathered
    kGftrColumns = 8        // PHJ-TR as its authors have it: column by column, stably partitioned with the key
};
constexpr int kJoinAlgorithms = 9;
// By their numbers. Users, plans and reports have these names.
constexpr const char* kJoinAlgorithmNames[kJoinAlgorithms] = {"phj-tr", "npj",       "npj-perfect", "phj-ur",  "smj-ur",
                                                              "smj-tr", "smj-merge", "phj-shared",  "phj-gftr"};

enum class JoinEmit : uint8_t {
    kPairs,      // a row per match (inner and outer joins)
    kBuildOnce,  // build rows that have a match (semi) ...
    kProbeOnce   // probe rows that have a match (semi)
};

// Which rows a join gives. Rows without a key match nothing; outer and anti joins keep them.
struct JoinKind {
    JoinEmit emit = JoinEmit::kPairs;
    bool anti = false;                  // kBuildOnce, kProbeOnce: rows *without* a match
    bool keep_unmatched_build = false;  // kPairs
    bool keep_unmatched_probe = false;

    bool pairs() const { return emit == JoinEmit::kPairs; }
    bool inner() const { return pairs() && !keep_unmatched_build && !keep_unmatched_probe; }
    // Rows of a side follow the matches, or are all of the result, by whether they have met one: they are marked.
    bool marks_build_rows() const { return pairs() ? keep_unmatched_build : emit == JoinEmit::kBuildOnce; }
    bool marks_probe_rows() const { return pairs() ? keep_unmatched_probe : emit == JoinEmit::kProbeOnce; }
    // Rows of a side that have no partner are in the result, those without a key among them.
    bool keeps_unmatched_build() const { return pairs() ? keep_unmatched_build : emit == JoinEmit::kBuildOnce && anti; }
    bool keeps_unmatched_probe() const { return pairs() ? keep_unmatched_probe : emit == JoinEmit::kProbeOnce && anti; }
};

// kKey: the key of the match, or of the one row that is there; 0 where it has none. kPresence: a byte of PresenceBits.
enum class OutputSide : uint8_t { kBuild, kProbe, kKey, kPresence };

enum PresenceBits : uint8_t { kBuildPresent = 1, kProbePresent = 2, kKeyPresent = 4 };

struct JoinOutputColumn {
    OutputSide side = OutputSide::kProbe;
    uint32_t column = 0;  // of that side's columns; kKey and kPresence have none
};

}}  // namespace spillway::cuda::api
