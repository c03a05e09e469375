// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "equi_join/equi_join_policy.hpp"
#include "primitive/device_relation.hpp"

// Which probe rows have a key between the least and the greatest key of the build side: others have no partner, and a
// join that partitions its rows need not move them. Whether it is worth a look at all keys, a sample says.
namespace spillway::cuda { inline namespace equi_joins {

// A bit per probe row, 0 for rows without a key and those whose key is out of the build side's range.
struct RowsInRange {
    Allocation bits;        // empty where a sample, or too few rows, say that it would not pay
    double kept_share = 1;  // of the rows, by a sample

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

// The rows of the probe side that are in the range: few of many are gathered, which waits for the device; else all rows
// are there, others without a key, and the bits must stay as long as the result. Columns without data, which give row
// numbers, get those of the probe side. Bytes: of rows that are gathered see list_rows() and gather_rows().
// gathered_rows_min: probe rows that are many. Throws kOutOfMemory.
KeptRows keep_rows(Device& device, const DeviceRelation& probe, const RowsInRange& in_range,
                   uint64_t gathered_rows_min = kGatheredRowsMin);

}}  // namespace spillway::cuda::equi_joins
