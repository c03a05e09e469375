// SPDX-License-Identifier: Apache-2.0
#include "radix_partition/tile_size.hpp"

#include <algorithm>

#include "api/error.hpp"
#include "api/stream_spec.hpp"
#include "radix_partition/radix_policy.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

namespace {

struct Pass {
    uint64_t row_bytes;
    uint64_t left_bytes;  // for rows that tiles leave over, and what aligns runs
    uint64_t taken_bytes;
    uint64_t most;  // rows of a tile

    Pass(int row_words, int bits_max)
        : row_bytes(4ULL * static_cast<uint64_t>(row_words)),
          left_bytes((static_cast<uint64_t>(store_group_size(row_words) + run_alignment(row_words) - 2) << bits_max) *
                     row_bytes),
          taken_bytes(scatter_reserved_bytes(bits_max) + left_bytes),
          most(static_cast<uint64_t>(kScatterThreads) * static_cast<uint64_t>(scatter_items(row_words, bits_max))) {}

    // Rows that a block has room for, staged and sorted.
    uint64_t fit(const GpuFacts& gpu, uint32_t blocks) const {
        const uint64_t shared =
            std::min(gpu.shared_bytes_per_block_optin, gpu.shared_bytes_per_multiprocessor / blocks);
        return shared > taken_bytes ? (shared - taken_bytes) / (2 * row_bytes) : 0;
    }
};

// Tiles of wide rows are not sorted: they stand there once, with a word for each row that says where it goes.
TileSize wide_tile_size(const GpuFacts& gpu, int row_words) {
    const uint64_t row_bytes = 4ULL * (wide_row_stride(static_cast<uint32_t>(row_words)) + 1);
    const uint64_t shared =
        std::min(gpu.shared_bytes_per_block_optin, gpu.shared_bytes_per_multiprocessor / kScatterBlocks);
    const uint64_t fit = shared > kWideReservedBytes ? (shared - kWideReservedBytes) / row_bytes : 0;
    TileSize size;
    size.blocks = kScatterBlocks;
    size.rows = static_cast<uint32_t>(std::min<uint64_t>(fit, kWideTileRows) / kTileRowsStep * kTileRowsStep);
    size.shared_bytes = static_cast<uint32_t>(size.rows * row_bytes);
    if (size.rows == 0) throw Error(ErrorCode::kInternal, "too little shared memory for a partition pass");
    return size;
}

}  // namespace

TileSize tile_size(const GpuFacts& gpu, int row_words, int bits_max) {
    if (row_words > kRowWordsMax) return wide_tile_size(gpu, row_words);
    const Pass pass(row_words, bits_max);
    TileSize size;
    size.blocks = kScatterBlocks;
    while (size.blocks > 1 && pass.fit(gpu, size.blocks) < pass.most) --size.blocks;
    const uint64_t fit = std::min(pass.fit(gpu, size.blocks), pass.most);
    size.rows = static_cast<uint32_t>(fit / kTileRowsStep * kTileRowsStep);
    size.shared_bytes = static_cast<uint32_t>(2 * size.rows * pass.row_bytes + pass.left_bytes);
    // Threads read as many rows as they have registers for, whether there or not (tile_rows.cuh).
    if (size.rows == 0 || size.shared_bytes < pass.most * pass.row_bytes) {
        throw Error(ErrorCode::kInternal, "too little shared memory for a partition pass");
    }
    return size;
}

int pass_bits_max(const GpuFacts& gpu, int row_words) {
    if (row_words > kRowWordsMax) return kPassBitsMax;
    const Pass pass(row_words, kPassBitsMax);
    return pass.fit(gpu, 1) < pass.most / 2 ? kFewBits : kPassBitsMax;
}

}}  // namespace spillway::cuda::radix_partitioning
