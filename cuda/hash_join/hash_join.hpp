// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda { inline namespace hash_join {

// Radix bits with which the build side's partitions fit a block's shared memory.
int join_radix_bits(Device& device, uint64_t build_rows, uint32_t key_words, uint32_t build_row_words);

// A part of a join: ranges of rows in place of partitions, each of one partition (device memory, [ranges] each; build,
// probe). They begin at multiples of kRegionAlignRows.
struct JoinPart {
    uint64_t ranges = 0;
    const uint64_t* begin[2] = {};
    const uint64_t* end[2] = {};
    uint64_t rows[2] = {};  // of all ranges
};

// Which rows a join of partitions gives: by default all pairs of rows with equal keys.
struct JoinExtent {
    JoinKind kind;
    // What was partitioned: rows without a key, which outer and anti joins keep, are in no partition.
    const DeviceRelation* build = nullptr;
    const DeviceRelation* probe = nullptr;
    const JoinPart* part = nullptr;  // of inner joins; nullptr: all of it
    // Result rows that a warp reserves at once, at most; 0: what policy says. The fewer, the closer is the order of the
    // result to that of the partitions.
    uint32_t chunk_rows_max = 0;
};

// Joins of two relations that were partitioned with equal radix bits. Both wait for the device. Throws kInvalid,
// kOutOfMemory.
uint64_t count_matches(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                       const JoinExtent& extent = {});
// expected_rows: what memory is taken for at first.
JoinResult join_partitions(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                           const std::vector<JoinOutputColumn>& output, uint64_t expected_rows,
                           OutputPlan plan = OutputPlan::kOnePass, const JoinExtent& extent = {});

}}  // namespace spillway::cuda::hash_join
