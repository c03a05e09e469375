// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/sorted/sorted_policy.hpp"
#include "primitive/warp.cuh"

// Tiles of kRunTileRows rows, kRunItems neighbouring ones per thread.
namespace spillway::cuda { inline namespace grouping {

constexpr int kRunWarps = kRunThreads / kWarpThreads;
static_assert(kRunItems == 8, "a thread's rows have a byte of flags");

// Sum over the threads before this one. By all threads of a block, with one barrier; warp_sums is not used again.
__device__ inline uint32_t block_exclusive_sum(uint32_t own, uint32_t (&warp_sums)[kRunWarps]) {
    const uint32_t inclusive = warp_inclusive_sum(own);
    if (lane_index() == kWarpThreads - 1) warp_sums[warp_index()] = inclusive;
    __syncthreads();
    uint32_t before = inclusive - own;
    for (uint32_t warp = 0; warp < warp_index(); ++warp) before += warp_sums[warp];
    return before;
}

// A bit for each of the rows from `row` on that there are.
__device__ inline uint32_t rows_there(uint64_t row, uint64_t rows) {
    if (row >= rows) return 0;
    return row + kRunItems <= rows ? 0xffU : (1U << (rows - row)) - 1;
}

// Words of a thread's rows, in loads of 16 bytes; 0 behind the last row. The column begins at a multiple of 16 bytes.
__device__ inline void load_items(const uint32_t* words, uint64_t row, uint64_t rows, uint32_t (&items)[kRunItems]) {
    if (row + kRunItems <= rows) {
        const auto* const quads = reinterpret_cast<const uint4*>(words + row);
#pragma unroll
        for (int i = 0; i < kRunItems / 4; ++i) {
            const uint4 quad = __ldcs(&quads[i]);
            items[4 * i] = quad.x;
            items[4 * i + 1] = quad.y;
            items[4 * i + 2] = quad.z;
            items[4 * i + 3] = quad.w;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kRunItems; ++i) items[i] = row + i < rows ? words[row + i] : 0;
}

__device__ inline void load_items(const uint64_t* words, uint64_t row, uint64_t rows, uint64_t (&items)[kRunItems]) {
    if (row + kRunItems <= rows) {
        const auto* const quads = reinterpret_cast<const uint4*>(words + row);
#pragma unroll
        for (int i = 0; i < kRunItems / 2; ++i) {
            const uint4 quad = __ldcs(&quads[i]);
            items[2 * i] = quad.x | static_cast<uint64_t>(quad.y) << 32;
            items[2 * i + 1] = quad.z | static_cast<uint64_t>(quad.w) << 32;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < kRunItems; ++i) items[i] = row + i < rows ? words[row + i] : 0;
}

}}  // namespace spillway::cuda::grouping
