// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/group_by/column_accumulators.hpp"
#include "cpu/group_by/group_aggregator.hpp"
#include "cpu/group_by/group_numbers.hpp"
#include "cpu/group_by/key_array.hpp"
#include "cpu/row/row_encoder.hpp"

namespace spillway {

// Adds rows that lie in columns to one worker's groups. Of a row no more than its key is encoded, and that only where
// the key's value is no index of an array (KeyArray); aggregates read the columns. While there are few groups their
// states are arrays (ColumnAccumulators), without keys single numbers.
class ColumnAggregator {
  public:
    // plan: GroupPlan::of_columns(). views: which column each of the views given to add() is of, as columns_read() of
    // executor/cpu/partition.hpp lists them.
    ColumnAggregator(const GroupPlan& plan, const std::vector<int32_t>& views, GroupAggregator& groups,
                     MemoryBudget& budget);

    // Rows [begin, begin + count) of the views, any number of them. first_row_number: the row number of `begin`, by
    // which `first` chooses. Throws TableFull.
    void add(const std::vector<ColumnView>& views, int64_t begin, int64_t count, uint64_t first_row_number);
    // Brings the records of the groups up to date; nothing is added afterwards. Throws TableFull.
    void finish();

  private:
    enum class Mode : uint8_t { kSingle, kNumbered, kRecords };

    void add_rows(const ColumnRows& rows, int64_t count);
    void add_single(const ColumnRows& rows, int64_t count);
    void add_block(const ColumnRows& rows, int64_t count);
    bool add_numbered(const ColumnRows& rows, int64_t count);
    bool number_rows(const ColumnRows& rows, int64_t count);
    bool make_room();
    void leave_arrays();
    void take_rows(const ColumnRows& rows, int64_t count);
    void encode_keys(const ColumnRows& rows, int64_t count);
    void complete_records();
    ColumnAccumulators::Groups numbered_groups() const { return {numbers_.records(), numbers_.count()}; }

    const GroupPlan& plan_;
    GroupAggregator& groups_;
    const std::vector<int32_t> views_;
    RowEncoder probe_encoder_;
    std::unique_ptr<RowEncoder> field_encoder_;  // where new groups keep more than the key area
    ColumnAccumulators accumulators_;
    GroupNumbers numbers_;
    KeyArray key_array_;
    Mode mode_;
    uint8_t* single_ = nullptr;  // record of the group without keys
    ColumnRows rows_;            // of block_
    std::unique_ptr<RowBlock> block_;
    std::unique_ptr<RowBlock> new_rows_;
    std::vector<uint32_t> places_;  // group numbers, then places
};

}  // namespace spillway
