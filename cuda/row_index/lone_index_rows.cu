// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "row_index/lone_index_rows.hpp"
#include "row_index/total.cuh"
#include "stream/write_result.cuh"

namespace spillway::cuda { inline namespace row_index {

namespace {

constexpr uint32_t kWarps = kStreamThreads / kWarpThreads;
constexpr uint32_t kTileGroups = kTileRows / kGroupRows;

// body(row, whether it is wanted, group number) by all lanes of a warp.
template <class Body>
__device__ inline void for_lone_groups(const LonePass& pass, const Body& body) {
    const RowTile tile = row_tile(pass.tiles);
    const uint64_t first = pass.tiles.piece[tile.piece].begin + tile.offset;
    for (uint32_t g = warp_index(); g < kTileGroups && g * kGroupRows < tile.rows; g += kWarps) {
        const uint32_t in_tile = g * kGroupRows + lane_index();
        const uint64_t row = first + in_tile;
        const bool wanted = in_tile < tile.rows && (pass.marks == nullptr || (pass.marks[row] != 0) == pass.marked);
        body(row, wanted, static_cast<uint64_t>(blockIdx.x) * kTileGroups + g);
    }
}

template <int kKeyWords>
__global__ void sum_lone_kernel(LonePass pass, ResultWindow columns, uint64_t* totals) {
    uint64_t sums[kSumColumnsMax] = {};
    uint64_t rows = 0;
    for_lone_groups(pass, [&](uint64_t index, bool wanted, uint64_t) {
        if (!wanted) return;
        ++rows;
        const uint32_t* const row = pass.rows + index * pass.row_words;
#pragma unroll
        for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
            if (c >= static_cast<uint32_t>(columns.columns)) break;
            sums[c] += addend<kKeyWords>(columns.column[c], pass.build_side ? row : nullptr,
                                         pass.build_side ? nullptr : row, pass.has_key);
        }
    });
    add_total(rows, totals);
    for (uint32_t c = 0; c < kSumColumnsMax; ++c) {
        if (c < static_cast<uint32_t>(columns.columns)) add_total(sums[c], totals + 1 + c);
    }
}

__global__ void count_lone_kernel(LonePass pass, uint64_t* group_rows) {
    for_lone_groups(pass, [&](uint64_t, bool wanted, uint64_t group) {
        const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
        if (lane_index() == 0) group_rows[group] = __popc(lanes);
    });
}

template <int kKeyWords>
__global__ void write_lone_kernel(LonePass pass, const uint64_t* first_of_group, ResultWindow window) {
    for_lone_groups(pass, [&](uint64_t index, bool wanted, uint64_t group) {
        const uint32_t lanes = __ballot_sync(kFullWarp, wanted);
        const uint64_t position = first_of_group[group] + __popc(lanes & lanes_below());
        if (!wanted || position < window.first || position >= window.first + window.rows) return;
        const uint32_t* const row = pass.rows + index * pass.row_words;
        write_result<kKeyWords>(window, position - window.first, pass.build_side ? row : nullptr,
                                pass.build_side ? nullptr : row, pass.has_key);
    });
}

dim3 grid_of(const LonePass& pass) {
    return dim3(static_cast<unsigned>(pass.tiles.tiles));
}

}  // namespace

void sum_lone(Device& device, const LonePass& pass, const ResultWindow& columns, uint64_t* totals) {
    launch(columns.key_bytes == 4 ? sum_lone_kernel<1> : sum_lone_kernel<2>, grid_of(pass), dim3(kStreamThreads), 0,
           device.stream(), pass, columns, totals);
}

void count_lone_of_groups(Device& device, const LonePass& pass, uint64_t* group_rows) {
    SPILLWAY_CUDA_CHECK(
        cudaMemsetAsync(group_rows, 0, (pass.tiles.tiles * kTileGroups + 1) * sizeof(uint64_t), device.stream()));
    launch(count_lone_kernel, grid_of(pass), dim3(kStreamThreads), 0, device.stream(), pass, group_rows);
}

void write_lone(Device& device, const LonePass& pass, const uint64_t* first_of_group, const ResultWindow& window) {
    launch(window.key_bytes == 4 ? write_lone_kernel<1> : write_lone_kernel<2>, grid_of(pass), dim3(kStreamThreads), 0,
           device.stream(), pass, first_of_group, window);
}

}}  // namespace spillway::cuda::row_index
