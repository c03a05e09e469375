// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>

#include "device/phase_times.hpp"
#include "group_by/group_by.hpp"
#include "group_by/group_plan.hpp"
#include "radix_partition/radix_partition.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda {

// Adds what an attempt of a group-by reads and writes beside the passes of its partitioning: its rows once by each
// slice of the hash range, masks of NULLs made before, the table in GPU memory cleared and looked through, groups
// written. Random accesses are not counted, so sorts (which gather all values) and rows of packed columns that did not
// fit cannot tell; few groups that blocks merge are left out.
inline void count_group_bytes(Device& device, GroupByAlgorithm ran, const GroupByRequest& request,
                              const GroupPlan& plan, const PartitionedRows& packed, uint64_t slices,
                              uint64_t global_slots, uint64_t groups) {
    uint64_t row_bytes = request.key.width + plan.mask_width;
    for (const DeviceColumn& column : plan.columns) row_bytes += column.width;
    uint64_t bytes = 0;
    if (ran == GroupByAlgorithm::kHash) {
        bytes += request.rows * row_bytes * slices;
    } else {
        const uint64_t wanted = row_bytes + (plan.needs_row_number ? plan.row_number_width : 0);
        const bool is_packed = ran == GroupByAlgorithm::kPartitioned && wanted <= kRowWordsMax * 4ULL;
        if (!is_packed) return moved_unknown(device);
        bytes += request.rows * packed.layout.row_bytes();
    }
    std::set<const uint32_t*> bitmaps;
    for (const GroupAggregate& aggregate : request.aggregates) bitmaps.insert(aggregate.valid);
    bitmaps.erase(nullptr);
    if (plan.mask) bytes += plan.mask.bytes() + bitmaps.size() * (request.rows / 8);
    bytes += global_slots * (plan.slot_bytes() + request.key.width);
    uint64_t group_bytes = request.key.width;
    for (const GroupOutput& output : plan.outputs) group_bytes += output.width;
    count_moved(device, bytes + groups * group_bytes);
}

}  // namespace spillway::cuda
