// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// Packed rows in regions, ranges that begin at multiples of kRegionAlignRows; what lies between a region's end and the
// next such multiple may be read. Several regions may be parts of one parent. All arrays are in device memory.
struct RowRegions {
    const uint32_t* rows = nullptr;
    uint64_t regions = 0;
    uint64_t total_rows = 0;
    const uint64_t* begin = nullptr;       // [regions]
    const uint64_t* end = nullptr;         // [regions]
    const uint64_t* parent = nullptr;      // [regions]
    const uint64_t* first_tile = nullptr;  // [regions + 1] tiles before each region
    uint32_t tile_rows = 0;                // a multiple of kTileRowsStep, at most split_tile_rows(); 0: that many
    // move_split() takes this many blocks at most, so that kernels can run beside it. 0 means as many as the device
    // holds.
    uint32_t blocks = 0;
    cudaStream_t stream = nullptr;  // of count_split() and move_split(); nullptr: the device's
};

// Parents are split by the `bits` radix bits that follow the first `done` of the mixed key's top word: rows of parent p
// and digit d become region p << bits | d. bits: at most pass_bits_max().
uint32_t split_tile_rows(Device& device, const RowLayout& layout, int bits);

// counts[region] += rows. Reads each row's key, and with it the sectors that rows share.
void count_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* counts);

// Moves each row once, to where front and back say (Regions::open() of the counts).
void move_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* front,
                uint64_t* back, uint32_t* out);

}}  // namespace spillway::cuda::radix_partitioning
