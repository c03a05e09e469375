// SPDX-License-Identifier: Apache-2.0
// A block has arrays of its own in shared memory for as many groups as fit, those with the smallest numbers, and merges
// them at its end into the arrays in GPU memory; rows of other groups are added to the latter one by one. The smallest
// numbers are those of a sample as large as that, so that a key that many rows have is added up in shared memory,
// however many groups there are. In both memories the lanes of a warp that share a group are added up first where they
// are many (add_rows.cuh), and a maximum is looked at before it is changed.
// Bytes: a slot and each column per row, in order, and the group's number; of groups that are in no block's memory a
// sector read and written per row and accumulator.
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/dense/dense_aggregates.hpp"
#include "group_by/dense/dense_policy.hpp"
#include "group_by/plan/group_policy.hpp"
#include "group_by/tables/add_rows.cuh"

namespace spillway::cuda { inline namespace grouping {

namespace {

struct DensePass {
    SlotPlan plan;
    const uint32_t* row_slots = nullptr;
    const uint32_t* numbers = nullptr;
    uint64_t rows = 0;
    DenseGroups groups;
    uint32_t own_groups = 0;  // that have a place in a block's shared memory
    uint32_t own_entries = 0;
};
static_assert(sizeof(DensePass) <= 4096, "parameters of a kernel");

// Accumulators of groups by their numbers: of the first ones the block's, else those of all blocks. Keys are no part of
// it.
struct DenseWords {
    SlotWords<1, uint32_t, true> own;
    SlotWords<1, uint64_t, false> all;

    __device__ bool is_own(uint32_t group) const { return group < own.slots; }
    __device__ uint32_t* place(int word, uint32_t group) const {
        return is_own(group) ? own.place(word, group) : all.place(word, group);
    }
    __device__ unsigned long long* wide_place(int word, uint32_t group) const {
        return is_own(group) ? own.wide_place(word, group) : all.wide_place(word, group);
    }
    // The word may be in either memory.
    template <class Word>
    __device__ static Word look(Word* place) {
#ifdef SPILLWAY_CUDA_PLAIN_COPIES
        return atomicOr(place, Word{0});
#else
        return *static_cast<volatile Word*>(place);
#endif
    }
    __device__ void apply(const Accumulator& a, uint32_t group, const Operand& by) const {
        if (is_own(group)) {
            own.apply(a, group, by);
        } else {
            all.apply(a, group, by);
        }
    }
};

}  // namespace

template <>
constexpr bool kReadsColumns<DenseWords> = true;

namespace {

class DenseAggregation {
  public:
    __device__ DenseAggregation(const DensePass& pass, uint32_t* memory)
        : pass_(pass),
          words_{{nullptr, memory, pass.own_groups, pass.own_entries},
                 {nullptr, pass.groups.words, pass.groups.groups, pass.groups.entries}} {}

    __device__ void run() {
        const uint32_t own_words = pass_.own_entries * pass_.plan.words;
        for (uint32_t i = threadIdx.x; i < own_words; i += kDenseThreads) words_.own.words[i] = 0;
        __syncthreads();
        constexpr uint64_t kBlockRows = static_cast<uint64_t>(kDenseThreads) * kGroupRowsAtOnce;
        for (uint64_t first = blockIdx.x * kBlockRows; first < pass_.rows; first += gridDim.x * kBlockRows) {
            add({nullptr, first, static_cast<uint32_t>(min(pass_.rows - first, kBlockRows))});
        }
        __syncthreads();
        merge();
    }

