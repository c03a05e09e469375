// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// Where the partitions of one pass lie, from their sizes; computed on the device, in order on its stream.
struct Regions {
    uint64_t count = 0;
    Allocation begin;  // [count + 1] first row, a multiple of kRegionAlignRows; the last one: rows of all regions
    Allocation end;    // [count] behind the last row
    Allocation front;  // [count] next row from the front
    Allocation back;   // [count] next row from the back

    static Regions open(Device& device, const uint64_t* counts, uint64_t regions);
};

// Sums over groups of 2^group_bits neighbouring counts: sizes of the partitions of an earlier pass. room: of the
// result, at least `groups`; 0: no more.
Allocation count_groups(Device& device, const uint64_t* counts, uint64_t groups, int group_bits, uint64_t room = 0);

// [regions + 1] number of each region's first tile when every region is cut into tiles of tile_rows.
Allocation first_tiles(Device& device, const uint64_t* counts, uint64_t regions, uint64_t tile_rows);

}}  // namespace spillway::cuda::radix_partitioning
