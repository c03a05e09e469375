// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda {

TileSize tile_size(const DeviceProperties& properties, int row_words, int bits_max) {
    const uint64_t row_bytes = 4ULL * static_cast<uint64_t>(row_words);
    const auto per_digit = static_cast<uint64_t>(store_group_size(row_words) + run_alignment(row_words) - 2);
    const uint64_t left_bytes = (per_digit << bits_max) * row_bytes;
    const uint64_t most =
        static_cast<uint64_t>(kScatterThreads) * static_cast<uint64_t>(scatter_items(row_words, bits_max));
    TileSize size;
    for (size.blocks = kScatterBlocks;; --size.blocks) {
        const uint64_t shared =
            std::min(properties.shared_bytes_per_block_optin, properties.shared_bytes_per_multiprocessor / size.blocks);
        const uint64_t taken = scatter_reserved_bytes(bits_max) + left_bytes;
        const uint64_t fit = shared > taken ? (shared - taken) / (2 * row_bytes) : 0;
        // Blocks of less than half of a tile would read behind it (tile_rows.cuh).
        if (fit < most && size.blocks > 1) continue;
        if (fit < most / 2) throw Error(ErrorCode::kInternal, "too little shared memory for a partition pass");
        size.rows = static_cast<uint32_t>(std::min(fit, most) / kTileRowsStep * kTileRowsStep);
        size.shared_bytes = static_cast<uint32_t>(2 * size.rows * row_bytes + left_bytes);
        return size;
    }
}

}  // namespace spillway::cuda
