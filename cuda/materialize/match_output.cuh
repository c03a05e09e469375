// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/warp.cuh"

// Where kernels that find matches write them: column by column, a warp at a time, its rows at consecutive places, so
// that stores cover whole sectors. A warp reserves chunks of rows with one atomic each; the rest of its last chunk is a
// hole, which dense_output.hpp closes.
namespace spillway::cuda { inline namespace materialize {

constexpr int kOutputColumnsMax = 56;
constexpr int kMatchSides = 2;   // build, probe
constexpr int kFieldWidths = 5;  // 4, 8, 16, 2 and 1 bytes, in this order

struct MatchColumn {
    void* data = nullptr;
    uint32_t width = 4;
    uint32_t offset = 0;  // in the row of its side, in bytes
};

struct MatchOutput {
    uint32_t chunk_rows = 0;
    uint64_t capacity_rows = 0;                   // multiple of chunk_rows; matches beyond it are counted, not written
    unsigned long long* reserved_rows = nullptr;  // [1] whole chunks
    unsigned long long* matches = nullptr;        // [1]
    uint32_t* holes = nullptr;                    // [capacity_rows / chunk_rows] unused rows at each chunk's end
    void* key = nullptr;                          // column of the keys; nullptr: not wanted
    uint8_t* presence = nullptr;                  // column of PresenceBits; nullptr: not wanted
    // The others by side, then by width: a warp that writes a column should not have to ask which kind it is.
    uint8_t end[kMatchSides][kFieldWidths] = {};  // of each kind, in column[]
    MatchColumn column[kOutputColumnsMax];

    __host__ __device__ int columns() const { return end[kMatchSides - 1][kFieldWidths - 1]; }
    __host__ __device__ int first_column(int side) const { return side == 0 ? 0 : end[side - 1][kFieldWidths - 1]; }
    __host__ __device__ int last_column(int side) const { return end[side][kFieldWidths - 1]; }
};

// Hands a warp the places of its rows. One per warp.
class OutputPlaces {
  public:
    __device__ explicit OutputPlaces(const MatchOutput& out) : out_(out) {}

    // write(place) by each lane of `lanes` whose row fits the output; all lanes of the warp call. A chunk has more rows
    // than a warp, so that no call needs more than one new one. No loop: what does not change between its turns would
    // be computed before the first, which took as long as the writing itself.
    template <class Write>
    __device__ void give(uint32_t lanes, const Write& write) {
        const uint32_t count = __popc(lanes);
        const uint32_t rank = __popc(lanes & lanes_below());
        uint64_t place = place_ + rank;
        if (count > left_) {
            const uint64_t fresh = reserve();
            if (rank >= left_) place = fresh + (rank - left_);
            place_ = fresh + (count - left_);
            left_ = out_.chunk_rows - (count - left_);
        } else {
            place_ += count;
            left_ -= count;
        }
        count_ += count;
        if (((lanes >> lane_index()) & 1) != 0 && place < out_.capacity_rows) write(place);
    }

    // Rows until the next place that is a multiple of 32, where lines of columns of 4 bytes begin.
    __device__ uint32_t rows_to_line() const { return kWarpThreads - static_cast<uint32_t>(place_ % kWarpThreads); }

    __device__ void finish() {
        if (lane_index() != 0) return;
        if (count_ > 0) atomicAdd(out_.matches, static_cast<unsigned long long>(count_));
        if (left_ > 0 && place_ < out_.capacity_rows) out_.holes[place_ / out_.chunk_rows] = left_;
    }

  private:
    __device__ uint64_t reserve() const {
        unsigned long long first = 0;
        if (lane_index() == 0) first = atomicAdd(out_.reserved_rows, static_cast<unsigned long long>(out_.chunk_rows));
        return __shfl_sync(kFullWarp, first, 0);
    }

    const MatchOutput& out_;
    uint64_t place_ = 0;  // next row of the chunk
    uint32_t left_ = 0;   // rows of the chunk that are left, from that one on
    uint64_t count_ = 0;
};

}}  // namespace spillway::cuda::materialize
