// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "group_by/group_by.hpp"
#include "group_by/group_plan.hpp"

namespace spillway::cuda {

constexpr bool sorts_columns(GroupByAlgorithm algorithm) {
    return algorithm == GroupByAlgorithm::kSortedColumns || algorithm == GroupByAlgorithm::kDictionarySorted;
}

// kSortedColumns and kDictionarySorted: each column of the plan is sorted by the keys, or by their numbers in a
// dictionary of keys, and reduced. At least one row. Waits for the device.
GroupByResult group_by_sorted_columns(Device& device, const GroupByRequest& request, const GroupPlan& plan);

}  // namespace spillway::cuda
