// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "cpu/row/key_normalizer.hpp"
#include "model/column_view.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// Byte strings that lie in a row themselves: at most `width` - 1 bytes, then zeros, then their number in the last byte.
// Equal strings have equal bytes whatever bytes they are of, as the number tells zeros at their end from those behind.

// Strings of a kBinary or kView column as words, width <= 8; NULL gives 0. Throws `too_long` for a longer one.
void inline_words(const ColumnView& view, const RowSelection& selection, uint32_t width, uint64_t* words);
// Strings of any width written to rows that are row_bytes apart; NULL gives zeros. Nothing beside them is written.
void inline_bytes(const ColumnView& view, const RowSelection& selection, uint32_t width, uint8_t* first_value,
                  uint32_t row_bytes);

// The string in such bytes.
inline ByteString inline_string(const uint8_t* value, uint32_t width) {
    return {value, value[width - 1]};
}

// Copies the string to `out`, where `width` bytes are written whatever its length is, which is returned.
inline uint32_t copy_inline(const uint8_t* value, uint32_t width, uint8_t* out) {
    if (width >= 8) {
        for (uint32_t at = 0; at + 8 < width; at += 8) std::memcpy(out + at, value + at, 8);
        std::memcpy(out + width - 8, value + width - 8, 8);
    } else if (width >= 4) {
        std::memcpy(out, value, 4);
        std::memcpy(out + width - 4, value + width - 4, 4);
    } else {
        for (uint32_t at = 0; at < width; ++at) out[at] = value[at];
    }
    return value[width - 1];
}

}  // namespace spillway
