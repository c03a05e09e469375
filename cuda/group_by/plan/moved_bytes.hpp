// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/plan/group_plan.hpp"
#include "group_by/plan/group_request.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda { inline namespace grouping {

// Returns the bytes that are read to fetch, by row number, the values that a group-by left in their columns. Row
// numbers rise within `runs` runs, except for the order of rows within a tile.
inline uint64_t gathered_value_bytes(const Device& device, const GroupByRequest& request, const SlotPlan& slots,
                                     uint64_t runs) {
    std::set<const unsigned char*> seen;
    uint64_t bytes = 0;
    const auto add = [&](const TileField& field) {
        if (field.place != FieldPlace::kGathered || !seen.insert(field.column).second) return;
        bytes += sector_bytes(device, request.rows, field.width, request.rows * field.width, runs);
    };
    if (slots.has_mask) add(slots.mask);
    for (int i = 0; i < slots.accumulators; ++i) {
        if (!slots.accumulator[i].counts) add(slots.accumulator[i].value);
    }
    return bytes;
}

// Columns of groups, with the values that are fetched from the row that stands for a group.
inline uint64_t result_bytes(const Device& device, const GroupByRequest& request, const GroupPlan& plan,
                             uint64_t groups) {
    uint64_t bytes = groups * request.key.width;
    for (const GroupOutput& output : plan.outputs) {
        bytes += groups * output.width;
        if (output.kind != OutputKind::kGather) continue;
        bytes += sector_bytes(device, groups, output.width, request.rows * output.width);
    }
    return bytes;
}

// Adds what an attempt of a group-by that came to its end reads and writes beside its passes of partitioning or
// sorting: its rows once by each slice of the hash range, values that are gathered, the table in GPU memory cleared and
// looked through, groups written. What blocks merge in that table is left out: a few groups of each, or rows that had
// no place.
inline void count_group_bytes(Device& device, GroupByAlgorithm ran, const GroupByRequest& request,
                              const GroupPlan& plan, const PartitionedRows& packed, uint64_t slices,
                              uint64_t global_slots, uint64_t groups) {
    uint64_t bytes = 0;
    if (ran == GroupByAlgorithm::kHash) {
        // In order all of them, whether a tile has room for them or not.
        uint64_t row_bytes = request.key.width + plan.mask_width;
        for (const DeviceColumn& column : plan.columns) row_bytes += column.width;
        bytes += request.rows * row_bytes * slices;
    } else if (ran == GroupByAlgorithm::kSorted) {
        bytes += request.rows * (request.key.width + plan.row_number_width);
        bytes += gathered_value_bytes(device, request, plan.slots, groups);
    } else {
        bytes += request.rows * packed.layout.row_bytes();
        bytes += gathered_value_bytes(device, request, plan.slots, packed.partitions());
    }
    bytes += global_slots * (plan.slot_bytes() + request.key.width);
    count_moved(device, bytes + result_bytes(device, request, plan, groups));
}

}}  // namespace spillway::cuda::grouping
