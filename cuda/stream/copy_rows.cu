// SPDX-License-Identifier: Apache-2.0
#include "device/launch.hpp"
#include "device/phase_times.hpp"
#include "primitive/warp.cuh"
#include "stream/copy_rows.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Words as wide as rows are aligned; row_words: of such words.
template <class Word>
__global__ void copy_rows_kernel(const Word* from, Word* to, uint32_t row_words, const RowCopy* copies,
                                 const uint64_t* first_tile, uint64_t count) {
    const uint64_t index = last_not_above<uint64_t>(first_tile, count, blockIdx.x);
    const RowCopy copy = copies[index];
    const uint64_t offset = (blockIdx.x - first_tile[index]) * kTileRows;
    const uint64_t left = copy.rows - offset;
    const uint64_t words = (left < kTileRows ? left : kTileRows) * row_words;
    const Word* const source = from + (copy.from + offset) * row_words;
    Word* const target = to + (copy.to + offset) * row_words;
    for (uint64_t i = threadIdx.x; i < words; i += blockDim.x) target[i] = source[i];
}

}  // namespace

void copy_rows(Device& device, Parcels& parcels, const uint32_t* from, uint32_t* to, uint32_t row_words,
               const std::vector<RowCopy>& copies) {
    std::vector<uint64_t> first_tile;
    first_tile.reserve(copies.size() + 1);
    uint64_t tiles = 0;
    uint64_t rows = 0;
    for (const RowCopy& copy : copies) {
        first_tile.push_back(tiles);
        tiles += (copy.rows + kTileRows - 1) / kTileRows;
        rows += copy.rows;
    }
    first_tile.push_back(tiles);
    if (tiles == 0) return;
    count_moved(device, 2 * rows * row_words * sizeof(uint32_t));
    const auto [sent, tiles_sent] = parcels.send_together(copies, first_tile);
    const dim3 grid(static_cast<unsigned>(tiles));
    const dim3 block(kStreamThreads);
    if (row_words % 4 == 0) {
        launch(copy_rows_kernel<uint4>, grid, block, 0, device.stream(), reinterpret_cast<const uint4*>(from),
               reinterpret_cast<uint4*>(to), row_words / 4, sent, tiles_sent, copies.size());
    } else if (row_words % 2 == 0) {
        launch(copy_rows_kernel<uint2>, grid, block, 0, device.stream(), reinterpret_cast<const uint2*>(from),
               reinterpret_cast<uint2*>(to), row_words / 2, sent, tiles_sent, copies.size());
    } else {
        launch(copy_rows_kernel<uint32_t>, grid, block, 0, device.stream(), from, to, row_words, sent, tiles_sent,
               copies.size());
    }
}

}}  // namespace spillway::cuda::stream
