// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "coherent_join/coherent_join.hpp"
#include "out_of_core/result_columns.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda {

// What the options of a coherent join come to.
struct CoherentShape {
    RowLayout rows;  // of either side
    ResultWindow columns;
    uint64_t partitions = 1;
    uint64_t page_rows = 0;
    uint64_t pages = 0;        // of both sides, whatever the keys
    uint64_t group_pages = 0;  // of a side's rows that are joined together, or of build rows that are indexed
    uint64_t staged_rows = 0;  // probe rows that are gathered at once; 0: probes read far pages
    uint64_t batch_tiles = 0;
    bool second_pass = false;  // of both sides, not an index
    int split_bits = 0;        // ... of so many radix bits

    // Throws kInvalid for what cannot work.
    static CoherentShape make(const CoherentSpec& spec, Device& device);

    uint64_t page_bytes() const { return page_rows * rows.row_bytes(); }
    uint64_t group_rows() const { return group_pages * page_rows; }
    // Second pass: room for a group of one side, its regions aligned, and rows that a page is cut into.
    uint64_t split_rows() const;
    uint32_t split_tile_rows(Device& device) const;
    // GPU memory that the first pass and the join take, beside pages; they follow each other.
    uint64_t partition_bytes(const DeviceProperties& properties, const CoherentSpec& spec) const;
    uint64_t join_bytes(const CoherentSpec& spec) const;
    // Tiers of pages: as wanted, or the device's as far as its free memory goes.
    StripeShares shares(Device& device, const CoherentSpec& spec, bool has_peer) const;
};

FarPartitionOptions first_pass_options(const CoherentSpec& spec, const DeviceProperties& properties);

}  // namespace spillway::cuda
