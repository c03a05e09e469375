// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/device.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// A word of a row: which word of its column's values it is. stride 0: it is a word of the row's number.
struct WordSource {
    uint8_t before = 0;  // KeyedColumns::before of the column
    uint8_t within = 0;  // bytes of the value in front of it
    uint8_t stride = 0;  // bytes of a value
};

// Columns of a relation in device memory, aligned to 16 bytes.
struct KeyedColumns {
    const void* key = nullptr;
    const uint32_t* key_valid = nullptr;  // bit i % 32 of word i / 32: row i has a key; nullptr = all have
    int32_t columns = 0;
    // data nullptr: the row's number, of 4 or 8 bytes, in place of a value.
    const void* data[kRowColumnsMax] = {};
    uint8_t width[kRowColumnsMax] = {};
    uint8_t offset[kRowColumnsMax] = {};  // in the row, in bytes
    // Where a tile of r rows has them in shared memory: from r times this on (the key from 0).
    uint8_t before[kRowColumnsMax] = {};
    WordSource word[kRowWordsMax] = {};  // of the row, behind the key's; only if no width is below 4 and no row wide
};

// One pass over rows in device memory, as its kernel gets it. Regions are ranges of rows in multiples of
// kRegionAlignRows: partitions of the pass before (input) and of this one (output: child = region << bits | digit).
struct ScatterPass {
    KeyedColumns in;                // first pass
    const void* rows_in = nullptr;  // later passes
    void* rows_out = nullptr;
    uint64_t rows = 0;   // first pass: of `in`
    uint64_t tiles = 0;  // first pass
    uint32_t tile_rows = 0;
    uint64_t regions = 1;
    const uint64_t* begin = nullptr;       // later passes, [regions]: first row of each input region
    const uint64_t* end = nullptr;         // later passes, [regions]: row behind the last one of each
    const uint64_t* first_tile = nullptr;  // later passes, [regions + 1]: first tile of each among those of all regions
    const uint64_t* parent = nullptr;      // [regions]: `region` in the number of a child; nullptr: each region's own
    uint64_t* front = nullptr;             // [regions << bits]: next row from the front, moves in whole groups
    uint64_t* back = nullptr;              // [regions << bits]: next row from the back, moves down
    uint32_t shift = 0;                    // of the digit in the top word of the mixed key
    uint32_t bits = 0;                     // <= kPassBitsMax
    // For the launch: blocks at most, 0: as many as the device holds; nullptr: the device's stream.
    uint32_t blocks = 0;
    cudaStream_t stream = nullptr;
};

// One pass, enqueued on the device's stream: the first one from columns, later ones from rows in regions.
void launch_scatter_columns(Device& device, const ScatterPass& pass, const RowLayout& layout);
void launch_scatter_rows(Device& device, const ScatterPass& pass, const RowLayout& layout);
// The same from columns, or without any from rows, of rows of more than kRowWordsMax words.
void launch_scatter_wide(Device& device, const ScatterPass& pass, const RowLayout& layout);

}}  // namespace spillway::cuda::radix_partitioning
