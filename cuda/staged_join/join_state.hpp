// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "memory_model/staged_memory.hpp"
#include "row_index/probe_joiner.hpp"
#include "staged_join/build_side.hpp"
#include "stream/chunk_reader.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_spiller.hpp"
#include "stream/spill_store.hpp"

namespace spillway::cuda { inline namespace staged_join {

// What the sizes of a plan come to.
struct JoinShape {
    RowLayout rows[2];
    CodeLayout code[2];
    ResultWindow columns;
    KindRules rules;
    uint64_t partitions = 1;
    StagedJoinMemory memory;

    // Throws kInvalid for what cannot work.
    static JoinShape make(const StagedJoinSpec& spec);
};

// All that a join holds; members go in reverse order, so that what copies waits before its memory goes.
struct JoinState {
    JoinState(Device& device, const StagedJoinSpec& spec, Device* peer, SpillDisk* disk);

    Device& device;
    const uint64_t bytes_before;  // of the device's pool
    const StagedJoinSpec spec;
    const JoinShape shape;
    Parcels parcels;
    CopyRing ring;
    BuildSide build;
    std::unique_ptr<BloomFilter> filter;  // nullptr: none is wanted
    SpillStore store;
    RowSpiller spiller;
    std::unique_ptr<ResultWriter> writer;  // kRows
    ProbeJoiner joiner;
    Allocation probe_marks;  // of a slice of a partition that is joined in parts, where the kind asks for them
    std::unique_ptr<ChunkReader> reader;  // of the input that is read
};

// Joins the partitions that were spilled, group by group: as many as fit the pages come back and are indexed, then
// their probe rows come back and are looked up. A build partition that is larger than all pages, or than what can be
// indexed, comes in parts, and its probe rows as often.
void join_spilled(JoinState& state);

}}  // namespace spillway::cuda::staged_join
