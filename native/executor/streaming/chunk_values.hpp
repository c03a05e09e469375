// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "executor/streaming/join_spec.hpp"
#include "model/column_view.hpp"

namespace spillway {

// What stands for NULL in such a part of a column, of so many bytes, in as many low bits; 0 where nothing in particular
// does.
uint64_t fill_bits(const ColumnType& type, ChunkPart part, uint32_t width, ChunkFill fill);

// Values of a column, or a part of each, one after the other as they lie in a chunk.
void write_chunk_values(const ColumnView& view, const ChunkColumn& column, uint64_t rows, uint8_t* out);

}  // namespace spillway
