// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "staged_group_by/group_columns.hpp"
#include "staged_group_by/group_list.hpp"
#include "staged_group_by/group_partials.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

GroupList::GroupList(Device& device, const GroupShape& shape, uint32_t key_bytes, uint64_t rows_max)
    : device_(device), shape_(shape), key_bytes_(key_bytes), rows_max_(rows_max) {}

void GroupList::append(const GroupByResult& groups) {
    if (groups.groups == 0) return;
    if (!has_room(groups.groups)) throw Error(ErrorCode::kInternal, "a list of groups has no room for more");
    if (!keys_) {
        keys_ = device_.memory().allocate(rows_max_ * key_bytes_, "keys of few groups");
        for (const PartialColumn& partial : shape_.partials) {
            values_.push_back(device_.memory().allocate(rows_max_ * partial.width, "accumulators of few groups"));
        }
    }
    GroupsToWrite pass;
    pass.rows = groups.groups;
    const auto add = [&](const Allocation& from, const Allocation& to, uint32_t width) {
        GroupColumn& column = pass.column[pass.columns++];
        column.from = from.as();
        column.to = to.as<uint8_t>() + rows_ * width;
        column.width = width;
    };
    add(groups.keys, keys_, key_bytes_);
    for (size_t i = 0; i < values_.size(); ++i) add(groups.values[i], values_[i], shape_.partials[i].width);
    write_groups(device_, pass);
    rows_ += groups.groups;
}

GroupByResult GroupList::merge() {
    DeviceRelation partials;
    partials.rows = std::exchange(rows_, 0);
    partials.key = {keys_.as(), key_bytes_};
    for (size_t i = 0; i < values_.size(); ++i) {
        partials.columns.push_back({values_[i].as(), shape_.partials[i].width});
    }
    return group_partials(device_, shape_, shape_.of_partials(partials));
}

}}  // namespace spillway::cuda::staged_group_by
