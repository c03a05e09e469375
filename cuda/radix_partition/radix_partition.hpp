// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"
#include "radix_partition/row_layout.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// Rows in device memory, in 2^radix_bits partitions by the top bits of the mixed key. Partition p is rows
// [begin[p], end[p]); partitions begin at multiples of kRegionAlignRows, so that there may be gaps between them.
struct PartitionedRows {
    RowLayout layout;
    int radix_bits = 0;
    Allocation data;
    Allocation begin;  // uint64_t[2^radix_bits]
    Allocation end;

    uint64_t partitions() const { return 1ULL << radix_bits; }
};

// Radix partitioning in passes of at most kPassBitsMax bits: a histogram of the keys, then each pass moves every row
// once (scatter.cuh). Work is enqueued on the device's stream; the host does not wait. Memory: twice the rows with two
// passes or more while it runs, then once. radix_bits: 0 to radix_bits_max(). Rows of more than kRowWordsMax words, up
// to kPartialWordsMax, have a kernel of their own (scatter_wide.cu); joins do not take them. Throws kInvalid (widths,
// alignment, bits), kOutOfMemory.
PartitionedRows radix_partition(Device& device, const DeviceRelation& relation, int radix_bits);
int radix_bits_max();

// Passes over the rows that so many bits take; more on GPUs with little shared memory (pass_bits_max()).
int radix_passes(int radix_bits);

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
// and digit d become region p << bits | d. bits: at most pass_bits_max(). Rows may have any number of words.
uint32_t split_tile_rows(Device& device, const RowLayout& layout, int bits);

// counts[region] += rows. Reads each row's key, and with it the sectors that rows share.
void count_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* counts);

// Moves each row once, to where front and back say (Regions::open() of the counts).
void move_split(Device& device, const RowLayout& layout, const RowRegions& in, int done, int bits, uint64_t* front,
                uint64_t* back, uint32_t* out);

}}  // namespace spillway::cuda::radix_partitioning
