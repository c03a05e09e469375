// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

constexpr bool sorts_columns(GroupByAlgorithm algorithm) {
    return algorithm == GroupByAlgorithm::kSortedColumns || algorithm == GroupByAlgorithm::kDictionarySorted;
}

// kSortedColumns and kDictionarySorted: each column of the plan is sorted by the keys, or by their numbers in a
// dictionary of keys, and reduced. find_distinct: makes the dictionary, a group-by without aggregates. At least one
// row. Waits for the device.
using GroupByFunction = GroupByResult (*)(Device& device, const GroupByRequest& request);
GroupByResult group_by_sorted_columns(Device& device, const GroupByRequest& request, const GroupPlan& plan,
                                      GroupByFunction find_distinct);

}}  // namespace spillway::cuda::grouping
