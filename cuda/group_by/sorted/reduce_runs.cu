// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/reduce_runs.cuh"
#include "group_by/sorted/reduce_runs.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr unsigned kThreads = 256;

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
    const uint64_t blocks = (runs.groups + kThreads - 1) / kThreads;
    const uint64_t most = 16ULL * static_cast<uint64_t>(device.properties().multiprocessors);
    launch(fill_runs_kernel, dim3(static_cast<unsigned>(std::min(blocks, most))), dim3(kThreads), 0, device.stream(),
           pass);
}

}}  // namespace spillway::cuda::grouping
