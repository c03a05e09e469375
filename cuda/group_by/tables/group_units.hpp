// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda { inline namespace grouping {

// Units of work (aggregate_tiles.cuh), listed on the device.
struct GroupUnits {
    Allocation units;    // GroupUnit[]
    Allocation numbers;  // unsigned long long: units in the list; units that blocks have taken
};

// Rows of a partition from which on it is aggregated in units of their own, and of those, so that all multiprocessors
// have work to the end.
struct UnitSizes {
    uint64_t unit_rows = 0;  // whole tiles
    uint64_t heavy_rows = 0;

    static UnitSizes make(uint64_t rows, uint64_t multiprocessors, uint64_t tile_rows);

    // Groups that may be merged in GPU memory, where a partition has so many: at most so many partitions are heavy, and
    // their groups may be some more than the mean.
    uint64_t merged_groups(uint64_t rows, uint64_t groups) const { return (rows / heavy_rows) * (2 * groups + 64); }
};

// Makes one unit of each partition. A partition of more than heavy_rows becomes one unit per unit_rows of it, whose
// groups are merged.
GroupUnits units_of_partitions(Device& device, const PartitionedRows& rows, uint64_t all_rows, const UnitSizes& sizes,
                               uint32_t tile_rows);
// Makes units of rows in the order of their keys: each group lies in one unit, except for those at the edges of units.
GroupUnits units_of_sorted_rows(Device& device, uint64_t rows, uint64_t unit_rows, uint32_t tile_rows);

}}  // namespace spillway::cuda::grouping
