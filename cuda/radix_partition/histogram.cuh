// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// counts[top bits of the mixed key] over all rows that have a key. Bytes: the key column once; counters are in shared
// memory until the block ends.
template <int kKeyWords>
__global__ void __launch_bounds__(kHistogramThreads, 2)
    histogram_kernel(const typename MixedKey<kKeyWords>::Key* keys, const uint32_t* key_valid, uint64_t rows, int bits,
                     unsigned long long* counts) {
    extern __shared__ uint32_t counters[];
    const uint32_t digits = 1U << bits;
    for (uint32_t d = threadIdx.x; d < digits; d += blockDim.x) counters[d] = 0;
    __syncthreads();
    using Key = typename MixedKey<kKeyWords>::Key;
    constexpr uint32_t kQuad = 4;
    const auto count = [&](Key key) {
        const auto top = static_cast<uint32_t>(MixedKey<kKeyWords>::mix(key) >> (32 * (kKeyWords - 1)));
        atomicAdd(&counters[bits == 0 ? 0 : top >> (32 - bits)], 1U);
    };
    const uint64_t quads = rows / kQuad;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (uint64_t quad = first; quad < quads; quad += step) {
        const uint64_t row = quad * kQuad;
        const uint32_t there = key_valid == nullptr ? 0xf : key_valid[row / 32] >> (row % 32) & 0xf;
        Key four[kQuad];
#pragma unroll
        for (uint32_t i = 0; i < kQuad * sizeof(Key) / 16; ++i) {
            reinterpret_cast<uint4*>(four)[i] = __ldcs(reinterpret_cast<const uint4*>(keys + row) + i);
        }
#pragma unroll
        for (uint32_t i = 0; i < kQuad; ++i) {
            if (there >> i & 1) count(four[i]);
        }
    }
    const uint64_t rest = quads * kQuad + first;
    if (rest < rows && (key_valid == nullptr || (key_valid[rest / 32] >> (rest % 32) & 1) != 0)) count(keys[rest]);
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < digits; d += blockDim.x) {
        if (counters[d] > 0) atomicAdd(&counts[d], static_cast<unsigned long long>(counters[d]));
    }
}

// The same over rows that are already in regions: counts[region << bits | digit], a tile of rows at a time. parent: as
// in ScatterPass.
__global__ void __launch_bounds__(kHistogramThreads, 2)
    histogram_rows_kernel(const uint32_t* rows, uint32_t row_words, uint32_t top_word, const uint64_t* begin,
                          const uint64_t* end, const uint64_t* first_tile, const uint64_t* parent, uint64_t regions,
                          uint32_t tile_rows, uint32_t shift, int bits, unsigned long long* counts);

}}  // namespace spillway::cuda::radix_partitioning
