// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "equi_join/radix_hash_join.hpp"
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
    int radix_bits = -1;         // of partitioned joins: -1 = as many as fit shared memory
    uint32_t row_words_max = 0;  // kRadixHash: of rows that are moved whole; 0: what policy says
};

// Both wait for the device. Throws kInvalid, kOutOfMemory, kCancelled.
JoinResult equi_join(Device& device, const DeviceRelation& build, const DeviceRelation& probe, const EquiJoin& join);
// Rows of that join's result. output and plan do not matter.
uint64_t equi_join_count(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                         const EquiJoin& join);

// equi_join() for results in pieces. The relations stay, where the kind of join keeps rows without a key, until the
// last piece; else they may go. Throws kInvalid for algorithms other than kRadixHash: their tables and sorted rows are
// of whole relations, which what is left of a device's memory had better be used for.
RadixJoinPieces equi_join_pieces(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                                 const EquiJoin& join);

}}  // namespace spillway::cuda::equi_joins
