// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "radix_partition/radix_partition.hpp"

namespace spillway::cuda {

// Units of work (aggregate_tiles.cuh), listed on the device.
struct GroupUnits {
    Allocation units;    // GroupUnit[]
    Allocation numbers;  // unsigned long long: units in the list; units that blocks have taken
};

// A unit per partition; of more than heavy_rows, one per unit_rows of it, whose groups are merged.
GroupUnits units_of_partitions(Device& device, const PartitionedRows& rows, uint64_t all_rows, uint64_t heavy_rows,
                               uint64_t unit_rows, uint32_t tile_rows);
// Of rows in the order of their keys: groups lie in one unit but for those at its edges.
GroupUnits units_of_sorted_rows(Device& device, uint64_t rows, uint64_t unit_rows, uint32_t tile_rows);

}  // namespace spillway::cuda
