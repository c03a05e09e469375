// SPDX-License-Identifier: Apache-2.0
#include "radix_partition/histogram.cuh"

namespace spillway::cuda { inline namespace radix_partitioning {

__global__ void __launch_bounds__(kHistogramThreads, 2)
    histogram_rows_kernel(const uint32_t* rows, uint32_t row_words, uint32_t top_word, const uint64_t* begin,
                          const uint64_t* end, const uint64_t* first_tile, const uint64_t* parent, uint64_t regions,
                          uint32_t tile_rows, uint32_t shift, int bits, unsigned long long* counts) {
    __shared__ uint32_t counters[kPassFanOutMax];
    const uint32_t digits = 1U << bits;
    const uint64_t tiles = first_tile[regions];
    for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const uint64_t region = last_not_above(first_tile, regions, tile);
        const uint64_t from = begin[region] + (tile - first_tile[region]) * tile_rows;
        const uint64_t to = from + tile_rows < end[region] ? from + tile_rows : end[region];
        if (threadIdx.x < digits) counters[threadIdx.x] = 0;
        __syncthreads();
        for (uint64_t row = from + threadIdx.x; row < to; row += blockDim.x) {
            atomicAdd(&counters[radix_digit(rows[row * row_words + top_word], shift, digits - 1)], 1U);
        }
        __syncthreads();
        if (threadIdx.x < digits && counters[threadIdx.x] > 0) {
            const uint64_t first = (parent == nullptr ? region : parent[region]) << bits;
            atomicAdd(&counts[first + threadIdx.x], static_cast<unsigned long long>(counters[threadIdx.x]));
        }
        __syncthreads();
    }
}

}}  // namespace spillway::cuda::radix_partitioning
