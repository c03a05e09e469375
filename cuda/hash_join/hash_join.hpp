// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda {

// Radix bits with which the build side's partitions fit a block's shared memory.
int join_radix_bits(Device& device, uint64_t build_rows, uint32_t build_row_words);

// Inner join of two relations that were partitioned with equal radix bits: every pair of rows with equal keys. Both
// wait for the device. Throws kInvalid, kOutOfMemory.
uint64_t count_matches(Device& device, const PartitionedRows& build, const PartitionedRows& probe);
// expected_rows: what memory is taken for at first.
JoinResult join_partitions(Device& device, const PartitionedRows& build, const PartitionedRows& probe,
                           const std::vector<JoinOutputColumn>& output, uint64_t expected_rows,
                           OutputPlan plan = OutputPlan::kOnePass);

}  // namespace spillway::cuda
