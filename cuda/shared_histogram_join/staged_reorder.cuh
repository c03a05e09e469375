// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pair_join/tuple_stage.cuh"
#include "primitive/warp.cuh"
#include "shared_histogram_join/reorder_pass.cuh"

// The second kernel of a pass in another way: a block sorts a tile of its chunk by digit in shared memory and writes
// the run of each digit at once, so that the lanes of a warp write neighbouring places. Bytes are those of
// reorder_kernel; what differs is how many sectors the L2 cache is sent: one for each tuple and column there, and for a
// run of r tuples of 4 bytes r / 8 and one more here. A tile of 8,192 tuples has runs of 32 of 256 partitions and of 8
// of 1,024.
namespace spillway::cuda { inline namespace shared_histogram_join {

struct StagedReorderShared {
    uint64_t offsets[kReorderFanOutMax];  // where the chunk's next tuple of a digit goes
    uint32_t counts[kReorderFanOutMax];   // of the tile
    uint32_t starts[kReorderFanOutMax];   // of a digit's tuples in the ordered tile
    uint32_t warp_sums[kReorderThreads / kWarpThreads];
    uint32_t total;
};

template <class Key, class Row>
using ReorderStage = TupleStage<Key, Row, kReorderThreads, kStagedItems<Key, Row>>;

template <class Key, class Row>
class StagedReorder {
    static constexpr int kItems = kStagedItems<Key, Row>;

  public:
    __device__ StagedReorder(const ReorderPass& pass, unsigned char* memory, StagedReorderShared& shared)
        : pass_(pass), shared_(shared), tile_(memory, pass.shift, pass.bits) {}

    // By all threads, as all below.
    __device__ void move(const ReorderChunk& chunk) {
        for (uint32_t d = threadIdx.x; d < 1U << pass_.bits; d += kReorderThreads) {
            shared_.offsets[d] = pass_.offsets[chunk.histogram + d * chunk.stride];
        }
        for (uint64_t tile = chunk.first; tile < chunk.end; tile += ReorderStage<Key, Row>::kTuples) {
            for (uint32_t d = threadIdx.x; d < kReorderFanOutMax; d += kReorderThreads) shared_.counts[d] = 0;
            __syncthreads();
            stage(tile + threadIdx.x, chunk.end);
            __syncthreads();
            write();
            __syncthreads();
            for (uint32_t d = threadIdx.x; d < 1U << pass_.bits; d += kReorderThreads) {
                shared_.offsets[d] += shared_.counts[d];
            }
        }
        __syncthreads();
    }

  private:
    __device__ void stage(uint64_t first, uint64_t end) {
        const auto* const rows_in = static_cast<const Row*>(pass_.rows_in);
        Key keys[kItems];
        Row rows[kItems];
        uint16_t ranks[kItems];
        const uint32_t there = load_keys(pass_, first, end, keys);
#pragma unroll
        for (int u = 0; u < kItems; ++u) {
            const uint64_t row = first + u * kReorderThreads;
            rows[u] = static_cast<Row>(row);
            if (rows_in != nullptr && (there >> u & 1) != 0) rows[u] = __ldcs(rows_in + row);
        }
        tile_.count(there, keys, shared_.counts, ranks);
        __syncthreads();
        find_starts();
        tile_.put(there, keys, rows, shared_.starts, ranks);
    }

    // Prefix sum of the counts, a thread for neighbouring digits.
    __device__ void find_starts() {
        constexpr int kDigits = kReorderFanOutMax / kReorderThreads;
        static_assert(kDigits * kReorderThreads == kReorderFanOutMax);
        const uint32_t first = threadIdx.x * kDigits;
        uint32_t sum = 0;
#pragma unroll
        for (int d = 0; d < kDigits; ++d) sum += shared_.counts[first + d];
        const uint32_t through = block_inclusive_sum<kReorderThreads>(sum, shared_.warp_sums);
        if (threadIdx.x == kReorderThreads - 1) shared_.total = through;
        uint32_t start = through - sum;
#pragma unroll
        for (int d = 0; d < kDigits; ++d) {
            shared_.starts[first + d] = start;
            start += shared_.counts[first + d];
        }
        __syncthreads();
    }

    __device__ void write() const {
        const auto place_of = [&](uint32_t digit, uint32_t i) { return shared_.offsets[digit] + i; };
        tile_.write(shared_.total, shared_.starts, place_of, pass_.keys_out, pass_.rows_out);
    }

    const ReorderPass& pass_;
    StagedReorderShared& shared_;
    const ReorderStage<Key, Row> tile_;
};

template <class Key, class Row>
__global__ void __launch_bounds__(kReorderThreads, kReorderBlocksPerMultiprocessor)
    staged_reorder_kernel(const __grid_constant__ ReorderPass pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ StagedReorderShared shared;
    StagedReorder<Key, Row> reorder(pass, memory, shared);
    const uint64_t chunks = pass.first_chunk[pass.regions];
    for (uint64_t c = blockIdx.x; c < chunks; c += gridDim.x) reorder.move(chunk_of(pass, c));
}

}}  // namespace spillway::cuda::shared_histogram_join
