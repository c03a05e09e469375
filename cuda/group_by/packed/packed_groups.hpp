// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/tables/aggregate_pass.cuh"

namespace spillway::cuda { inline namespace grouping {

// kPartitioned of the shape of NarrowPlan; without aggregates, the distinct keys.
bool has_packed_groups(const GroupPlan& plan, const GroupByRequest& request);

// Radix bits, blocks per multiprocessor and slots of a block's table, so that a partition's groups fit it: by one pass
// of kGroupRadixBits, else by one of as many bits as a first pass has, else by two.
struct PackedGroupsShape {
    int bits = 0;
    uint32_t blocks = 1;
    uint32_t slots = 0;

    static PackedGroupsShape make(const DeviceProperties& properties, const GroupPlan& plan, uint64_t rows,
                                  uint64_t groups);
    // AggregatePass, with so many groups in all.
    bool pairs(uint64_t groups) const;
};

// pass: with the plan's fields by place_packed(), the table, units and where groups go.
void launch_packed_groups(Device& device, const GroupPlan& plan, const AggregatePass& pass, const void* rows,
                          uint32_t blocks);

}}  // namespace spillway::cuda::grouping
