// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "staged_group_by/chunk_groups.hpp"
#include "staged_group_by/group_partials.hpp"
#include "staged_group_by/staged_group_policy.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

namespace {

constexpr uint32_t kKeylessKeyBytes = 4;

bool fits_64_bits(ExactSum sum, ValueKind kind) {
    if (kind == ValueKind::kSigned) return sum == static_cast<int64_t>(sum);
    return sum >= 0 && sum == static_cast<uint64_t>(sum);
}

}  // namespace

ChunkGroups::ChunkGroups(Device& device, const GroupShape& shape, const StreamSizes& sizes)
    : device_(device),
      shape_(shape),
      chunk_rows_(sizes.chunk_rows),
      pre_aggregation_(sizes.pre_aggregation),
      few_groups_(shape.memory.list_rows / kFewGroupsShare),
      list_(device, shape, shape.key_bytes, shape.memory.list_rows),
      values_(shape.partials.size()) {}

bool ChunkGroups::wants_groups() {
    if (pre_aggregation_ != PreAggregation::kAuto) return pre_aggregation_ == PreAggregation::kAlways;
    if (ungrouped_ == 0) return true;
    --ungrouped_;
    return false;
}

DeviceRelation ChunkGroups::partials(const DeviceRelation& chunk) {
    if (!wants_groups()) return widened(chunk);
    const DeviceRelation relation = grouped(chunk);
    return groups_.groups > few_groups_ ? relation : set_aside();
}

DeviceRelation ChunkGroups::grouped(const DeviceRelation& chunk) {
    groups_ = {};
    GroupByRequest request = shape_.of_chunk(chunk);
    request.expected_groups = expected_groups_;
    // Few groups are aggregated without partitions, whose sizes differ most where keys are clustered.
    const bool mixes = is_clustered_ && (expected_groups_ == 0 || expected_groups_ > few_groups_);
    if (mixes) {
        if (!mixed_keys_) mixed_keys_ = device_.memory().allocate(chunk_rows_ * shape_.key_bytes, "keys mixed again");
        mix_keys(device_, chunk.key.data, mixed_keys_.as(), shape_.key_bytes, chunk.rows);
        request.key.data = mixed_keys_.as();
    }
    groups_ = group_partials(device_, shape_, request);
    if (mixes) unmix_keys(device_, groups_.keys.as(), shape_.key_bytes, groups_.groups);
    ++grouped_chunks_;
    expected_groups_ = groups_.groups;
    // The last chunk is short, and says nothing about what others would gain.
    if (groups_.groups * kGroupedShare > chunk.rows) ungrouped_ = kUngroupedChunks;
    return relation_of(shape_, groups_);
}

// A list that stays long when it is aggregated goes on.
DeviceRelation ChunkGroups::set_aside() {
    from_list_ = {};
    if (!list_.has_room(groups_.groups)) {
        from_list_ = list_.merge();
        if (from_list_.groups <= shape_.memory.list_rows / 2) list_.append(std::exchange(from_list_, {}));
    }
    list_.append(groups_);
    return from_list_.groups == 0 ? DeviceRelation{} : relation_of(shape_, from_list_);
}

void ChunkGroups::add_group(uint64_t rows, const std::vector<ExactSum>& sums) {
    std::vector<uint64_t> values;
    size_t at = 0;
    for (const PartialColumn& partial : shape_.partials) {
        if (partial.kind == GroupAggregateKind::kCountRows) {
            values.push_back(rows);
            continue;
        }
        const ExactSum sum = sums.at(at++);
        if (!fits_64_bits(sum, partial.value_kind)) {
            throw Error(ErrorCode::kOverflow, "a sum of integers does not fit 64 bits");
        }
        values.push_back(static_cast<uint64_t>(sum));
    }
    groups_ = {};
    groups_.groups = 1;
    groups_.keys = device_.memory().allocate(shape_.key_bytes, "the key of a sum");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(groups_.keys.as(), 0, shape_.key_bytes, device_.stream()));
    for (const uint64_t& value : values) {
        groups_.values.push_back(device_.memory().allocate(sizeof value, "a sum"));
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(groups_.values.back().as(), &value, sizeof value, cudaMemcpyHostToDevice,
                                            device_.stream()));
    }
    list_.append(groups_);
}

DeviceRelation ChunkGroups::rest() {
    if (list_.rows() == 0) return {};
    from_list_ = list_.merge();
    return relation_of(shape_, from_list_);
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
    : device_(device), shape_(shape), chunk_rows_(chunk_rows), list_(device, shape, kKeylessKeyBytes, kKeylessRows) {}

void KeylessGroup::add(const DeviceRelation& chunk) {
    if (!zeros_) {
        validity_ = device_.memory().allocate(validity_bytes(chunk_rows_), "rows without a key");
        zeros_ = device_.memory().allocate(chunk_rows_ * kKeylessKeyBytes, "keys of rows without a key");
        SPILLWAY_CUDA_CHECK(cudaMemsetAsync(zeros_.as(), 0, zeros_.bytes(), device_.stream()));
    }
    invert_validity(device_, chunk.key_valid, validity_.as<uint32_t>(), chunk.rows);
    GroupByRequest request = shape_.of_chunk(chunk);
    request.key = {zeros_.as(), kKeylessKeyBytes};
    request.key_valid = validity_.as<const uint32_t>();
    request.expected_groups = 1;
    const GroupByResult group = group_partials(device_, shape_, request);
    if (!list_.has_room(group.groups)) list_.append(list_.merge());
    list_.append(group);
}

void KeylessGroup::give(GroupWriter& writer) {
    if (list_.rows() > 0) writer.write(list_.merge(), false);
}

}}  // namespace spillway::cuda::staged_group_by
