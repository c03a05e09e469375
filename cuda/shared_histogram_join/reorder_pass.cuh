// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pair_join/tuple_stage.cuh"
#include "primitive/key_rows.cuh"
#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "shared_histogram_join/histogram_policy.hpp"

// One radix pass over (mixed key, row number) into contiguous partitions, by two kernels: a block counts the digits of
// a chunk in one histogram in shared memory; the prefix sum over the histograms of all chunks says where each chunk's
// tuples of a digit go, and a second kernel reads them again and writes them there. Bytes: the keys twice, row numbers
// once (not in the first pass), the tuples once, and the histograms; H200, 2^27 keys of 4 bytes: 2.1 GB in the first
// pass and 2.7 GB in the second, 0.54 and 0.67 ms at the copy rate of 3.98 TB/s. The kernel here writes tuples
// one by one, and the L2 cache has to make whole sectors of them; staged_reorder.cuh has the other one.
namespace spillway::cuda { inline namespace shared_histogram_join {

struct ReorderPass {
    // First pass: the key column. Later: tuples of the pass before.
    const void* keys_in = nullptr;
    const uint32_t* key_valid = nullptr;
    uint64_t rows = 0;
    const void* rows_in = nullptr;          // nullptr: first pass
    const uint64_t* begin = nullptr;        // [regions + 1] of the input's partitions; one in the first pass
    const uint64_t* first_chunk = nullptr;  // [regions + 1]
    uint64_t regions = 1;
    uint64_t* counts = nullptr;         // [chunks << bits] histograms, by region, digit and chunk of the region
    const uint64_t* offsets = nullptr;  // [chunks << bits] where the tuples go, in the order of counts
    void* keys_out = nullptr;
    void* rows_out = nullptr;
    uint32_t shift = 0;  // of the digit in the top word of the mixed key
    uint32_t bits = 0;
};

// A chunk's tuples, and its histogram: digit d at histogram + d * stride.
struct ReorderChunk {
    uint64_t first;
    uint64_t end;
    uint64_t histogram;
    uint64_t stride;
};

// By a whole warp.
__device__ inline ReorderChunk chunk_of(const ReorderPass& pass, uint64_t number) {
    const uint64_t region = warp_last_not_above(pass.first_chunk, pass.regions, number);
    const uint64_t within = number - pass.first_chunk[region];
    ReorderChunk chunk;
    chunk.first = pass.begin[region] + within * kChunkTuples;
    chunk.end = min(chunk.first + kChunkTuples, pass.begin[region + 1]);
    chunk.histogram = (pass.first_chunk[region] << pass.bits) + within;
    chunk.stride = pass.first_chunk[region + 1] - pass.first_chunk[region];
    return chunk;
}

// Tuples first, first + kReorderThreads, ... of a thread, below `end`. Which of them are there, a bit each.
template <class Key, int kItems>
__device__ uint32_t load_keys(const ReorderPass& pass, uint64_t first, uint64_t end, Key (&keys)[kItems]) {
    const KeyRows<Key> in{static_cast<const Key*>(pass.keys_in), pass.key_valid, pass.rows};
    uint32_t there = 0;
#pragma unroll
    for (int u = 0; u < kItems; ++u) {
        const uint64_t row = first + u * kReorderThreads;
        keys[u] = 0;
        if (row >= end || (pass.rows_in == nullptr && !in.has_key(row))) continue;
        keys[u] = __ldg(in.keys + row);
        if (pass.rows_in == nullptr) keys[u] = MixedKey<sizeof(Key) / 4>::mix(keys[u]);
        there |= 1U << u;
    }
    return there;
}

template <class Key>
__device__ inline uint32_t reorder_digit(const ReorderPass& pass, Key key) {
    return tuple_digit(key, pass.shift, pass.bits);
}

template <class Key>
__global__ void __launch_bounds__(kReorderThreads, kReorderBlocksPerMultiprocessor)
    shared_histogram_kernel(const __grid_constant__ ReorderPass pass) {
    __shared__ uint32_t histogram[kReorderFanOutMax];
    const uint64_t chunks = pass.first_chunk[pass.regions];
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        const ReorderChunk chunk = chunk_of(pass, c);
        for (uint32_t d = threadIdx.x; d < kReorderFanOutMax; d += kReorderThreads) histogram[d] = 0;
        __syncthreads();
        for (uint64_t tile = chunk.first; tile < chunk.end; tile += kReorderThreads * kReorderItems) {
            Key keys[kReorderItems];
            const uint32_t there = load_keys(pass, tile + threadIdx.x, chunk.end, keys);
#pragma unroll
            for (int u = 0; u < kReorderItems; ++u) {
                if ((there >> u & 1) != 0) atomicAdd(&histogram[reorder_digit(pass, keys[u])], 1U);
            }
        }
        __syncthreads();
        for (uint32_t d = threadIdx.x; d < 1U << pass.bits; d += kReorderThreads) {
            pass.counts[chunk.histogram + d * chunk.stride] = histogram[d];
        }
        __syncthreads();
    }
}

template <class Key, class Row>
__global__ void __launch_bounds__(kReorderThreads, kReorderBlocksPerMultiprocessor)
    reorder_kernel(const __grid_constant__ ReorderPass pass) {
    __shared__ uint64_t offsets[kReorderFanOutMax];
    __shared__ uint32_t placed[kReorderFanOutMax];
    const auto* const rows_in = static_cast<const Row*>(pass.rows_in);
    const uint64_t chunks = pass.first_chunk[pass.regions];
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) {
        const ReorderChunk chunk = chunk_of(pass, c);
        for (uint32_t d = threadIdx.x; d < 1U << pass.bits; d += kReorderThreads) {
            offsets[d] = pass.offsets[chunk.histogram + d * chunk.stride];
            placed[d] = 0;
        }
        __syncthreads();
        for (uint64_t tile = chunk.first; tile < chunk.end; tile += kReorderThreads * kReorderItems) {
            Key keys[kReorderItems];
            Row rows[kReorderItems];
            const uint64_t first = tile + threadIdx.x;
            const uint32_t there = load_keys(pass, first, chunk.end, keys);
#pragma unroll
            for (int u = 0; u < kReorderItems; ++u) {
                const uint64_t row = first + u * kReorderThreads;
                rows[u] = static_cast<Row>(row);
                if (rows_in != nullptr && (there >> u & 1) != 0) rows[u] = __ldcs(rows_in + row);
            }
#pragma unroll
            for (int u = 0; u < kReorderItems; ++u) {
                if ((there >> u & 1) == 0) continue;
                const uint32_t digit = reorder_digit(pass, keys[u]);
                const uint64_t place = offsets[digit] + atomicAdd(&placed[digit], 1U);
                static_cast<Key*>(pass.keys_out)[place] = keys[u];
                static_cast<Row*>(pass.rows_out)[place] = rows[u];
            }
        }
        __syncthreads();
    }
}

// Bytes: 24. The whole input as one region.
__global__ void one_region_kernel(uint64_t rows, uint64_t* begin, uint64_t* size) {
    begin[0] = 0;
    begin[1] = rows;
    size[0] = rows;
}

// Bytes: some 32 per partition. Partitions of a pass, begin[children]: the end of the last one. A region without chunks
// has its partitions where the next region begins.
__global__ void find_partitions_kernel(const uint64_t* offsets, const uint64_t* first_chunk, uint64_t regions,
                                       uint32_t bits, uint64_t* begin, uint64_t* sizes) {
    const uint64_t children = regions << bits;
    const auto begin_of = [&](uint64_t child) {
        const uint64_t region = child >> bits;
        if (child == children) return offsets[first_chunk[regions] << bits];
        const uint64_t digit = child & ((1ULL << bits) - 1);
        return offsets[(first_chunk[region] << bits) + digit * (first_chunk[region + 1] - first_chunk[region])];
    };
    const uint64_t child = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (child > children) return;
    const uint64_t first = begin_of(child);
    begin[child] = first;
    if (child < children) sizes[child] = begin_of(child + 1) - first;
}

}}  // namespace spillway::cuda::shared_histogram_join
