// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "group_by/sorted/run_states.cuh"
#include "group_by/sorted/run_tiles.cuh"
#include "group_by/sorted/runs.hpp"
#include "group_by/tables/slot_words.cuh"

// Segmented reduction: every block takes a tile of as many rows, whatever their groups are, so that neither one group
// with all rows nor a group per row leaves a block behind. A thread reduces its neighbouring rows, the block adds up by
// a segmented scan what threads share, and what a run has in other tiles is added by one atomic operation per tile.
// Bytes: the words of the column once, a bit per row, 4 bytes of masks where there are NULLs; the accumulator of each
// group once. The runs of a tile are collected in shared memory, so that they are written side by side.
namespace spillway::cuda { inline namespace grouping {

struct RunReduction {
    SortedField value;
    SortedField masks;
    Accumulator accumulator;
    const uint8_t* heads = nullptr;
    const uint64_t* tile_runs = nullptr;
    const uint64_t* begin = nullptr;
    uint64_t rows = 0;
    RunSlots slots;

    __device__ GlobalSlots<1> table() const { return {nullptr, slots.words, slots.groups, slots.entries}; }
    __device__ uint64_t field(uint64_t word) const {
        const uint64_t above = value.width == 8 ? 0 : ~0ULL << (8 * value.width);
        return word >> value.shift & ~above;
    }
};

// Where nobody else writes.
__device__ inline void store_operand(const GlobalSlots<1>& table, const Accumulator& a, uint64_t slot,
                                     const Operand& by) {
    if (a.op == AccumulatorOp::kMax64 || a.op == AccumulatorOp::kAddDouble) {
        *table.wide_place(a.word, slot) = by.wide();
        return;
    }
    for (int word = 0; word < a.words; ++word) {
        *table.place(a.word + word, slot) = word == 0 ? by.word[0] : word == 1 ? by.word[1] : by.word[2];
    }
}

// What each row of a thread adds: nothing where there is none or where its value is NULL.
template <class Op>
__device__ inline void load_states(const RunReduction& pass, uint64_t row, typename Op::State (&state)[kRunItems]) {
    const Accumulator& a = pass.accumulator;
    uint32_t valid = rows_there(row, pass.rows);
    if (a.valid_bit != kNoBit) {
        uint32_t masks[kRunItems];
        load_items(static_cast<const uint32_t*>(pass.masks.words), row, pass.rows, masks);
#pragma unroll
        for (int i = 0; i < kRunItems; ++i) {
            if ((masks[i] >> (pass.masks.shift + a.valid_bit) & 1) == 0) valid &= ~(1U << i);
        }
    }
    uint64_t bits[kRunItems] = {};
    if (pass.value.words != nullptr && pass.value.word_bytes == 4) {
        uint32_t words[kRunItems];
        load_items(static_cast<const uint32_t*>(pass.value.words), row, pass.rows, words);
#pragma unroll
        for (int i = 0; i < kRunItems; ++i) bits[i] = pass.field(words[i]);
    } else if (pass.value.words != nullptr) {
        load_items(static_cast<const uint64_t*>(pass.value.words), row, pass.rows, bits);
    }
#pragma unroll
    for (int i = 0; i < kRunItems; ++i) state[i] = (valid >> i & 1) != 0 ? Op::of(a, bits[i]) : Op::none();
}

template <class Op>
class TileReduction {
    using State = typename Op::State;

  public:
    struct Shared {
        uint32_t warp_sums[kRunWarps];
        uint32_t warp_has_head[kRunWarps];
        State warp_open[kRunWarps];
    };

    // finished: [kRunTileRows] in shared memory, what the runs that begin in the tile have there.
    __device__ TileReduction(const RunReduction& pass, Shared& shared, State* finished)
        : pass_(pass),
          shared_(shared),
          finished_(finished),
          first_row_(static_cast<uint64_t>(blockIdx.x) * kRunTileRows),
          first_run_(pass.tile_runs[blockIdx.x]),
          runs_(static_cast<uint32_t>(pass.tile_runs[blockIdx.x + 1] - first_run_)) {}