  private:
    __device__ void add(const StagedRows& tile) {
        TableRows<1> rows;
#pragma unroll
        for (int r = 0; r < kGroupRowsAtOnce; ++r) {
            rows.row[r] = r * kDenseThreads + threadIdx.x;
            rows.mask[r] = 0;
            rows.slot[r] =
                rows.row[r] < tile.rows ? __ldcs(&pass_.row_slots[tile.first_row + rows.row[r]]) : kNoRowSlot;
        }
        static_assert(kNoRowSlot == TableRows<1>::kNoSlot);
#pragma unroll
        for (int r = 0; r < kGroupRowsAtOnce; ++r) {
            if (rows.slot[r] == kNoRowSlot) continue;
            rows.slot[r] = __ldg(&pass_.numbers[rows.slot[r]]);
            if (!pass_.plan.has_mask) continue;
            rows.mask[r] = static_cast<uint32_t>(tile.bits(pass_.plan.mask, pass_.plan.row_number, rows.row[r]));
        }
        __syncwarp();
        for (int number = 0; number < pass_.plan.accumulators; ++number) {
            apply_rows(pass_.plan.accumulator[number], pass_.plan, tile, rows, words_);
        }
    }

    // Blocks that merge the same groups at the same time begin at different ones.
    __device__ void merge() {
        const uint32_t steps = (pass_.own_groups + kDenseThreads - 1) / kDenseThreads;
        for (uint32_t step = 0; step < steps; ++step) {
            const uint32_t group = (step + blockIdx.x) % steps * kDenseThreads + threadIdx.x;
            if (group >= pass_.own_groups) continue;
            for (int number = 0; number < pass_.plan.accumulators; ++number) {
                const Accumulator& a = pass_.plan.accumulator[number];
                const Operand by = words_.own.read(a, group);
                if ((by.word[0] | by.word[1] | by.word[2]) != 0) words_.all.apply(a, group, by);
            }
        }
    }

    const DensePass& pass_;
    const DenseWords words_;
};

__global__ void __launch_bounds__(kDenseThreads, 1) aggregate_dense_kernel(const __grid_constant__ DensePass pass) {
    extern __shared__ __align__(128) unsigned char memory[];
    DenseAggregation(pass, reinterpret_cast<uint32_t*>(memory)).run();
}

void count_dense_bytes(Device& device, const GroupByRequest& request, const GroupPlan& plan,
                       const NumberedGroups& numbered, const DensePass& pass) {
    uint64_t row_bytes = sizeof(uint32_t) + plan.mask_width;
    for (const DeviceColumn& column : plan.columns) row_bytes += column.width;
    const double elsewhere = 1 - static_cast<double>(pass.own_groups) / static_cast<double>(numbered.groups);
    const auto added = static_cast<uint64_t>(static_cast<double>(request.rows) * elsewhere);
    uint64_t bytes = request.rows * row_bytes;
    bytes += sector_bytes(device, request.rows, sizeof(uint32_t), numbered.table.entries * sizeof(uint32_t));
    bytes += 2ULL * plan.slots.accumulators * sector_bytes(device, added, sizeof(uint64_t), pass.groups.entries * 8);
    count_moved(device, bytes);
}

}  // namespace

uint64_t own_groups(const Device& device, const GroupPlan& plan) {
    if (plan.slots.words == 0) return 0;
    const uint64_t bytes = device.properties().shared_bytes_per_block_optin - kDenseReservedBytes;
    return bytes / (4ULL * plan.slots.words) & ~1ULL;
}

void aggregate_dense(Device& device, const GroupByRequest& request, const GroupPlan& plan,
                     const NumberedGroups& numbered, const DenseGroups& dense) {
    if (plan.slots.accumulators == 0) return;
    DensePass pass;
    pass.plan = plan.slots;
    pass.row_slots = numbered.row_slots.as<const uint32_t>();
    pass.numbers = numbered.numbers();
    pass.rows = request.rows;
    pass.groups = dense;
    pass.own_groups = static_cast<uint32_t>(std::min(numbered.groups, own_groups(device, plan)));
    pass.own_entries = static_cast<uint32_t>(DenseGroups::entries_for(pass.own_groups));
    count_dense_bytes(device, request, plan, numbered, pass);
    const uint64_t block_rows = static_cast<uint64_t>(kDenseThreads) * kGroupRowsAtOnce;
    launch(aggregate_dense_kernel, grid_over(device, request.rows, block_rows, 1), dim3(kDenseThreads),
           size_t{4} * pass.own_entries * plan.slots.words, device.stream(), pass);
}

}}  // namespace spillway::cuda::grouping
