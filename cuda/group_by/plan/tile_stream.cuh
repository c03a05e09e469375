// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/plan/accumulators.hpp"
#include "group_by/plan/group_policy.hpp"
#include "primitive/bulk_copy.cuh"

// Tiles of rows on their way from global into shared memory, one ahead of the one that is worked on: by bulk copies,
// which take no registers, whatever the number and the width of the columns. Where there are none all threads copy.
namespace spillway::cuda { inline namespace grouping {

// A column, or packed rows, of which tiles are staged.
struct StagedArray {
    const unsigned char* data = nullptr;  // at a multiple of 16 bytes
    uint32_t stride_bytes = 4;            // per row
    uint32_t base_bytes = 0;              // in the tile, a multiple of 16
};

struct StagedArrays {
    StagedArray array[kStagedMax];
    int32_t arrays = 0;
    uint32_t tile_rows = kGroupTileRows;  // a multiple of 16, so that tiles begin at multiples of 16 bytes
    uint32_t tile_bytes = 0;
};

struct TileLoads {
    BulkLoad load[2][kStagedMax];
};

class TileStream {
  public:
    __device__ TileStream(const StagedArrays& source, unsigned char* memory, TileLoads& loads)
        : source_(source), memory_(memory), loads_(loads) {}

    // By one thread, with a barrier behind it.
    __device__ void init() {
        for (int buffer = 0; buffer < 2; ++buffer) {
            for (int a = 0; a < source_.arrays; ++a) loads_.load[buffer][a].init();
        }
    }

    // By all threads, when no thread uses the buffer any more (fence_shared_for_bulk() and a barrier). The tile is
    // there after the next barrier and wait().
    __device__ void start(int buffer, uint64_t first_row, uint32_t rows) {
        for (int a = 0; a < source_.arrays; ++a) {
            const StagedArray& array = source_.array[a];
            unsigned char* const to = memory_ + buffer * source_.tile_bytes + array.base_bytes;
            const unsigned char* const from = array.data + first_row * array.stride_bytes;
            // What does not fill 16 bytes at a column's end is not copied in bulk: nobody owns what is behind it.
            const uint32_t bytes = rows * array.stride_bytes;
            const uint32_t body = bytes & ~15U;
            if constexpr (kBulkCopies) {
                if (threadIdx.x == 0) loads_.load[buffer][a].start(to, from, body);
            } else {
                for (uint32_t at = threadIdx.x * 4; at < body; at += kGroupThreads * 4) {
                    *reinterpret_cast<uint32_t*>(to + at) = *reinterpret_cast<const uint32_t*>(from + at);
                }
            }
            if (threadIdx.x < bytes - body) to[body + threadIdx.x] = from[body + threadIdx.x];
        }
    }

    // By all threads, once per start().
    __device__ const unsigned char* wait(int buffer) {
        for (int a = 0; a < source_.arrays; ++a) {
            uint32_t phase = phases_ >> buffer & 1;
            loads_.load[buffer][a].wait(phase);
        }
        phases_ ^= 1U << buffer;
        return memory_ + buffer * source_.tile_bytes;
    }

  private:
    const StagedArrays& source_;
    unsigned char* const memory_;
    TileLoads& loads_;
    uint32_t phases_ = 0;  // a bit per buffer
};

}}  // namespace spillway::cuda::grouping
