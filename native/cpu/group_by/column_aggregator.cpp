// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/column_aggregator.hpp"

#include <algorithm>

namespace spillway {

ColumnAggregator::ColumnAggregator(const GroupPlan& plan, const std::vector<int32_t>& columns, GroupAggregator& groups,
                                   MemoryBudget& budget)
    : groups_(groups), encoder_(plan.layout, columns, budget) {}

void ColumnAggregator::add(const std::vector<ColumnView>& views, int64_t begin, int64_t count,
                           uint64_t first_row_number) {
    for (int64_t done = 0; done < count; done += encoder_.rows_max()) {
        const int64_t rows = std::min(encoder_.rows_max(), count - done);
        groups_.cutter().cut(encoder_.encode(views, begin + done, rows, first_row_number + static_cast<uint64_t>(done)),
                             [&](RowBlock& block) { groups_.add_states(block); });
    }
}

void ColumnAggregator::finish() {}

}  // namespace spillway
