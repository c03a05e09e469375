// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/aggregate_pass.cuh"
#include "group_by/group_plan.hpp"

namespace spillway::cuda {

// kHash of the commonest shape, by a kernel of its own: a key column of 4 bytes, minima and maxima of up to
// kMaxGroupsValuesMax columns of 4 bytes, none of them with NULLs; without aggregates, the distinct keys.
bool has_max_groups(const GroupPlan& plan, const GroupByRequest& request);

// The table of a block that has a multiprocessor for itself, and slices of the hash range so that the groups fit.
struct MaxGroupsTable {
    uint32_t slots = 0;
    uint64_t slices = 0;

    static MaxGroupsTable make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t groups);
};

// pass: with the plan's fields by place_unstaged(), the table, rows (at least one) and where groups are merged.
void launch_max_groups(Device& device, const AggregatePass& pass);

}  // namespace spillway::cuda
