// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "group_by/dense/number_groups.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/group_request.hpp"

namespace spillway::cuda { inline namespace grouping {

// kHashGlobal: a table numbers the groups, arrays as long as these are many have their aggregates. nullopt: the table
// is too small. At least one row. Waits for the device.
std::optional<GroupByResult> group_by_numbers(Device& device, const GroupByRequest& request, GroupPlan& plan,
                                              const NumberTable& table);

}}  // namespace spillway::cuda::grouping
