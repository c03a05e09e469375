// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "staged_group_by/chunk_groups.hpp"
#include "staged_group_by/staged_group_policy.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

ChunkGroups::ChunkGroups(Device& device, const GroupShape& shape, const StreamSizes& sizes)
    : device_(device),
      shape_(shape),
      chunk_rows_(sizes.chunk_rows),
      pre_aggregation_(sizes.pre_aggregation),
      values_(shape.partials.size()) {}

bool ChunkGroups::wants_groups() {
    if (pre_aggregation_ != PreAggregation::kAuto) return pre_aggregation_ == PreAggregation::kAlways;
    if (ungrouped_ == 0) return true;
    --ungrouped_;
    return false;
}

DeviceRelation ChunkGroups::partials(const DeviceRelation& chunk) {
    return wants_groups() ? grouped(chunk) : widened(chunk);
}

DeviceRelation ChunkGroups::grouped(const DeviceRelation& chunk) {
    groups_ = {};
    GroupByRequest request = shape_.of_chunk(chunk);
    request.expected_groups = expected_groups_;
    groups_ = group_by(device_, request);
    check_sums(groups_);
    ++grouped_chunks_;
    expected_groups_ = groups_.groups;
    // The last chunk is short, and says nothing about what others would gain.
    if (groups_.groups * kGroupedShare > chunk.rows) ungrouped_ = kUngroupedChunks;
    return relation_of(shape_, groups_);
}

DeviceRelation ChunkGroups::widened(const DeviceRelation& chunk) {
    DeviceRelation relation = chunk;
    relation.columns.clear();
    for (size_t i = 0; i < values_.size(); ++i) {
        const PartialColumn& partial = shape_.partials[i];
        const bool counts = partial.column == kNoColumn;
        if (!counts && partial.width == partial.column_bytes) {
            relation.columns.push_back(chunk.columns[partial.column]);
            continue;
        }
        if (!values_[i]) {
            values_[i] = device_.memory().allocate(chunk_rows_ * partial.width, "accumulators of rows");
            if (counts) fill_ones(device_, values_[i].as<uint64_t>(), chunk_rows_);
        }
        if (!counts) {
            widen_values(device_, chunk.columns[partial.column], partial.value_kind, chunk.rows, values_[i].as());
        }
        relation.columns.push_back({values_[i].as(), partial.width});
    }
    return relation;
}

}}  // namespace spillway::cuda::staged_group_by
