// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gftr_join/gftr_policy.hpp"
#include "primitive/mix.cuh"

// What a stable partition by CUB's radix sort needs besides it: keys mixed before, since the sort looks at the bits of
// what it is given, and the bounds of partitions found afterwards.
namespace spillway::cuda { inline namespace gftr_joins {

// Bytes: each key read and written, bound by bandwidth. `to` may be `from`.
template <class Key, bool kUnmix>
__global__ void __launch_bounds__(kGftrThreads) mix_keys_kernel(const Key* from, uint64_t rows, Key* to) {
    using Mix = MixedKey<sizeof(Key) / 4>;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        to[row] = kUnmix ? Mix::unmix(from[row]) : Mix::mix(from[row]);
    }
}

// The first place of a key whose top bits are `partition` or more, by bisection.
template <class Key>
__device__ uint64_t first_of_partition(const Key* keys, uint64_t rows, uint32_t bits, uint64_t partition) {
    uint64_t low = 0;
    uint64_t high = rows;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        const uint64_t found = bits == 0 ? 0 : static_cast<uint64_t>(keys[middle] >> (8 * sizeof(Key) - bits));
        if (found < partition) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Bounds of the partitions of ordered keys. The paper counts a histogram, for which it reads all keys once more
// (section 4.1.4); two bisections for each of 2^16 partitions are 4 M reads, most of them of the same few keys.
template <class Key>
__global__ void __launch_bounds__(kGftrThreads)
    find_bounds_kernel(const Key* keys, uint64_t rows, uint32_t bits, uint64_t* begin, uint64_t* sizes) {
    const uint64_t p = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t partitions = 1ULL << bits;
    if (p > partitions) return;
    const uint64_t first = p == partitions ? rows : first_of_partition(keys, rows, bits, p);
    begin[p] = first;
    if (p < partitions) sizes[p] = first_of_partition(keys, rows, bits, p + 1) - first;
}

}}  // namespace spillway::cuda::gftr_joins
