// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "materialize/materialize_policy.hpp"
#include "materialize/row_list.hpp"
#include "primitive/prefix_sum.hpp"
#include "primitive/warp.cuh"

namespace spillway::cuda { inline namespace materialize {

namespace {

constexpr uint64_t kWordRows = 32;
constexpr uint64_t kListTileRows = kWordRows * kWarpThreads;  // a word per lane of a warp

uint64_t tiles_of(uint64_t rows) {
    return (rows + kListTileRows - 1) / kListTileRows;
}

__device__ uint32_t chosen_rows(const RowBits& bits, uint64_t word) {
    const uint64_t first = word * kWordRows;
    if (first >= bits.rows) return 0;
    const uint32_t value = bits.set ? bits.words[word] : ~bits.words[word];
    const uint64_t left = bits.rows - first;
    return left >= kWordRows ? value : value & ((1U << left) - 1);
}

template <class Body>
__device__ void for_warp_tiles(uint64_t tiles, const Body& body) {
    const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarpThreads);
    for (uint64_t tile = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarpThreads) + warp_index(); tile < tiles;
         tile += warps) {
        body(tile);
    }
}

// Bytes: a bit per row read, 8 written per 1,024 rows; bound by bandwidth.
__global__ void count_chosen(RowBits bits, uint64_t tiles, uint64_t* counts) {
    for_warp_tiles(tiles, [&](uint64_t tile) {
        const auto chosen = static_cast<uint32_t>(__popc(chosen_rows(bits, tile * kWarpThreads + lane_index())));
        const uint32_t sum = warp_inclusive_sum(chosen);
        if (lane_index() == kWarpThreads - 1) counts[tile] = sum;
    });
}

// A bit per row read, a number per chosen row written: the warp goes from word to word, so that neighbours are written
// together.
template <class Number>
__global__ void list_chosen(RowBits bits, uint64_t tiles, const uint64_t* first, Number* rows) {
    for_warp_tiles(tiles, [&](uint64_t tile) {
        const uint32_t mine = chosen_rows(bits, tile * kWarpThreads + lane_index());
        uint64_t place = first[tile];
        for (int word = 0; word < kWarpThreads; ++word) {
            const uint32_t chosen = __shfl_sync(kFullWarp, mine, word);
            if ((chosen >> lane_index() & 1) != 0) {
                rows[place + __popc(chosen & lanes_below())] =
                    static_cast<Number>(tile * kListTileRows + word * kWordRows + lane_index());
            }
            place += __popc(chosen);
        }
    });
}

// Bytes: see mark_rows(); bound by the rate of atomics. A bit that is set already is only read: the atomics of a row
// that comes in many pairs would take turns at its address.
template <class Number>
__global__ void mark_listed(const Number* rows, uint64_t count, uint32_t* marks) {
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
    for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        const uint64_t row = rows[i];
        uint32_t* const word = marks + row / kWordRows;
        const uint32_t bit = 1U << (row % kWordRows);
        if ((__ldcg(word) & bit) == 0) atomicOr(word, bit);
    }
}

struct ChosenCounts {
    uint64_t total = 0;
    Allocation first;  // place of each tile's first chosen row
};

ChosenCounts count_tiles(Device& device, const RowBits& bits) {
    ChosenCounts counts;
    const uint64_t tiles = tiles_of(bits.rows);
    if (tiles == 0) return counts;
    count_moved(device, bits.rows / 8);
    const cudaStream_t stream = device.stream();
    counts.first = device.memory().allocate((tiles + 1) * sizeof(uint64_t), "chosen rows");
    auto* const first = counts.first.as<uint64_t>();
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(first + tiles, 0, sizeof(uint64_t), stream));
    launch(count_chosen,
           grid_over(device, tiles, kMaterializeThreads / kWarpThreads, kMaterializeBlocksPerMultiprocessor),
           dim3(kMaterializeThreads), 0, stream, bits, tiles, first);
    exclusive_sum(device, first, tiles + 1);
    SPILLWAY_CUDA_CHECK(
        cudaMemcpyAsync(&counts.total, first + tiles, sizeof counts.total, cudaMemcpyDeviceToHost, stream));
    device.synchronize();
    return counts;
}

}  // namespace

uint64_t count_rows(Device& device, const RowBits& bits) {
    return count_tiles(device, bits).total;
}

RowList list_rows(Device& device, const RowBits& bits, uint32_t width) {
    if (width != 4 && width != 8) throw Error(ErrorCode::kInvalid, "row numbers have 4 or 8 bytes");
    const ChosenCounts counts = count_tiles(device, bits);
    RowList list;
    list.count = counts.total;
    list.width = width;
    list.of_rows = bits.rows;
    if (list.count == 0) return list;
    list.rows = device.memory().allocate(list.count * width, "chosen rows");
    count_moved(device, bits.rows / 8 + list.count * width);
    const uint64_t tiles = tiles_of(bits.rows);
    const auto* const first = counts.first.as<const uint64_t>();
    const dim3 grid = grid_over(device, tiles, kMaterializeThreads / kWarpThreads, kMaterializeBlocksPerMultiprocessor);
    if (width == 4) {
        launch(list_chosen<uint32_t>, grid, dim3(kMaterializeThreads), 0, device.stream(), bits, tiles, first,
               list.rows.as<uint32_t>());
    } else {
        launch(list_chosen<uint64_t>, grid, dim3(kMaterializeThreads), 0, device.stream(), bits, tiles, first,
               list.rows.as<uint64_t>());
    }
    return list;
}

void mark_rows(Device& device, const RowNumbers& rows, uint32_t* marks) {
    count_moved(device, rows.count * rows.width + 2 * sector_bytes(device, rows.count, sizeof(uint32_t),
                                                                   rows.of_rows / 8, rows.rises ? 1 : kAnyOrder));
    const dim3 grid = grid_over(device, rows.count, kMaterializeThreads, kMaterializeBlocksPerMultiprocessor);
    if (rows.width == 4) {
        launch(mark_listed<uint32_t>, grid, dim3(kMaterializeThreads), 0, device.stream(),
               static_cast<const uint32_t*>(rows.rows), rows.count, marks);
    } else {
        launch(mark_listed<uint64_t>, grid, dim3(kMaterializeThreads), 0, device.stream(),
               static_cast<const uint64_t*>(rows.rows), rows.count, marks);
    }
}

}}  // namespace spillway::cuda::materialize
