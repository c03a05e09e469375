// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "api/stream_spec.hpp"

// What the parts of operators beyond GPU memory take of it. Without any CUDA: planners ask before there is a GPU.
namespace spillway::cuda { inline namespace memory_model {

// Columns of chunks and of results begin at multiples of this many bytes in their buffers.
constexpr uint64_t kColumnAlignBytes = 256;
constexpr uint64_t column_bytes(uint64_t width, uint64_t rows) {
    return (rows * width + kColumnAlignBytes - 1) / kColumnAlignBytes * kColumnAlignBytes;
}
constexpr uint64_t validity_bytes(uint64_t rows) {
    return (rows + 31) / 32 * sizeof(uint32_t);
}

// Chunks, and blocks of result rows, that the host has in pinned memory beside as many as the operator has slots: it
// fills or delivers them while copy engines are busy with the others.
constexpr uint32_t kHostSlots = 2;

// Where the columns of a chunk lie in a slot of the ring: key, validity, the others.
struct ChunkLayout {
    ChunkLayout(uint32_t key_bytes, const ColumnWidths& widths, uint64_t rows);

    uint64_t validity = 0;
    FixedList<uint64_t, kRowColumnsMax> columns;
    uint64_t bytes = 0;
};

template <class Widths>
uint64_t result_bytes(const Widths& widths, uint64_t rows) {
    uint64_t bytes = 0;
    for (const uint32_t width : widths) bytes += column_bytes(width, rows);
    return bytes;
}

// Fields of a packed row: the key and the columns; 16 bytes are two fields of 8.
constexpr uint32_t kCodeFieldsMax = 1 + kRowColumnsMax;

// Elements of lists and directories in device memory; the rooms that have them hold their types to these.
constexpr uint64_t kFieldExtremesBytes = 16;
constexpr uint64_t kIndexedPartitionBytes = 24;
constexpr uint64_t kRowPieceBytes = 24;
constexpr uint64_t kRowCopyBytes = 24;

// Counters of an index, for each of 2^8 regions of a partition.
constexpr uint64_t kIndexCounterBytes = 5 * sizeof(uint64_t);

// Words that so many rows in so many packed fragments take at most.
uint64_t packed_words_max(uint32_t row_words, uint64_t rows, uint64_t fragments);

// Rows of the scratch that an index of so many build rows is sorted by, and offsets of its buckets.
uint64_t index_scratch_rows(uint64_t partition_rows_max);
uint64_t index_buckets_max(uint64_t rows, uint64_t partitions);

// Tiles of a chunk of probe rows at most, and what their places in the result take.
uint64_t probe_tiles_max(uint64_t chunk_rows, uint64_t partitions);
uint64_t joiner_bytes(uint64_t probe_tiles);

}}  // namespace spillway::cuda::memory_model
