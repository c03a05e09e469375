// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// Sum over this thread's value and those of all threads before it in the block; by all threads, with a barrier inside.
// `warp_sums` is shared memory, which may be used again after a barrier.
template <int kThreads>
__device__ uint32_t block_inclusive_sum(uint32_t value, uint32_t (&warp_sums)[kThreads / kWarpThreads]) {
    constexpr uint32_t kWarps = kThreads / kWarpThreads;
    static_assert(kWarps <= kWarpThreads);
    const uint32_t within = warp_inclusive_sum(value);
    if (lane_index() == kWarpThreads - 1) warp_sums[warp_index()] = within;
    __syncthreads();
    if (warp_index() == 0) {
        const uint32_t sum = warp_inclusive_sum(lane_index() < kWarps ? warp_sums[lane_index()] : 0);
        if (lane_index() < kWarps) warp_sums[lane_index()] = sum;
    }
    __syncthreads();
    return within + (warp_index() == 0 ? 0 : warp_sums[warp_index() - 1]);
}

}}  // namespace spillway::cuda::far_partitioning
