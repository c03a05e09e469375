// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "hash_join/join_pass.hpp"
#include "hash_join/join_policy.hpp"
#include "primitive/warp.cuh"

// A warp's probe rows on their way to the registers. Every thread takes neighbouring rows, which lie at multiples of 8
// or 16 bytes whatever a row's width and so come in wide loads: rows of 12 bytes loaded word by word touch each sector
// three times, and what was prefetched for later words falls out of the few KiB that the block leaves of the L1 cache.
namespace spillway::cuda { inline namespace hash_join {

template <int kKeyWords, int kProbeWords>
class ProbeRows {
  public:
    static constexpr bool kWhole = kProbeWords > 0;  // else keys alone, of rows of any width
    static constexpr int kWords = kWhole ? kProbeWords : kKeyWords;
    static constexpr int kRows = probe_unroll(kProbeWords);  // of a thread and batch
    static constexpr uint32_t kBatchRows = kWarpThreads * kRows;
    static constexpr uint32_t kNumberStep = kWhole ? 1 : kWarpThreads;

    ProbeRows() = default;
    __device__ ProbeRows(const JoinSide& side, uint64_t first, uint32_t count)
        : rows_(side.rows + first * side.row_words), row_words_(side.row_words), count_(count) {}

    // Returns which row of the batch the thread's row `u` is.
    __device__ static uint32_t number(int u) {
        return (kWhole ? lane_index() * kRows : lane_index()) + u * kNumberStep;
    }

    __device__ void load(uint32_t batch) {
        const uint32_t first = batch * kBatchRows + number(0);
        if constexpr (kWhole) {
            // Partitions begin at multiples of 8 rows; what is between one and the next was never written.
            if (first + kRows <= count_) {
                load_neighbours(rows_ + static_cast<uint64_t>(first) * kWords);
            } else {
#pragma unroll
                for (int u = 0; u < kRows; ++u) {
                    if (first + u < count_) load_row(first + u, words[u]);
                }
            }
        } else {
#pragma unroll
            for (int u = 0; u < kRows; ++u) {
                if (first + u * kNumberStep < count_) load_row(first + u * kNumberStep, words[u]);
            }
        }
    }
    // To the first place.
    __device__ void load_one(uint32_t number) {
        if (number < count_) load_row(number, words[0]);
    }

    __device__ void load_row(uint32_t number, uint32_t (&row)[kWords]) const {
        const uint32_t* const from = rows_ + static_cast<uint64_t>(number) * (kWhole ? kWords : row_words_);
#pragma unroll
        for (int w = 0; w < kWords; ++w) row[w] = __ldg(from + w);
    }

    uint32_t words[kRows][kWords];

  private:
    // A row whose match waits in the queue is read once more when it is written, so that the L2 cache shall not be told
    // to drop what it has given.
    __device__ void load_neighbours(const uint32_t* from) {
        constexpr int kAll = kRows * kWords;
        if constexpr (kAll % 4 == 0) {
#pragma unroll
            for (int at = 0; at < kAll; at += 4) {
                const uint4 four = __ldg(reinterpret_cast<const uint4*>(from + at));
                word(at) = four.x;
                word(at + 1) = four.y;
                word(at + 2) = four.z;
                word(at + 3) = four.w;
            }
        } else {
#pragma unroll
            for (int at = 0; at < kAll; at += 2) {
                const uint2 two = __ldg(reinterpret_cast<const uint2*>(from + at));
                word(at) = two.x;
                word(at + 1) = two.y;
            }
        }
    }
    __device__ uint32_t& word(int at) {
        return words[at / kWords][at % kWords];
    }

    const uint32_t* rows_ = nullptr;
    uint32_t row_words_ = 0;
    uint32_t count_ = 0;
};

}}  // namespace spillway::cuda::hash_join
