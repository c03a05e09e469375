// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/join_spec.hpp"
#include "device/device.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "no_partitioning_join/key_range.hpp"
#include "primitive/device_relation.hpp"

// Which probe rows have a key between the least and the greatest key of the build side: others have no partner, and a
// join that partitions its rows need not move them. Whether it is worth a look at all keys, a sample says. Where few
// probe rows stay, most build rows have no partner either.
namespace spillway::cuda { inline namespace equi_joins {

// A bit per probe row, 0 for rows without a key and those whose key is out of the build side's range.
struct RowsInRange {
    Allocation bits;        // empty where a sample, or too few rows, say that it would not pay
    double kept_share = 1;  // of the rows, by a sample
    KeyRange range;         // of the build side's keys

    explicit operator bool() const { return static_cast<bool>(bits); }
};

// Waits for the device if there are enough rows. Bytes: the keys of both sides and a bit per probe row. rows_min: probe
// rows that are enough. Throws kOutOfMemory, kCancelled.
RowsInRange rows_in_range(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                          uint64_t rows_min = kRangeFilterRowsMin);

// Rows of a relation that stay, with what memory they have of their own.
struct KeptRows {
    DeviceRelation relation;
    std::vector<Allocation> memory;
};

// The rows of a relation that have a bit: few of many are gathered, which waits for the device; else all rows are
// there, others without a key, and the bits must stay as long as the result. Columns without data, which give row
// numbers, get those of the relation. Bytes: of rows that are gathered see list_rows() and gather_rows(). kept_share:
// of the rows, as far as is known; share_max: up to which they are few; gathered_rows_min: rows that are many. Throws
// kOutOfMemory.
KeptRows keep_rows(Device& device, const DeviceRelation& relation, const Allocation& bits, double kept_share,
                   double share_max, uint64_t gathered_rows_min = kGatheredRowsMin);

// A bit per build row whose key one of these probe rows has. range: of the build side's keys. By a bit per key of the
// range, in the L2 cache: an atomic operation per probe row, a look per build row. Bytes: the keys of both sides, a bit
// per build row and per key of the range. Throws kOutOfMemory.
Allocation rows_with_partner(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                             const KeyRange& range);

// Both sides of a join without rows that have no partner, as far as it pays to look for them; all rows of a side of
// which the join keeps those, and where it does not pay. The memory of both must stay as long as they are read.
struct FilteredSides {
    RowsInRange in_range;
    Allocation with_partner;
    KeptRows build;
    KeptRows probe;
};
// rows_min, gathered_rows_min: see rows_in_range() and keep_rows().
FilteredSides filter_sides(Device& device, const DeviceRelation& build, const DeviceRelation& probe,
                           const JoinKind& kind, uint64_t rows_min = kRangeFilterRowsMin,
                           uint64_t gathered_rows_min = kGatheredRowsMin);

}}  // namespace spillway::cuda::equi_joins
