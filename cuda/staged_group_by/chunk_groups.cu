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

KeylessGroup::KeylessGroup(Device& device, const GroupShape& shape, uint64_t chunk_rows)
    : device_(device), shape_(shape), chunk_rows_(chunk_rows) {}

void KeylessGroup::add(const DeviceRelation& chunk) {
    if (!zeros_) {
        const uint64_t words = (chunk_rows_ + 31) / 32;
        const uint64_t zeros_bytes = std::max(chunk_rows_, kKeylessRows) * sizeof(uint32_t);
        validity_ = device_.memory().allocate(words * sizeof(uint32_t), "rows without a key");
        for (const PartialColumn& partial : shape_.partials) {
            values_.push_back(device_.memory().allocate(kKeylessRows * partial.width, "group without a key"));
        }
        zeros_ = device_.memory().allocate(zeros_bytes, "keys of rows without a key");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(zeros_.as(), 0, zeros_bytes, device_.stream()));
    }
    invert_validity(device_, chunk.key_valid, validity_.as<uint32_t>(), chunk.rows);
    GroupByRequest request = shape_.of_chunk(chunk);
    request.key = {zeros_.as(), sizeof(uint32_t)};
    request.key_valid = validity_.as<const uint32_t>();
    request.expected_groups = 1;
    const GroupByResult group = group_by(device_, request);
    check_sums(group);
    if (group.groups == 0) return;
    if (rows_ == kKeylessRows) {
        const GroupByResult merged = merge();
        rows_ = 0;
        append(merged);
    }
    append(group);
}

void KeylessGroup::append(const GroupByResult& group) {
    GroupsToWrite pass;
    pass.rows = 1;
    for (size_t i = 0; i < values_.size(); ++i) {
        const uint32_t width = shape_.partials[i].width;
        GroupColumn& column = pass.column[pass.columns++];
        column.from = group.values[i].as();
        column.to = values_[i].as<uint8_t>() + rows_ * width;
        column.width = width;
    }
    write_groups(device_, pass);
    ++rows_;
}

GroupByResult KeylessGroup::merge() {
    DeviceRelation partials;
    partials.rows = rows_;
    partials.key = {zeros_.as(), sizeof(uint32_t)};
    for (size_t i = 0; i < values_.size(); ++i) {
        partials.columns.push_back({values_[i].as(), shape_.partials[i].width});
    }
    GroupByRequest request = shape_.of_partials(partials);
    request.expected_groups = 1;
    GroupByResult group = group_by(device_, request);
    check_sums(group);
    return group;
}

void KeylessGroup::give(GroupWriter& writer) {
    if (rows_ > 0) writer.write(merge(), false);
}

}}  // namespace spillway::cuda::staged_group_by
