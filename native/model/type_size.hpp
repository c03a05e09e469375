// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "model/column_type.hpp"

namespace spillway {

// What one row may take without its values of variable length: as the engine packs it (RowLayout::row_bytes, a group's
// record), and what one value of a column takes in Arrow memory at least. src/model/sizes.ts has the same number.
//
// Derived from numbers of 32 bits: a VarRef reaches from the row to its byte strings, of which a row has at most 2 GiB
// (RowEncoder), and a page counts both together. 1 GiB leaves a quarter of these 4 GiB for rounding. Products with
// numbers of rows are of 64 bits: they would take 2^34 rows of this size to wrap.
inline constexpr uint64_t kRowBytesMax = uint64_t{1} << 30;

// The least bits that one value of this type takes in Arrow memory when each of its lists of variable size has one item
// at most: validity, values, offsets, and all items of fixed-size lists. Saturates.
uint64_t row_bits(const ColumnType& type);

// Bytes of a value where each of the type has as many, a bool one of its own; 0 for NULLs, and where they differ.
uint64_t fixed_value_bytes(const ColumnType& type);

// Throws kUnsupportedType, naming `column` (that which the type is of, or lies in) and the bytes, for a type of which a
// single row cannot be held, and for unions without members, which no row can have.
void check_row_size(const ColumnType& type, const std::string& column);

}  // namespace spillway
