// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "staged_group_by/chunk_groups.hpp"
#include "staged_group_by/group_merger.hpp"
#include "staged_group_by/group_pages.hpp"
#include "staged_group_by/group_shape.hpp"
#include "staged_group_by/group_writer.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/row_spiller.hpp"
#include "stream/spill_store.hpp"
#include "stream/stream_operator.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// All that a group-by holds; members go in reverse order, so that what copies waits before its memory goes.
struct GroupByState {
    GroupByState(Device& opened, const StagedGroupBySpec& wanted, Device* peer, SpillDisk* disk)
        : device(opened),
          bytes_before(opened.memory().used_bytes()),
          spec(wanted),
          shape(GroupShape::make(wanted)),
          parcels(opened),
          ring(opened, wanted.sizes.chunk_slots, shape.memory.slot_bytes),
          writer(opened, shape, wanted.null_group, wanted.sizes.result_slots, wanted.sizes.result_rows),
          merger(opened, parcels, shape, wanted.sizes.merge_rows),
          pages(opened, parcels, shape, wanted.sizes, merger, writer),
          chunks(opened, shape, wanted.sizes),
          keyless(opened, shape, wanted.sizes.chunk_rows),
          store(opened, peer, disk, wanted.sizes),
          spiller(opened, parcels, store, {shape.code, shape.code}, shape.memory.run_words) {
        take_working_memory(device, shape.memory.device_bytes, bytes_before);
    }

    Device& device;
    const uint64_t bytes_before;  // of the device's pool
    const StagedGroupBySpec spec;
    const GroupShape shape;
    Parcels parcels;
    CopyRing ring;
    GroupWriter writer;
    GroupMerger merger;
    GroupPages pages;
    ChunkGroups chunks;
    KeylessGroup keyless;
    SpillStore store;
    RowSpiller spiller;
    std::unique_ptr<ChunkReader> reader;
};

// Gives the groups of all partitions. Those that were spilled come back some at a time, while groups of the resident
// ones leave. A partition that is larger than all pages is aggregated as it comes; if it has more groups than the pages
// hold, half of its keys are left out, for which it comes once more later.
void give_groups(GroupByState& state, const std::vector<uint64_t>& resident, StreamReport& report);

}}  // namespace spillway::cuda::staged_group_by
