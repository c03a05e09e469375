// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/far_policy.hpp"
#include "far_partition/far_sizes.hpp"
#include "far_partition/far_source.cuh"
#include "far_partition/far_target.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// What `blocks` blocks left in buffers goes behind the rows of the partition, a block for each partition. All full
// buffers were stored before, so that this is the first range that may end anywhere.
// Bytes: left-over rows read and written once.
template <int kWords>
__global__ void __launch_bounds__(kDrainThreads)
    drain_kernel(const __grid_constant__ CombiningPass pass, uint32_t blocks) {
    using Row = typename FarTuple<kWords>::Row;
    __shared__ uint32_t warp_sums[kDrainThreads / kWarpThreads];
    __shared__ uint32_t ends[kDrainThreads];     // rows left by blocks up to this one
    __shared__ uint64_t sources[kDrainThreads];  // where they begin
    __shared__ uint64_t first;
    const uint32_t partition = blockIdx.x;
    const Row* const memory = reinterpret_cast<const Row*>(pass.memory);
    for (uint32_t base = 0; base < blocks; base += kDrainThreads) {
        const uint32_t block = base + threadIdx.x;
        Leftover left{0, 0};
        if (block < blocks) left = pass.leftovers[uint64_t{block} * pass.partitions + partition];
        ends[threadIdx.x] = block_inclusive_sum<kDrainThreads>(left.rows, warp_sums);
        sources[threadIdx.x] = (uint64_t{block} * pass.memory_buffers + left.buffer) * pass.memory_rows;
        __syncthreads();
        const uint32_t count = ends[kDrainThreads - 1];
        if (threadIdx.x == 0 && count > 0) first = pass.target.take(partition, count);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += kDrainThreads) {
            uint32_t low = 0;  // the first whose end is behind i
            for (uint32_t high = kDrainThreads - 1; low < high;) {
                const uint32_t middle = (low + high) / 2;
                if (ends[middle] > i) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            const Row row = memory[sources[low] + (i - (low == 0 ? 0 : ends[low - 1]))];
            char* const to = pass.target.row(partition, first + i);
            if (to != nullptr) __stcs(reinterpret_cast<Row*>(to), row);
        }
        __syncthreads();
    }
}

}}  // namespace spillway::cuda::far_partitioning
