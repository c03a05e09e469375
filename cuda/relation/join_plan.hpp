// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "relation/join_tables.hpp"

// Which columns of a table take which way through a join.
namespace spillway::cuda { inline namespace relation {

enum class ColumnWay : uint8_t {
    kKey,          // the join's own key column has the values
    kField,        // travels in the row of its side
    kGather,       // by row number after the join
    kGatherEither  // the same, from the side that has a row
};

constexpr int kNoNullBit = -1;

struct CarriedColumn {
    uint32_t column = 0;        // of the table
    int null_bit = kNoNullBit;  // in the side's field of NULLs
    uint32_t text_width = 0;    // of the field of a column of strings; 0: values of a fixed width
};

// Widths of fields by the columns of a table (text_fields.hpp): 0 for what is no string, and for those too long.
using TextWidths = std::vector<uint32_t>;

// One side. What it carries: the columns, the field of NULLs if any is nullable, the row number if anything has to be
// gathered.
struct SidePlan {
    std::vector<CarriedColumn> carried;
    size_t null_columns = 0;
    uint32_t row_number_width = 0;  // 0: none

    // Index into `carried`; -1: gathered.
    int find(uint32_t column) const;
};

// A column of the output.
struct PlannedColumn {
    ColumnWay way = ColumnWay::kField;
    TableSide side = TableSide::kBuild;
    uint32_t column = 0;          // of the side's table; kEither: of the probe table
    uint32_t build_column = 0;    // kEither
    uint8_t wanted_presence = 0;  // PresenceBits without which the value is NULL; 0: it is always there
};

struct JoinPlan {
    std::vector<PlannedColumn> output;
    SidePlan side[2];  // build, probe
    bool wants_key = false;
    bool wants_presence = false;
};

// Whether the join moves any number of columns of any width with its rows.
bool carries_all(const TableJoin& join);

// Columns are carried in the order of the output as long as they fit; strings where the join carries all. Throws
// kInvalid for what the join cannot give.
JoinPlan plan_join(const DeviceTable& build, const DeviceTable& probe, const TableJoin& join, const JoinKeys& keys,
                   const TextWidths (&texts)[2]);

}}  // namespace spillway::cuda::relation
