// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "device/published.hpp"
#include "radix_partition/radix_partition.hpp"
#include "staged_group_by/group_shape.hpp"
#include "stream/parcels.hpp"

namespace spillway::cuda { inline namespace staged_group_by {

// Partial rows that were made of columns.
struct PartialRows {
    PartitionedRows rows;
    RowPieces batch;  // of them
};

// Partial rows on their way through a group-by: rows become columns, columns groups, and groups rows again.
class GroupMerger {
  public:
    // Takes room for so many rows as columns.
    GroupMerger(Device& device, Parcels& parcels, const GroupShape& shape, uint64_t rows_max);

    uint64_t rows_max() const { return rows_max_; }
    // Columns of all rows of the pieces, or of those of a slice. Keys stay mixed: partitions that are loaded together
    // share their radix bits, so that a group-by which hashes their keys alone would have all of them in few of its own
    // partitions; it mixes once more what is mixed (2^30 rows of 2^20 groups: 2 ns per row otherwise). Returns how many
    // rows these are; for a slice they may be more than rows_max(), and then some of them are missing and nothing can
    // be done with the columns.
    uint64_t load(const uint32_t* rows, const std::vector<RowPiece>& pieces, KeySlice slice = {});
    // The groups of the first `rows` rows that were loaded. Waits for the device.
    GroupByResult merge(uint64_t rows) const;
    // Groups as partitioned rows, and rows that were loaded as they are. Both wait for the device.
    PartialRows pack(const GroupByResult& groups) { return pack(relation_of(shape_, groups)); }
    PartialRows pack_loaded(uint64_t rows);

  private:
    DeviceRelation loaded(uint64_t rows) const;
    PartialRows pack(const DeviceRelation& relation);

    Device& device_;
    Parcels& parcels_;
    const GroupShape& shape_;
    const uint64_t rows_max_;
    Allocation keys_;
    std::vector<Allocation> values_;
    Allocation count_;
    Published published_;
};

}}  // namespace spillway::cuda::staged_group_by
