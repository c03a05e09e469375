// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/tables/aggregate_pass.cuh"

namespace spillway::cuda { inline namespace grouping {

// kHash of the shape of NarrowPlan; without aggregates, the distinct keys.
bool has_column_groups(const GroupPlan& plan, const GroupByRequest& request);

// The table of a block that has a multiprocessor for itself, and slices of the hash range so that the groups fit.
struct ColumnGroupsTable {
    uint32_t slots = 0;
    bool pairs = false;  // AggregatePass
    uint64_t slices = 0;
    bool is_worth_it = false;  // else so many slices that partitions take less time

    static ColumnGroupsTable make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t groups);
};

// pass: with the table, rows (at least one) and where groups are merged; the plan's fields by place_unstaged().
void launch_column_groups(Device& device, const GroupPlan& plan, const AggregatePass& aggregate);

}}  // namespace spillway::cuda::grouping
