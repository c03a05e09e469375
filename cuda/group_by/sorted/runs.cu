// SPDX-License-Identifier: Apache-2.0
// Bytes: the sorted keys and a bit per row to find where runs begin, that bit again and 8 bytes per group to list them,
// a random access and a key per group to copy keys, in the order of rows.
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/published.hpp"
#include "device/sector_bytes.hpp"
#include "group_by/sorted/run_tiles.cuh"
#include "group_by/sorted/runs.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "radix_partition/plan_regions.hpp"

namespace spillway::cuda { inline namespace grouping {

namespace {

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
    const dim3 grid = grid_over(device, runs.groups, kSortedThreads, 16);
    if (sorted_keys.width == 4) {
        launch(copy_run_keys<uint32_t>, grid, dim3(kSortedThreads), 0, device.stream(),
               static_cast<const uint32_t*>(sorted_keys.data), runs.begin.as<const uint64_t>(), runs.groups,
               static_cast<uint32_t*>(keys));
    } else {
        launch(copy_run_keys<uint64_t>, grid, dim3(kSortedThreads), 0, device.stream(),
               static_cast<const uint64_t*>(sorted_keys.data), runs.begin.as<const uint64_t>(), runs.groups,
               static_cast<uint64_t*>(keys));
    }
}

}}  // namespace spillway::cuda::grouping
