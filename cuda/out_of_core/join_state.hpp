// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "device/device.hpp"
#include "out_of_core/batch_joiner.hpp"
#include "out_of_core/build_side.hpp"
#include "out_of_core/chunk_reader.hpp"
#include "out_of_core/out_of_core_join.hpp"
#include "out_of_core/result_writer.hpp"
#include "out_of_core/row_spiller.hpp"
#include "out_of_core/spill_store.hpp"

namespace spillway::cuda {

// What the sizes of a plan come to.
struct JoinShape {
    RowLayout rows[2];
    CodeLayout code[2];
    ResultWindow columns;
    KindRules rules;
    uint64_t partitions = 1;
    uint64_t slot_bytes = 0;   // of a chunk of either side, or of packed rows that come back
    uint64_t run_words = 0;    // packed rows of a chunk at most
    uint64_t batch_tiles = 0;  // of a chunk, or of what comes back at once, at most
    uint64_t index_rows = 0;   // of a partition that can be indexed

    // Throws kInvalid for sizes that cannot work.
    static JoinShape make(const OutOfCoreSpec& spec);
    // Probe rows that are marked at once, a byte each.
    uint64_t marked_rows(const OutOfCoreSizes& sizes) const;
    uint64_t device_bytes(const OutOfCoreSpec& spec) const;
};

// All that a join holds; members go in reverse order, so that what copies waits before its memory goes.
struct JoinState {
    JoinState(Device& device, const OutOfCoreSpec& spec, Device* peer, SpillDisk* disk);

    // Waits for all copies from and to memory of others; after an error.
    void wait_for_copies() noexcept;

    Device& device;
    const uint64_t bytes_before;  // of the device's pool
    const OutOfCoreSpec spec;
    const JoinShape shape;
    Parcels parcels;
    CopyRing ring;
    BuildSide build;
    std::unique_ptr<BloomFilter> filter;  // nullptr: none is wanted
    SpillStore store;
    RowSpiller spiller;
    std::unique_ptr<ResultWriter> writer;  // kRows
    BatchJoiner joiner;
    Allocation probe_marks;  // of a slice of a partition that is joined in parts, where the kind asks for them
    OutOfCoreReport report;
};

}  // namespace spillway::cuda
