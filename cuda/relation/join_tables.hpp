// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "equi_join/equi_join.hpp"
#include "relation/device_table.hpp"
#include "relation/key_columns.hpp"

namespace spillway::cuda {

// A result column: of the build side, of the probe side, or (kEither: the key of a full join) of the probe side where
// it has a row, else of the build side.
enum class TableSide : uint8_t { kBuild, kProbe, kEither };

struct TableJoinColumn {
    TableSide side = TableSide::kBuild;
    uint32_t build_column = 0;
    uint32_t probe_column = 0;
};

struct TableJoin {
    JoinAlgorithm algorithm = JoinAlgorithm::kRadixHash;
    JoinKind kind;
    std::vector<KeyPart> build_keys;
    std::vector<KeyPart> probe_keys;  // as many, each of the build part's kind of value and width
    bool nulls_equal = false;
    std::vector<TableJoinColumn> output;
    uint64_t expected_rows = 0;
    uint64_t first_key = 0;  // kPerfectHash
    uint64_t key_range = 0;
};

// Payload columns travel packed in the rows of the join as far as a row has room for them (GFTR), others by row number
// (GFUR); NULLs travel as a field of bits.
DeviceTable join_tables(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);
uint64_t count_join(Device& device, const DeviceTable& build, const DeviceTable& probe, const TableJoin& join);

}  // namespace spillway::cuda
