// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/reduce_runs.hpp"
#include "group_by/sorted/run_tiles.cuh"
#include "group_by/sorted/sorted_policy.hpp"
#include "group_by/tables/operands.cuh"
#include "group_by/tables/slot_words.cuh"
#include "primitive/warp.cuh"

// Segmented reduction: every block takes a tile of as many rows, whatever their groups are, so that neither one group
// with all rows nor a group per row leaves a block behind. A thread reduces its neighbouring rows, the block adds up by
// a segmented scan what threads share, and what a run has in other tiles is added by one atomic operation per tile.
// Bytes: the words of the column once, a bit per row, 4 bytes of masks where there are NULLs; the accumulator of each
// group once. The runs of a tile are collected in shared memory, so that they are written side by side.
namespace spillway::cuda { inline namespace grouping {

namespace {

// What a run of rows adds to an accumulator, for each of its operations. Zeros add nothing, as in a slot.
template <class Value>
struct PlainState {
    using State = Value;
    __device__ static State none() { return 0; }
    __device__ static State shuffle_up(State state, int distance) { return __shfl_up_sync(kFullWarp, state, distance); }
};

struct MaxOfRun : PlainState<unsigned long long> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        const uint64_t number = a.is_signed ? sign_extended(bits, a.value.width) : bits;
        if (a.op == AccumulatorOp::kMax32) return order_word(a, static_cast<uint32_t>(number));
        return order_word(a, static_cast<unsigned long long>(number));
    }
    __device__ static State combined(State x, State y) { return x < y ? y : x; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

struct OrOfRun : PlainState<uint32_t> {
    __device__ static State of(const Accumulator& /*a*/, uint64_t bits) { return static_cast<uint32_t>(bits); }
    __device__ static State combined(State x, State y) { return x | y; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

// This is a sum or a count, which takes two words.
struct SumOfRun : PlainState<unsigned long long> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        if (a.counts) return 1;
        return a.is_signed ? sign_extended(bits, a.value.width) : bits;
    }
    __device__ static State combined(State x, State y) { return x + y; }
    __device__ static Operand operand(State state) { return Operand::of(state); }
};

struct DoubleSumOfRun : PlainState<double> {
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        if (a.value.width == 8) return __longlong_as_double(static_cast<long long>(bits));
        return static_cast<double>(__uint_as_float(static_cast<uint32_t>(bits)));
    }
    __device__ static State combined(State x, State y) { return x + y; }
    __device__ static Operand operand(State state) {
        return Operand::of(static_cast<unsigned long long>(__double_as_longlong(state)));
    }
};

struct WideSum {
    unsigned long long low;
    uint32_t high;
};

// This is a sum of 8-byte integers, which takes three words so that its overflow shows in the third.
struct WideSumOfRun {
    using State = WideSum;
    __device__ static State none() { return {0, 0}; }
    __device__ static State of(const Accumulator& a, uint64_t bits) {
        const uint64_t number = a.is_signed ? sign_extended(bits, a.value.width) : bits;
        return {number, a.is_signed && number >> 63 != 0 ? ~0U : 0};
    }
    __device__ static State combined(const State& x, const State& y) {
        const unsigned long long low = x.low + y.low;
        return {low, x.high + y.high + (low < x.low ? 1 : 0)};
    }
    __device__ static Operand operand(const State& state) { return Operand::of(state.low, state.high); }
    __device__ static State shuffle_up(const State& state, int distance) {
        return {__shfl_up_sync(kFullWarp, state.low, distance), __shfl_up_sync(kFullWarp, state.high, distance)};
    }
};

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

// Bytes: where runs begin, a random access per group, in the order of rows, and the accumulator of each group once.
__global__ void fill_runs_kernel(const __grid_constant__ RunReduction pass) {
    const Accumulator& a = pass.accumulator;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    uint64_t run = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (; run < pass.slots.groups; run += step) {
        const uint64_t row = pass.begin[run];
        Operand by = Operand::of(pass.begin[run + 1] - row);
        if (!a.counts) {
            const uint64_t word = pass.value.word_bytes == 4 ? static_cast<const uint32_t*>(pass.value.words)[row]
                                                             : static_cast<const uint64_t*>(pass.value.words)[row];
            by = operand_of(a, pass.field(word));
        }
        store_operand(pass.table(), a, run, by);
    }
}

RunReduction pass_of(const Runs& runs, const Accumulator& accumulator, const SortedField& value,
                     const SortedField& masks, const RunSlots& slots) {
    RunReduction pass;
    pass.value = value;
    pass.masks = masks;
    pass.accumulator = accumulator;
    pass.accumulator.value.width = static_cast<uint8_t>(value.width);
    pass.heads = runs.heads.as<const uint8_t>();
    pass.tile_runs = runs.tile_runs.as<const uint64_t>();
    pass.begin = runs.begin.as<const uint64_t>();
    pass.rows = runs.rows;
    pass.slots = slots;
    return pass;
}

template <class Op>
void launch_reduction(Device& device, const Runs& runs, const RunReduction& pass) {
    launch(reduce_runs_kernel<Op>, dim3(static_cast<unsigned>(runs.tiles())), dim3(kRunThreads),
           kRunTileRows * sizeof(typename Op::State), device.stream(), pass);
}

}  // namespace

void reduce_runs(Device& device, const Runs& runs, const Accumulator& accumulator, const SortedField& value,
                 const SortedField& masks, const RunSlots& slots) {
    const RunReduction pass = pass_of(runs, accumulator, value, masks, slots);
    const uint64_t value_bytes = value.words == nullptr ? 0 : value.word_bytes;
    const uint64_t mask_bytes = accumulator.valid_bit == kNoBit ? 0 : masks.word_bytes;
    count_moved(device, runs.rows * (value_bytes + mask_bytes) + runs.rows / 8 + slots.groups * accumulator.words * 4);
    switch (accumulator.op) {
        case AccumulatorOp::kMax32:
        case AccumulatorOp::kMax64:
            return launch_reduction<MaxOfRun>(device, runs, pass);
        case AccumulatorOp::kAddDouble:
            return launch_reduction<DoubleSumOfRun>(device, runs, pass);
        case AccumulatorOp::kOr:
            return launch_reduction<OrOfRun>(device, runs, pass);
        case AccumulatorOp::kAdd:
            if (accumulator.words == 3) return launch_reduction<WideSumOfRun>(device, runs, pass);
            return launch_reduction<SumOfRun>(device, runs, pass);
    }
}

void fill_runs(Device& device, const Runs& runs, const Accumulator& accumulator, const SortedField& value,
               const RunSlots& slots) {
    const RunReduction pass = pass_of(runs, accumulator, value, {}, slots);
    count_moved(device, slots.groups * (sizeof(uint64_t) + accumulator.words * 4ULL));
    if (!accumulator.counts) {
        count_moved(device, sector_bytes(device, slots.groups, value.word_bytes, runs.rows * value.word_bytes, 1));
    }
    launch(fill_runs_kernel, grid_over(device, runs.groups, kSortedThreads, 16), dim3(kSortedThreads), 0,
           device.stream(), pass);
}

}}  // namespace spillway::cuda::grouping
