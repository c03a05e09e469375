// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "group_by/group_by.hpp"
#include "relation/device_table.hpp"
#include "relation/key_columns.hpp"

namespace spillway::cuda {

enum class TableAggregateKind : uint8_t { kCountRows, kCount, kSum, kMin, kMax, kMean, kFirst, kAny, kCountDistinct };

// How values of a column compare and add.
enum class TableValueKind : uint8_t { kSigned, kUnsigned, kFloat, kDecimal, kBytes };

struct TableAggregate {
    TableAggregateKind kind = TableAggregateKind::kCountRows;
    uint32_t column = 0;  // kCountRows: none
    TableValueKind value_kind = TableValueKind::kSigned;
    uint32_t result_width = 8;  // of the result's values
    int32_t decimal_scale = 0;  // kMean of a decimal, -76 to 76: the mean is divided by 10^decimal_scale
};

struct TableGroupBy {
    GroupByAlgorithm algorithm = GroupByAlgorithm::kHash;
    std::vector<KeyPart> keys;  // none: one group, also without rows
    std::vector<TableAggregate> aggregates;
    uint64_t expected_groups = 0;
};

// Key columns in order (the values of a row of the group), then aggregates. Results and their NULLs are those of
// native/cpu/group_by, but for sums of floats, which are not compensated. Throws kInvalid, with a text that names it,
// for what has no implementation here (sums of decimals of 32 bytes; half floats): the CPU engine has. kOverflow: a sum
// of integers does not fit 64 bits, one of decimals 38 digits.
DeviceTable group_table(Device& device, const DeviceTable& table, const TableGroupBy& group);

}  // namespace spillway::cuda
