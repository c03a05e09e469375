// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda {

// Joins by name (reference names in docs/internals.md).
enum class JoinAlgorithm : uint8_t {
    kRadixHash = 0,         // packed rows, radix partitioned, joined in shared memory: PHJ-TR in rows
    kNoPartitioning = 1,    // NPJ, linear probing
    kPerfectHash = 2,       // NPJ, an array indexed by key - first_key
    kBucketChain = 3,       // PHJ-UR: row numbers in chains of buckets, payloads gathered
    kSortMergeGather = 4,   // SMJ-UR
    kSortMergeColumns = 5,  // SMJ-TR
    kMergeSort = 6,         // sort-merge join by merge sort
    kSharedHistogram = 7    // PHJ by shared histograms: row numbers in contiguous partitions, payloads gathered
};

struct EquiJoin {
    JoinAlgorithm algorithm = JoinAlgorithm::kRadixHash;
    JoinKind kind;
    std::vector<JoinOutputColumn> output;
    uint64_t expected_rows = 0;  // of the result (joins by pairs: of those): what memory is taken for at first
    OutputPlan plan = OutputPlan::kOnePass;
    uint64_t first_key = 0;  // kPerfectHash, see NpjOptions
    uint64_t key_range = 0;
    int radix_bits = -1;  // of partitioned joins: -1 = as many as fit shared memory
};

// Rows (key and columns) of at most 32 bytes per side for kRadixHash; wider ones carry row numbers (a DeviceColumn
// without data) and are gathered afterwards. Both wait for the device. Throws kInvalid, kOutOfMemory, kCancelled.
JoinResult equi_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join);
// Rows of that join's result. output and plan do not matter.
uint64_t equi_join_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         const EquiJoin& join);

}  // namespace spillway::cuda
