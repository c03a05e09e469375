// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "materialize/match_output.cuh"
#include "pair_join/join_tuples.hpp"
#include "primitive/warp.cuh"

// Who hands out the places of pairs when they are written as they are found: OutputPlaces of each warp, or one of the
// two ways of Rui and Tu (section 3.2.2). All leave holes at the ends of their last chunks, which close_holes() closes.
namespace spillway::cuda { inline namespace pair_join {

// In shared memory: the number of the block's chunk plus one, above; rows of it that are taken, below. Zeros: no chunk
// yet. More rows than a chunk has: a warp is about to take another one.
struct BlockChunk {
    unsigned long long word;
};

template <PairOutput kOutput>
class PairPlaces;

template <>
class PairPlaces<PairOutput::kWarpChunks> : public OutputPlaces {
  public:
    __device__ PairPlaces(const MatchOutput& out, BlockChunk&) : OutputPlaces(out) {}
};

// Warps of a block share a chunk and the pointer into it.
template <>
class PairPlaces<PairOutput::kBlockChunks> {
  public:
    // By all threads. A barrier must follow before the first give().
    __device__ PairPlaces(const MatchOutput& out, BlockChunk& chunk) : out_(out), chunk_(chunk) {
        if (threadIdx.x == 0) chunk_.word = 0;
    }

    // Does what OutputPlaces::give() does.
    template <class Write>
    __device__ void give(uint32_t lanes, const Write& write) {
        const uint32_t count = __popc(lanes);
        const uint32_t rank = __popc(lanes & lanes_below());
        Run run = {};
        if (lane_index() == 0) {
            while (!take(count, run)) wait();
        }
        run.first = __shfl_sync(kFullWarp, run.first, 0);
        run.then = __shfl_sync(kFullWarp, run.then, 0);
        run.rest = __shfl_sync(kFullWarp, run.rest, 0);
        const uint64_t place = rank < run.rest ? run.first + rank : run.then + (rank - run.rest);
        if (((lanes >> lane_index()) & 1) != 0 && place < out_.capacity_rows) write(place);
    }

    // After a barrier behind the last give().
    __device__ void finish() {
        if (threadIdx.x != 0 || chunk_.word == 0) return;
        const uint64_t number = (chunk_.word >> 32) - 1;
        if (number * out_.chunk_rows < out_.capacity_rows) out_.holes[number] = out_.chunk_rows - rows_of(chunk_.word);
    }

  private:
    struct Run {
        uint64_t first;
        uint64_t then;
        uint32_t rest;  // rows from `first` on; the others come from `then` on
    };

    __device__ static uint32_t rows_of(unsigned long long word) { return static_cast<uint32_t>(word); }
    __device__ uint32_t room_of(unsigned long long word) const { return word >> 32 == 0 ? 0 : out_.chunk_rows; }

    // Until the warp that takes a chunk has it; that one waits for nobody. Rows that are added meanwhile are lost, so
    // that each warp adds its own once at most before it looks here.
    __device__ void wait() const {
        unsigned long long seen = 0;
        do {
            __nanosleep(20);
            seen = atomicAdd(&chunk_.word, 0ULL);
        } while (rows_of(seen) > room_of(seen));
    }

    // False: another warp is taking a chunk; wait() and ask again.
    __device__ bool take(uint32_t count, Run& run) const {
        const unsigned long long before = atomicAdd(&chunk_.word, static_cast<unsigned long long>(count));
        const uint32_t used = rows_of(before);
        const uint32_t room = room_of(before);
        if (used > room) return false;
        run.first = ((before >> 32) - 1) * out_.chunk_rows + used;  // of no use without a chunk: rest is 0
        run.rest = min(count, room - used);
        if (run.rest == count) return true;
        const auto rows = static_cast<unsigned long long>(out_.chunk_rows);
        run.then = atomicAdd(out_.reserved_rows, rows);
        atomicExch(&chunk_.word, (run.then / rows + 1) << 32 | (count - run.rest));
        return true;
    }

    const MatchOutput& out_;
    BlockChunk& chunk_;
};

// Each thread fills pages of its own. Lanes that need one at the same time take them by one atomic.
template <>
class PairPlaces<PairOutput::kThreadPages> {
  public:
    __device__ PairPlaces(const MatchOutput& out, BlockChunk&) : out_(out) {}

    template <class Write>
    __device__ void give(uint32_t lanes, const Write& write) {
        const bool writes = ((lanes >> lane_index()) & 1) != 0;
        const uint32_t without = __ballot_sync(kFullWarp, writes && left_ == 0);
        if (without != 0) {
            unsigned long long first = 0;
            const auto rows = static_cast<unsigned long long>(out_.chunk_rows) * __popc(without);
            if (lane_index() == 0) first = atomicAdd(out_.reserved_rows, rows);
            first = __shfl_sync(kFullWarp, first, 0);
            if (writes && left_ == 0) {
                place_ = first + static_cast<uint64_t>(out_.chunk_rows) * __popc(without & lanes_below());
                left_ = out_.chunk_rows;
            }
        }
        if (!writes) return;
        if (place_ < out_.capacity_rows) write(place_);
        ++place_;
        --left_;
    }

    __device__ void finish() {
        if (left_ > 0 && place_ < out_.capacity_rows) out_.holes[place_ / out_.chunk_rows] = left_;
    }

  private:
    const MatchOutput& out_;
    uint64_t place_ = 0;
    uint32_t left_ = 0;
};

}}  // namespace spillway::cuda::pair_join
