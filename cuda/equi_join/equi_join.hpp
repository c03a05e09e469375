// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace equi_joins {

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

}}  // namespace spillway::cuda::equi_joins
