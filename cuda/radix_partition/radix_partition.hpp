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
// passes or more while it runs, then once. radix_bits: 0 to radix_bits_max().
// Throws kInvalid (widths, alignment, bits), kOutOfMemory.
PartitionedRows radix_partition(Device& device, const DeviceRelation& relation, int radix_bits);
int radix_bits_max();

// Passes over the rows that so many bits take; more on GPUs with little shared memory (pass_bits_max()).
int radix_passes(int radix_bits);

}}  // namespace spillway::cuda::radix_partitioning