    __device__ void run() {
        const uint32_t heads = pass_.heads[static_cast<uint64_t>(blockIdx.x) * kRunThreads + threadIdx.x];
        State state[kRunItems];
        load_states<Op>(pass_, first_row_ + threadIdx.x * kRunItems, state);
        const uint32_t rank = block_exclusive_sum(__popc(heads), shared_.warp_sums);
        // `before` is the state of the rows before the thread's first head, `open` of those from its last head on.
        State before = Op::none();
        State open = Op::none();
        uint32_t begun = 0;
#pragma unroll
        for (int i = 0; i < kRunItems; ++i) {
            if ((heads >> i & 1) != 0) {
                if (begun == 0) {
                    before = open;
                } else {
                    finished_[rank + begun - 1] = open;
                }
                open = Op::none();
                ++begun;
            }
            open = Op::combined(open, state[i]);
        }
        const State carry = carry_of(heads != 0, open);
        if (heads != 0) close_run(rank, heads, Op::combined(carry, before));
        if (threadIdx.x == kRunThreads - 1) {
            const State last = heads != 0 ? open : Op::combined(carry, open);
            if (runs_ == 0) {
                merge(first_run_ - 1, last);
            } else {
                finished_[runs_ - 1] = last;
            }
        }
        __syncthreads();
        write_runs();
    }

  private:
    // Returns the state of the run that is open before the thread's first row, from its rows in this tile. The block
    // meets at one barrier.
    __device__ State carry_of(bool has_head, const State& open) {
        const uint32_t head_lanes = __ballot_sync(kFullWarp, has_head);
        const uint32_t lane = lane_index();
        const uint32_t up_to_own = head_lanes & (lanes_below() | 1U << lane);
        const uint32_t start = up_to_own == 0 ? 0 : 31 - __clz(static_cast<int>(up_to_own));
        State inclusive = open;
#pragma unroll
        for (uint32_t distance = 1; distance < kWarpThreads; distance *= 2) {
            const State other = Op::shuffle_up(inclusive, static_cast<int>(distance));
            if (lane >= start + distance) inclusive = Op::combined(other, inclusive);
        }
        State carry = Op::shuffle_up(inclusive, 1);
        if (lane == 0) carry = Op::none();
        if (lane == kWarpThreads - 1) {
            shared_.warp_open[warp_index()] = inclusive;
            shared_.warp_has_head[warp_index()] = head_lanes != 0 ? 1 : 0;
        }
        __syncthreads();
        if ((head_lanes & lanes_below()) != 0) return carry;
        State earlier = Op::none();
        for (uint32_t warp = 0; warp < warp_index(); ++warp) {
            const State there = shared_.warp_open[warp];
            earlier = shared_.warp_has_head[warp] != 0 ? there : Op::combined(earlier, there);
        }
        return Op::combined(earlier, carry);
    }

    // The run that ends at the thread's first head: one of this tile, or what is left of one of an earlier tile.
    __device__ void close_run(uint32_t rank, uint32_t heads, const State& state) {
        if (rank > 0) {
            finished_[rank - 1] = state;
        } else if (threadIdx.x > 0 || (heads & 1) == 0) {
            merge(first_run_ - 1, state);
        }
    }

    __device__ void write_runs() {
        const uint64_t end = min(first_row_ + kRunTileRows, pass_.rows);
        for (uint32_t i = threadIdx.x; i < runs_; i += kRunThreads) {
            const bool is_whole = i + 1 < runs_ || pass_.begin[first_run_ + runs_] == end;
            if (is_whole) {
                store_operand(pass_.table(), pass_.accumulator, first_run_ + i, Op::operand(finished_[i]));
            } else {
                merge(first_run_ + i, finished_[i]);
            }
        }
    }

    __device__ void merge(uint64_t run, const State& state) {
        pass_.table().apply(pass_.accumulator, run, Op::operand(state));
    }

    const RunReduction& pass_;
    Shared& shared_;
    State* const finished_;
    const uint64_t first_row_;
    const uint64_t first_run_;
    const uint32_t runs_;
};

template <class Op>
__global__ void __launch_bounds__(kRunThreads) reduce_runs_kernel(const __grid_constant__ RunReduction pass) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ typename TileReduction<Op>::Shared shared;
    TileReduction<Op>(pass, shared, reinterpret_cast<typename Op::State*>(memory)).run();
}

}}  // namespace spillway::cuda::grouping
