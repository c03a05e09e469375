// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/reduce_runs.cuh"
#include "group_by/sorted/run_tiles.cuh"
#include "group_by/sorted/runs.hpp"
#include "radix_partition/plan_regions.hpp"

// Bytes: the sorted keys and a bit per row to find where runs begin, that bit again and 8 bytes per group to list them,
// a random access and a key per group to copy keys, in the order of rows.
namespace spillway::cuda { inline namespace grouping {

namespace {

constexpr unsigned kThreads = 256;

// counts: runs that begin in each tile.
template <class Key>
__global__ void __launch_bounds__(kRunThreads)
    mark_heads(const Key* keys, uint64_t rows, uint8_t* heads, uint64_t* counts) {
    __shared__ uint32_t warp_sums[kRunWarps];
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * kRunTileRows + threadIdx.x * kRunItems;
    Key own[kRunItems];
    load_items(keys, row, rows, own);
    Key before = row > 0 && row < rows ? keys[row - 1] : 0;
    uint32_t flags = row == 0 ? 1 : 0;
#pragma unroll
    for (int i = 0; i < kRunItems; ++i) {
        if (own[i] != before) flags |= 1U << i;
        before = own[i];
    }
    flags &= rows_there(row, rows);
    heads[static_cast<uint64_t>(blockIdx.x) * kRunThreads + threadIdx.x] = static_cast<uint8_t>(flags);
    const uint32_t own_heads = __popc(flags);
    const uint32_t heads_before = block_exclusive_sum(own_heads, warp_sums);
    if (threadIdx.x == kRunThreads - 1) counts[blockIdx.x] = heads_before + own_heads;
}

__global__ void __launch_bounds__(kRunThreads)
    list_runs(const uint8_t* heads, const uint64_t* tile_runs, uint64_t rows, uint64_t groups, uint64_t* begin) {
    __shared__ uint32_t warp_sums[kRunWarps];
    const uint32_t flags = heads[static_cast<uint64_t>(blockIdx.x) * kRunThreads + threadIdx.x];
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * kRunTileRows + threadIdx.x * kRunItems;
    uint64_t run = tile_runs[blockIdx.x] + block_exclusive_sum(__popc(flags), warp_sums);
#pragma unroll
    for (int i = 0; i < kRunItems; ++i) {
        if ((flags >> i & 1) != 0) begin[run++] = row + i;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) begin[groups] = rows;
}

template <class Key>
__global__ void copy_run_keys(const Key* sorted, const uint64_t* begin, uint64_t groups, Key* keys) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t run = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; run < groups; run += step) {
        keys[run] = sorted[begin[run]];
    }
}

}  // namespace

Runs find_runs(Device& device, const DeviceColumn& sorted_keys, uint64_t rows) {
    const cudaStream_t stream = device.stream();
    MemoryPool& memory = device.memory();
    Runs runs;
    runs.rows = rows;
    const uint64_t tiles = runs.tiles();
    const dim3 grid(static_cast<unsigned>(tiles));
    runs.heads = memory.allocate(tiles * kRunThreads, "where groups begin");
    const Allocation counts = memory.allocate(tiles * sizeof(uint64_t), "where groups begin");
    if (sorted_keys.width == 4) {
        launch(mark_heads<uint32_t>, grid, dim3(kRunThreads), 0, stream, static_cast<const uint32_t*>(sorted_keys.data),
               rows, runs.heads.as<uint8_t>(), counts.as<uint64_t>());
    } else {
        launch(mark_heads<uint64_t>, grid, dim3(kRunThreads), 0, stream, static_cast<const uint64_t*>(sorted_keys.data),
               rows, runs.heads.as<uint8_t>(), counts.as<uint64_t>());
    }
    runs.tile_runs = first_tiles(device, counts.as<const uint64_t>(), tiles, 1);
    runs.groups = read_published<uint64_t>(device, runs.tile_runs.as<const uint64_t>() + tiles);
    // The keys; a bit per row written and read; where groups begin.
    count_moved(device, rows * sorted_keys.width + 2 * (rows / 8) + runs.groups * sizeof(uint64_t));
    runs.begin = memory.allocate((runs.groups + 1) * sizeof(uint64_t), "where groups begin");
    launch(list_runs, grid, dim3(kRunThreads), 0, stream, runs.heads.as<const uint8_t>(),
           runs.tile_runs.as<const uint64_t>(), rows, runs.groups, runs.begin.as<uint64_t>());
    return runs;
}

void write_run_keys(Device& device, const Runs& runs, const DeviceColumn& sorted_keys, void* keys) {
    const uint64_t width = sorted_keys.width;
    count_moved(device, runs.groups * (sizeof(uint64_t) + width) +
                            sector_bytes(device, runs.groups, width, runs.rows * width, 1));
    const uint64_t blocks = (runs.groups + kThreads - 1) / kThreads;
    const uint64_t most = 16ULL * static_cast<uint64_t>(device.properties().multiprocessors);
    const dim3 grid(static_cast<unsigned>(std::min(blocks, most)));
    if (sorted_keys.width == 4) {
        launch(copy_run_keys<uint32_t>, grid, dim3(kThreads), 0, device.stream(),
               static_cast<const uint32_t*>(sorted_keys.data), runs.begin.as<const uint64_t>(), runs.groups,
               static_cast<uint32_t*>(keys));
    } else {
        launch(copy_run_keys<uint64_t>, grid, dim3(kThreads), 0, device.stream(),
               static_cast<const uint64_t*>(sorted_keys.data), runs.begin.as<const uint64_t>(), runs.groups,
               static_cast<uint64_t*>(keys));
    }
}

namespace {

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
