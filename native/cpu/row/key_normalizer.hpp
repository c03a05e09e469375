// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "model/column_view.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// The rows of a morsel that one encode step works on: row i is view row rows[i], or begin + i when rows is null.
struct RowSelection {
    int64_t begin = 0;
    const int64_t* rows = nullptr;
    int64_t count = 0;
    int64_t operator[](int64_t i) const { return rows == nullptr ? begin + i : rows[i]; }
};

// Are the values of the column their own normalized words, as 8-byte integers are?
inline bool are_own_words(const KeyPart& part) {
    return part.spec.kind == KeyKind::kInteger && part.spec.width == 8 && part.type->layout == Layout::kFixed &&
           part.type->byte_width == 8;
}

// The signed value of a normalized integer key of `width` bytes.
inline int64_t integer_key(uint64_t word, int32_t width) {
    const uint32_t shift = 64 - 8 * static_cast<uint32_t>(width);
    return static_cast<int64_t>(word << shift) >> shift;
}

// Normalized key values of at most 8 bytes, zero-extended to 64 bits; NULL rows give 0.
void normalize_words(const KeyPart& part, const ColumnView& view, const RowSelection& selection, uint64_t* words);

// Normalized key values of any fixed width written to row_bytes-strided rows; NULL rows give zeros.
void normalize_bytes(const KeyPart& part, const ColumnView& view, const RowSelection& selection, uint8_t* first_value,
                     uint32_t row_bytes);

// Byte string of one row of a kBinary / kView column.
struct ByteString {
    const uint8_t* bytes;
    uint64_t length;
};
ByteString byte_string(const ColumnView& view, int64_t row);

// The value of a kFixedBytes key wider than 8 bytes in a row where it is not NULL, decoded.
const uint8_t* fixed_key(const KeyPart& part, const ColumnView& view, int64_t row);
// Byte-string key of one row, dictionaries decoded; NULL gives an empty string.
ByteString key_byte_string(const KeyPart& part, const ColumnView& view, int64_t row);

}  // namespace spillway
