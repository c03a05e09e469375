// SPDX-License-Identifier: Apache-2.0
#include "memory_model/stream_memory.hpp"

#include "radix_partition/radix_policy.hpp"
#include "row_index/row_index_policy.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace memory_model {

ChunkLayout::ChunkLayout(uint32_t key_bytes, const ColumnWidths& widths, uint64_t rows) {
    validity = column_bytes(key_bytes, rows);
    bytes = validity + column_bytes(1, validity_bytes(rows));
    for (const uint32_t width : widths) {
        columns.push_back(bytes);
        bytes += column_bytes(width, rows);
    }
}

// Every fragment may round its rows up to a group and its words to the alignment. A field never takes more bits than it
// has, but one of 1 or 2 bytes in a padded row takes no more than its own.
uint64_t packed_words_max(uint32_t row_words, uint64_t rows, uint64_t fragments) {
    const uint64_t group_words = static_cast<uint64_t>(row_words) * kGroupRows;
    return (rows / kGroupRows + fragments) * group_words + fragments * kFragmentAlignWords;
}

uint64_t index_scratch_rows(uint64_t partition_rows_max) {
    return partition_rows_max + (static_cast<uint64_t>(kSortPartitions) << kPassBitsMax) * kRegionAlignRows;
}

uint64_t index_buckets_max(uint64_t rows, uint64_t partitions) {
    return rows / 2 + 2 * partitions;
}

// Pieces that do not fill a tile need as many tiles again: each partition of a chunk has such a piece.
uint64_t probe_tiles_max(uint64_t chunk_rows, uint64_t partitions) {
    return chunk_rows / kTileRows + 2 * partitions + 1024;
}

// Twice: the prefix sum has scratch of its own, far less than that.
uint64_t joiner_bytes(uint64_t probe_tiles) {
    return 2 * (probe_tiles * (kTileRows / kGroupRows) + 1) * sizeof(uint64_t);
}

}}  // namespace spillway::cuda::memory_model
