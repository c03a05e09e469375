// SPDX-License-Identifier: Apache-2.0
// Bytes: those of the group-bys, of which each reads the keys, and of a table of the groups' keys (group_places.cu),
// which for few groups are next to none.
#include <optional>
#include <utility>

#include "device/phase_times.hpp"
#include "group_by/group_parts.hpp"
#include "group_by/tables/group_places.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

class GroupParts {
  public:
    GroupParts(Device& device, const GroupByRequest& request,
               GroupByResult (*group_one)(Device&, const GroupByRequest&))
        : device_(device), request_(request), group_one_(group_one) {
        const size_t all = request.aggregates.size();
        result_.values.resize(all);
        result_.present.resize(all);
        result_.sum_overflows.resize(all);
    }

    GroupByResult run(const std::vector<std::vector<size_t>>& parts) {
        for (const std::vector<size_t>& part : parts) {
            GroupByResult found = group_one_(device_, part_of(part));
            watch_what_ran();
            if (is_first_) {
                result_.groups = found.groups;
                result_.keys = std::move(found.keys);
                is_first_ = false;
            } else if (found.groups != result_.groups) {
                throw Error(ErrorCode::kInternal, "parts of a group-by have different groups");
            } else if (found.groups > 0) {
                bring_into_order(found, part);
            }
            take(found, part);
        }
        if (gave_way_to_ >= 0) note_algorithm(device_, gave_way_to_);
        return std::move(result_);
    }

  private:
    GroupByRequest part_of(const std::vector<size_t>& part) const {
        GroupByRequest request = request_;
        request.in_parts = false;
        request.aggregates.clear();
        for (const size_t i : part) request.aggregates.push_back(request_.aggregates[i]);
        if (!is_first_ && result_.groups > 0) {
            request.expected_groups = result_.groups;
            request.knows_groups = true;
        }
        return request;
    }

    // A part that gave way to another algorithm stands for all of them, whatever came after it.
    void watch_what_ran() {
        if (device_.phase_times() == nullptr) return;
        const int ran = device_.phase_times()->algorithm();
        if (ran != static_cast<int>(request_.algorithm)) gave_way_to_ = ran;
    }

    void bring_into_order(GroupByResult& found, const std::vector<size_t>& part) {
        if (!places_.has_value()) places_.emplace(device_, result_.keys.as(), request_.key.width, found.groups);
        std::vector<PlacedColumn> columns;
        std::vector<Allocation> ordered;
        const auto move = [&](Allocation& column, uint32_t width) {
            ordered.push_back(device_.memory().allocate(found.groups * width, "aggregates"));
            columns.push_back({column.as(), ordered.back().as(), width});
        };
        for (size_t i = 0; i < part.size(); ++i) {
            move(found.values[i], width_of(request_.aggregates[part[i]]));
            if (found.present[i]) move(found.present[i], 1);
        }
        places_->place(device_, found.keys.as(), columns);
        size_t next = 0;
        for (size_t i = 0; i < part.size(); ++i) {
            found.values[i] = std::move(ordered[next++]);
            if (found.present[i]) found.present[i] = std::move(ordered[next++]);
        }
    }

    // The values stand as GroupByResult::values has them.
    static uint32_t width_of(const GroupAggregate& aggregate) {
        switch (aggregate.kind) {
            case GroupAggregateKind::kMin:
            case GroupAggregateKind::kMax:
            case GroupAggregateKind::kFirst:
                return aggregate.values.width;
            default:
                return 8;
        }
    }

    void take(GroupByResult& found, const std::vector<size_t>& part) {
        for (size_t i = 0; i < part.size(); ++i) {
            result_.values[part[i]] = std::move(found.values[i]);
            result_.present[part[i]] = std::move(found.present[i]);
            if (!found.sum_overflows.empty()) result_.sum_overflows[part[i]] = found.sum_overflows[i];
        }
    }

    Device& device_;
    const GroupByRequest& request_;
    GroupByResult (*const group_one_)(Device&, const GroupByRequest&);
    GroupByResult result_;
    bool is_first_ = true;
    int gave_way_to_ = -1;  // -1: no part did, as far as anybody listens
    std::optional<GroupPlaces> places_;
};

}  // namespace

GroupByResult group_in_parts(Device& device, const GroupByRequest& request,
                             const std::vector<std::vector<size_t>>& parts,
                             GroupByResult (*group_one)(Device&, const GroupByRequest&)) {
    return GroupParts(device, request, group_one).run(parts);
}

}}  // namespace spillway::cuda::grouping
