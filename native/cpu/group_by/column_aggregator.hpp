// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/group_by/group_aggregator.hpp"
#include "cpu/row/row_encoder.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Adds rows that lie in columns to one worker's groups.
class ColumnAggregator {
  public:
    // columns: those of the views given to add(), as columns_read() of executor/cpu/partition.hpp lists them.
    ColumnAggregator(const GroupPlan& plan, const std::vector<int32_t>& columns, GroupAggregator& groups,
                     MemoryBudget& budget);

    // Rows [begin, begin + count) of the views, any number of them. first_row_number: the row number of `begin`, by
    // which `first` chooses. Throws TableFull.
    void add(const std::vector<ColumnView>& views, int64_t begin, int64_t count, uint64_t first_row_number);
    // Brings the records of the groups up to date; nothing is added afterwards. Throws TableFull.
    void finish();

  private:
    GroupAggregator& groups_;
    RowEncoder encoder_;
};

}  // namespace spillway
