// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/device_relation.hpp"

namespace spillway::cuda { inline namespace sort_merge_joins {

struct KeysToSort {
    const void* keys = nullptr;
    uint32_t width = 4;  // 4 or 8
    uint64_t rows = 0;
};

// The bits in which any two keys of a join can differ. Waits for the device. Reads each key once.
KeyBits key_bits(Device& device, const KeysToSort& first, const KeysToSort& second);

struct SortedColumns {
    void* keys = nullptr;
    void* values = nullptr;
};

// Stable, ascending by the key as an unsigned number. Outputs do not overlap inputs; as much memory as they have is
// taken besides. Radix sort: values of 1, 2, 4, 8 or 16 bytes, or (0) none; per pass of 8 bits each key and value is
// read and written once, and all keys once more before. Merge sort (values of 4 bytes): the same per doubling of sorted
// runs beyond some thousand rows. It is CUB's, which is built as that of Rui and Tu (SSDBM 2017, section 3.3.1,
// Algorithms 4 and 5): each thread sorts its rows in registers by odd-even exchanges, a block merges those runs in
// shared memory along merge paths, and further passes merge runs of blocks, cut by merge paths, through shared memory.
// A thread has 17 rows of 4-byte keys there and 8 in the paper.
void radix_sort(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values, uint32_t value_width,
                const SortedColumns& sorted);
void merge_sort(Device& device, const KeysToSort& keys, const uint32_t* values, const SortedColumns& sorted);

}}  // namespace spillway::cuda::sort_merge_joins
