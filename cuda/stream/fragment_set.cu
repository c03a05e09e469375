// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "stream/fragment_set.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

uint8_t bits_of(uint64_t difference) {
    uint8_t bits = 0;
    while (difference != 0) {
        ++bits;
        difference >>= 1;
    }
    return bits;
}

uint64_t aligned(uint64_t words) {
    return (words + kFragmentAlignWords - 1) / kFragmentAlignWords * kFragmentAlignWords;
}

}  // namespace

CodeLayout CodeLayout::make(const RowLayout& rows, int radix_bits) {
    CodeLayout layout;
    layout.row_words = rows.row_words;
    layout.key_words = rows.key_words;
    layout.radix_bits = static_cast<uint32_t>(radix_bits);
    uint32_t used_bytes = rows.key_words * 4;
    layout.field[layout.fields++] = {0, static_cast<uint8_t>(used_bytes)};
    for (size_t column = 0; column < rows.widths.size(); ++column) {
        const auto offset = static_cast<uint8_t>(rows.offsets[column]);
        const auto width = static_cast<uint8_t>(std::min(rows.widths[column], 8U));
        for (uint32_t at = 0; at < rows.widths[column]; at += width) {
            layout.field[layout.fields++] = {static_cast<uint8_t>(offset + at), width};
        }
        used_bytes += rows.widths[column];
    }
    layout.padded = used_bytes < rows.row_bytes() ? 1 : 0;
    return layout;
}

void FragmentSet::add(const CodeLayout& layout, const RowPiece& piece, const FieldExtremes* extremes) {
    fields = layout.fields;
    uint32_t in_group = 0;
    for (uint32_t f = 0; f < layout.fields; ++f) {
        const bool none = extremes[f].least > extremes[f].greatest;
        uint8_t width = none ? uint8_t{0} : bits_of(extremes[f].greatest - extremes[f].least);
        uint64_t least = none ? 0 : extremes[f].least;
        uint8_t flag = 0;
        if (layout.packed == 0) {
            width = static_cast<uint8_t>(layout.field[f].width * 8);
            least = 0;
        } else if (f == 0) {
            const auto mixed_bits = static_cast<uint8_t>(layout.key_words * 32 - layout.radix_bits);
            if (mixed_bits < width) {
                width = mixed_bits;
                least = 0;
                flag = kKeyMixed;
            }
        }
        bits.push_back(static_cast<uint8_t>(width | flag));
        base.push_back(least);
        in_group += width;
    }
    const uint64_t groups = (piece.rows + kGroupRows - 1) / kGroupRows;
    pieces.push_back(piece);
    first_word.push_back(words);
    group_words.push_back(in_group);
    words += aligned(groups * in_group);
}

void FragmentSet::add(const FragmentSet& other, size_t from, uint64_t at, uint64_t begin) {
    fields = other.fields;
    pieces.push_back({begin, other.pieces[from].rows, other.pieces[from].partition});
    first_word.push_back(at);
    group_words.push_back(other.group_words[from]);
    const auto first = static_cast<std::ptrdiff_t>(from * fields);
    const auto last = static_cast<std::ptrdiff_t>((from + 1) * fields);
    bits.insert(bits.end(), other.bits.begin() + first, other.bits.begin() + last);
    base.insert(base.end(), other.base.begin() + first, other.base.begin() + last);
    words = std::max(words, at + other.end_word(from) - other.first_word[from]);
}

}}  // namespace spillway::cuda::stream
