// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "sort_merge_join/sort_keys.hpp"

// CUB's radix sort for one width of keys, compiled once per width: its kernels take long to compile. Bytes: keys once,
// then keys and values read and written once per 8 bits that are looked at; bound by bandwidth.
namespace spillway::cuda { inline namespace sort_merge_joins {

template <class Key, class Value>
void radix_sort_values(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values,
                       const SortedColumns& sorted) {
    const auto* const from_keys = static_cast<const Key*>(keys.keys);
    const auto* const from = static_cast<const Value*>(values);
    Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {  // the first asks how much memory the second takes
        if (call == 1) scratch = device.memory().allocate(std::max<size_t>(bytes, 1), "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
            scratch.as(), bytes, from_keys, static_cast<Key*>(sorted.keys), from, static_cast<Value*>(sorted.values),
            static_cast<int64_t>(keys.rows), bits.begin, bits.end, device.stream()));
    }
}

template <class Key>
void radix_sort_alone(Device& device, const KeysToSort& keys, const KeyBits& bits, const SortedColumns& sorted) {
    Allocation scratch;
    size_t bytes = 0;
    for (int call = 0; call < 2; ++call) {
        if (call == 1) scratch = device.memory().allocate(std::max<size_t>(bytes, 1), "sort");
        SPILLWAY_CUDA_CHECK(cub::DeviceRadixSort::SortKeys(
            scratch.as(), bytes, static_cast<const Key*>(keys.keys), static_cast<Key*>(sorted.keys),
            static_cast<int64_t>(keys.rows), bits.begin, bits.end, device.stream()));
    }
}

template <class Key>
void radix_sort_keys(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values,
                     uint32_t value_width, const SortedColumns& sorted) {
    switch (value_width) {
        case 0:
            return radix_sort_alone<Key>(device, keys, bits, sorted);
        case 1:
            return radix_sort_values<Key, uint8_t>(device, keys, bits, values, sorted);
        case 2:
            return radix_sort_values<Key, uint16_t>(device, keys, bits, values, sorted);
        case 4:
            return radix_sort_values<Key, uint32_t>(device, keys, bits, values, sorted);
        case 8:
            return radix_sort_values<Key, uint64_t>(device, keys, bits, values, sorted);
        case 16:
            return radix_sort_values<Key, uint4>(device, keys, bits, values, sorted);
        default:
            throw Error(ErrorCode::kInternal, "values of this width are not sorted with their keys");
    }
}

void radix_sort_4(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values, uint32_t value_width,
                  const SortedColumns& sorted);
void radix_sort_8(Device& device, const KeysToSort& keys, const KeyBits& bits, const void* values, uint32_t value_width,
                  const SortedColumns& sorted);

}}  // namespace spillway::cuda::sort_merge_joins
