// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "device/gpu_out_of_core.hpp"
#include "model/column_type.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// How long a cancelled job may go unnoticed by those who wait, where nobody wakes them.
constexpr std::chrono::milliseconds kOutOfCorePoll{50};

// Columns in pinned memory begin at multiples of this.
constexpr uint64_t kPinnedColumnAlign = 256;
constexpr uint64_t pinned_column_bytes(uint64_t bytes) {
    return (bytes + kPinnedColumnAlign - 1) / kPinnedColumnAlign * kPinnedColumnAlign;
}

// Which 32 bits of a value of 64 bits.
enum class ChunkPart : uint8_t { kWhole, kLow, kHigh };
// What stands for NULL: nothing in particular, or what changes no sum, no maximum, no minimum.
enum class ChunkFill : uint8_t { kNone, kZero, kLeast, kLargest };

// A column of a chunk: the values of a source's column (bools as bytes), or a byte per row that says whether there is
// one.
struct ChunkColumn {
    int32_t column = 0;
    bool validity = false;
    ChunkPart part = ChunkPart::kWhole;
    ChunkFill fill = ChunkFill::kNone;
};

// How the rows of a source become those of one side. The keys' normalized values lie one behind the other in a word;
// a row with a NULL among them has no key. Without keys all words are 0.
struct OutOfCoreSide {
    std::vector<KeySpec> keys;
    std::vector<ChunkColumn> columns;
    // Byte of the word with a bit per key, 1 = NULL: then every row has a key. -1: there is none.
    int32_t null_byte = -1;
};

// One place from which the value of a result column may come.
struct ResultPart {
    int32_t value = 0;      // output column of the GPU ...
    uint32_t offset = 0;    // ... and byte of it where the value begins: parts of a key
    int32_t validity = -1;  // output column with a byte that is 0 for NULL; -1: never NULL
    uint8_t mask = 0;       // bits of the presence byte that have to be set for the part to count
};

// The first part whose bits are set; none: NULL.
struct ResultColumn {
    TypePtr type;
    std::vector<ResultPart> parts;
};

struct OutOfCoreStage {
    GpuOutOfCoreSpec join;
    OutOfCoreSide sides[2];
    std::vector<ResultColumn> columns;
    int32_t presence = -1;  // output column with the presence byte; -1: all bits are always set
    int32_t workers = 1;    // that fill chunks, and as many that deliver rows
};

// Bytes of a value in a chunk and in the rows of the GPU; 0 for types that cannot be there.
uint32_t chunk_width(const ColumnType& type);
// Of such a column of a source's column of that type.
uint32_t chunk_width(const ChunkColumn& column, const ColumnType& type);

}  // namespace spillway
