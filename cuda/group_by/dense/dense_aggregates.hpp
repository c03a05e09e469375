// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device.hpp"
#include "group_by/dense/number_groups.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/tables/emit_dense.hpp"

namespace spillway::cuda { inline namespace grouping {

// Groups whose accumulators fit a block's shared memory.
uint64_t own_groups(const Device& device, const GroupPlan& plan);

// The second step of HGB (Wu et al., GFTR, section 4.2, algorithm 1): rows are added to the arrays, by the numbers of
// their groups. plan: with its fields by place_unstaged(). At least one group. Enqueued on the device's stream.
void aggregate_dense(Device& device, const GroupByRequest& request, const GroupPlan& plan,
                     const NumberedGroups& numbered, const DenseGroups& dense);

}}  // namespace spillway::cuda::grouping
