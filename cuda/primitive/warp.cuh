// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/warp_threads.hpp"

namespace spillway::cuda { inline namespace primitive {

constexpr uint32_t kFullWarp = 0xffffffffU;

__device__ inline uint32_t lane_index() {
    return threadIdx.x % kWarpThreads;
}
__device__ inline uint32_t warp_index() {
    return threadIdx.x / kWarpThreads;
}
__device__ inline uint32_t lanes_below() {
    return (1U << lane_index()) - 1;
}

// Sum over this and all lower lanes; every lane of the warp takes part.
template <class T>
__device__ inline T warp_inclusive_sum(T value) {
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2) {
        const T other = __shfl_up_sync(kFullWarp, value, distance);
        if (lane_index() >= static_cast<uint32_t>(distance)) value += other;
    }
    return value;
}

// The last i of [0, count) with first[i] <= value; first[0] <= value and first does not fall.
template <class T>
__device__ inline uint64_t last_not_above(const T* first, uint64_t count, T value) {
    uint64_t low = 0;
    uint64_t high = count - 1;
    while (low < high) {
        const uint64_t middle = (low + high + 1) / 2;
        if (first[middle] <= value) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// The same by a whole warp, which looks at 32 places at once.
template <class T>
__device__ inline uint64_t warp_last_not_above(const T* first, uint64_t count, T value) {
    uint64_t from = 0;  // first[from] <= value; the answer is among [from, from + count)
    while (count > 1) {
        const uint64_t step = (count + kWarpThreads - 1) / kWarpThreads;
        const uint64_t at = lane_index() * step;
        const bool not_above = at < count && first[from + at] <= value;
        const uint64_t last = kWarpThreads - 1 - __clz(__ballot_sync(kFullWarp, not_above));
        from += last * step;
        count = min(step, count - last * step);
    }
    return from;
}

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

// Barriers of the first kThreads threads of a block, whole warps, which the others do not take part in. __syncthreads()
// has barrier 0, these have barrier 1.
template <int kThreads>
struct BlockPart {
    static_assert(kThreads % 32 == 0);

    __device__ static void wait() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }
    // The same; has any of the threads a true `value`?
    __device__ static bool any(bool value) {
        uint32_t found;
        asm volatile(
            "{\n"
            ".reg .pred own, all;\n"
            "setp.ne.u32 own, %1, 0;\n"
            "bar.red.or.pred all, 1, %2, own;\n"
            "selp.u32 %0, 1, 0, all;\n"
            "}\n"
            : "=r"(found)
            : "r"(static_cast<uint32_t>(value)), "n"(kThreads)
            : "memory");
        return found != 0;
    }
};

}}  // namespace spillway::cuda::primitive
