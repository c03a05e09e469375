// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "radix_partition/plan_regions.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda {

// Packed rows in regions, ranges that begin at multiples of kRegionAlignRows; what lies between a region's end and the
// next such multiple may be read. Several regions may be parts of one parent. All arrays are in device memory.
struct RowRegions {
    const uint32_t* rows = nullptr;
    uint64_t regions = 0;
    uint64_t parents = 0;
    uint64_t total_rows = 0;
    const uint64_t* begin = nullptr;   // [regions]
    const uint64_t* end = nullptr;     // [regions]
    const uint64_t* sizes = nullptr;   // [regions] rows
    const uint64_t* parent = nullptr;  // [regions]
};

struct SplitRegions {
    Regions regions;    // [parents << bits] of the rows written
    Allocation counts;  // uint64_t[parents << bits + 1] rows of each, then a 0
};

// Splits parents by the `bits` radix bits that follow the first `done` of the mixed key's top word, `bits` at most
// kPassBitsMax: one histogram, then one pass that moves every row once. `out` has room for total_rows and
// kRegionAlignRows more for each new region. Enqueued on the device's stream.
SplitRegions split_regions(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits,
                           uint32_t* out);
uint64_t split_rows_max(uint64_t rows, uint64_t parents, int bits);

}  // namespace spillway::cuda
