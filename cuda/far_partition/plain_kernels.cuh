// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "far_partition/far_sizes.hpp"
#include "far_partition/far_source.cuh"
#include "far_partition/far_target.cuh"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace far_partitioning {

// counts[partition] over the keys. Counters of a block are 32 bits wide: they go to memory before one can be full.
// Bytes: the keys once.
template <int kWords>
__global__ void __launch_bounds__(kFarHistogramThreads)
    far_histogram_kernel(const typename FarTuple<kWords>::Column* keys, uint64_t rows, uint32_t shift,
                         uint32_t partitions, uint64_t* counts) {
    extern __shared__ uint32_t counters[];
    constexpr uint64_t kStep = uint64_t{kFarHistogramThreads} * kFarHistogramUnroll;
    constexpr uint64_t kRound = (1ULL << 31) / kStep * kStep;
    const RowSlice slice = block_slice(rows);
    for (uint64_t round = slice.begin; round < slice.end; round += kRound) {
        for (uint32_t p = threadIdx.x; p < partitions; p += kFarHistogramThreads) counters[p] = 0;
        __syncthreads();
        const uint64_t end = slice.end - round < kRound ? slice.end : round + kRound;
        for (uint64_t base = round + threadIdx.x; base < end; base += kStep) {
            typename FarTuple<kWords>::Column key[kFarHistogramUnroll] = {};
#pragma unroll
            for (int i = 0; i < kFarHistogramUnroll; ++i) {
                const uint64_t row = base + i * uint64_t{kFarHistogramThreads};
                if (row < end) key[i] = __ldcs(&keys[row]);
            }
#pragma unroll
            for (int i = 0; i < kFarHistogramUnroll; ++i) {
                if (base + i * uint64_t{kFarHistogramThreads} >= end) continue;
                const auto top = static_cast<uint32_t>(MixedKey<kWords>::mix(key[i]) >> (32 * (kWords - 1)));
                atomicAdd(&counters[far_partition_of(top, shift)], 1U);
            }
        }
        __syncthreads();
        for (uint32_t p = threadIdx.x; p < partitions; p += kFarHistogramThreads) {
            if (counters[p] == 0) continue;
            atomicAdd(reinterpret_cast<unsigned long long*>(&counts[p]), uint64_t{counters[p]});
        }
        __syncthreads();
    }
}

// kStandard: each row is stored by itself, at a place that an atomic operation in GPU memory gives it.
// Bytes: columns read once, rows written once, in pieces of a row that no other row shares a line with.
template <int kWords>
__global__ void __launch_bounds__(kFarThreads, 1)
    standard_kernel(const FarColumns<kWords> in, uint32_t shift, const __grid_constant__ FarTarget target) {
    using Row = typename FarTuple<kWords>::Row;
    for_each_far_row(in, [&](const Row& row, bool there) {
        const uint32_t partition = far_partition_of(FarTuple<kWords>::top_word(row), shift);
        const uint64_t at = there ? target.take(partition, 1) : 0;
        __syncwarp();  // pages that lanes of this warp wait for are open
        char* const to = there ? target.row(partition, at) : nullptr;
        if (to != nullptr) __stcs(reinterpret_cast<Row*>(to), row);
    });
}

// kLinear: a block sorts a batch of its rows by partition in shared memory, takes a range for each run and stores the
// rows in order. Lines are as full as runs are long; runs begin anywhere. batch_rows: a multiple of kLinearThreads, at
// most kLinearRows.
// Bytes: columns read once, rows written once, in runs of batch_rows / partitions.
template <int kWords>
__global__ void __launch_bounds__(kLinearThreads)
    linear_kernel(const FarColumns<kWords> in, uint32_t batch_rows, uint32_t shift, uint32_t partitions,
                  const __grid_constant__ FarTarget target) {
    using Row = typename FarTuple<kWords>::Row;
    extern __shared__ uint4 shared_words[];
    __shared__ uint32_t warp_sums[kLinearThreads / kWarpThreads];
    Row* const sorted = reinterpret_cast<Row*>(shared_words);
    uint64_t* const goes_to = reinterpret_cast<uint64_t*>(sorted + batch_rows);
    uint32_t* const begin = reinterpret_cast<uint32_t*>(goes_to + partitions);
    const auto partition_of = [shift](const Row& row) {
        return far_partition_of(FarTuple<kWords>::top_word(row), shift);
    };
    // Neighbouring partitions of one thread while runs are planned.
    const uint32_t share = (partitions + kLinearThreads - 1) / kLinearThreads;
    const uint32_t first = min(threadIdx.x * share, partitions);
    const uint32_t last = min(first + share, partitions);
    const RowSlice slice = block_slice(in.rows);
    for (uint64_t batch = slice.begin; batch < slice.end; batch += batch_rows) {
        const uint32_t count = static_cast<uint32_t>(min(slice.end - batch, uint64_t{batch_rows}));
        for (uint32_t p = threadIdx.x; p < partitions; p += kLinearThreads) begin[p] = 0;
        Row rows[kLinearRowsPerThread] = {};
        uint32_t rank[kLinearRowsPerThread] = {};
#pragma unroll
        for (int i = 0; i < kLinearRowsPerThread; ++i) {
            const uint32_t at = i * kLinearThreads + threadIdx.x;
            if (at >= count) continue;
            rows[i] = in.reversed_keys ? in.template load<true>(batch + at) : in.template load<false>(batch + at);
        }
        if (in.split_counts != nullptr) {
#pragma unroll
            for (int i = 0; i < kLinearRowsPerThread; ++i) {
                in.count_split(rows[i], i * kLinearThreads + threadIdx.x < count);
            }
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kLinearRowsPerThread; ++i) {
            if (i * kLinearThreads + threadIdx.x < count) rank[i] = atomicAdd(&begin[partition_of(rows[i])], 1U);
        }
        __syncthreads();
        uint32_t own = 0;
        for (uint32_t p = first; p < last; ++p) own += begin[p];
        uint32_t start = block_inclusive_sum<kLinearThreads>(own, warp_sums) - own;
        for (uint32_t p = first; p < last; ++p) {
            const uint32_t length = begin[p];
            begin[p] = start;
            // Less the beginning in the batch, so that a row's number there is added; modulo 2^64.
            if (length > 0) goes_to[p] = target.take(p, length) - start;
            start += length;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kLinearRowsPerThread; ++i) {
            if (i * kLinearThreads + threadIdx.x >= count) continue;
            sorted[begin[partition_of(rows[i])] + rank[i]] = rows[i];
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += kLinearThreads) {
            const Row row = sorted[i];
            const uint32_t partition = partition_of(row);
            char* const to = target.row(partition, goes_to[partition] + i);
            if (to != nullptr) __stcs(reinterpret_cast<Row*>(to), row);
        }
        __syncthreads();
    }
}

}}  // namespace spillway::cuda::far_partitioning
