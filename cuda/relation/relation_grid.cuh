// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/device.hpp"
#include "primitive/warp.cuh"
#include "relation/relation_policy.hpp"

namespace spillway::cuda { inline namespace relation {

// Blocks of kRelationThreads threads for kernels whose threads go over `items` in steps of the grid; none for none.
inline dim3 relation_grid(const Device& device, uint64_t items) {
    return grid_over(device, items, kRelationThreads, kRelationBlocksPerMultiprocessor);
}

constexpr uint64_t bitmap_words(uint64_t rows) {
    return (rows + 31) / 32;
}

// Calls body(first row of the warp) for groups of 32 neighbouring rows until all rows are done: whole warps, so that
// the body may vote on a word of a bitmap. Lane i has row first + i, which may be one behind the last.
template <class Body>
__device__ inline void for_warp_rows(uint64_t rows, const Body& body) {
    const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t first = thread - lane_index(); first < rows; first += step) body(first);
}

// The same without regard to warps.
template <class Body>
__device__ inline void for_rows(uint64_t rows, const Body& body) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t row = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; row < rows; row += step) {
        body(row);
    }
}

__device__ inline bool is_set(const uint32_t* bits, uint64_t row) {
    return bits == nullptr || (__ldg(&bits[row / 32]) >> (row % 32) & 1) != 0;
}

}}  // namespace spillway::cuda::relation
