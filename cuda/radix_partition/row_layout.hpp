// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "api/error.hpp"
#include "api/stream_spec.hpp"

namespace spillway::cuda { inline namespace radix_partitioning {

// Columns packed into rows of 32-bit words: [mixed key: 1 or 2 words][fields, widest first], padded to whole words. A
// gather of a whole row costs one memory sector of 32 bytes, as much as that of one 4-byte column, and a row is moved
// by one address where columns need one each.
struct RowLayout {
    uint32_t row_words = 1;
    uint32_t key_words = 1;
    std::vector<uint32_t> widths;   // of the fields, in the caller's order: 1, 2, 4, 8 or 16 bytes
    std::vector<uint32_t> offsets;  // in bytes; multiples of min(width, 4)
    // Words of the first fields that belong to the key, too, and where they begin.
    uint32_t more_words = 0;
    uint32_t more_at = 0;

    uint32_t row_bytes() const { return row_words * 4; }
    // The first `count` fields, of 8 bytes each, are compared beside the key. Throws kInvalid if they are none.
    RowLayout with_key_columns(uint32_t count) const {
        const auto eight = [](uint32_t width) { return width == 8; };
        const auto all = widths.begin();
        if (count > widths.size() || !std::all_of(all, all + count, eight) || (count > 0 && key_words != 2)) {
            throw Error(ErrorCode::kInvalid, "keys of more than 8 bytes go on in the first columns, 8 bytes each");
        }
        RowLayout layout = *this;
        layout.more_words = 2 * count;
        // Fields of the same width follow each other in their order.
        if (count > 0) layout.more_at = offsets[0] / 4;
        return layout;
    }
    template <class Widths>
    static uint32_t words_for(uint32_t key_bytes, const Widths& widths) {
        const uint32_t bytes = std::accumulate(widths.begin(), widths.end(), key_bytes);
        return (bytes + 3) / 4;
    }
    // Throws kInvalid for widths that do not exist and for rows of more than so many words.
    template <class Widths>
    static RowLayout make(uint32_t key_bytes, const Widths& widths, int row_words_max = kRowWordsMax) {
        return make(key_bytes, std::vector<uint32_t>(widths.begin(), widths.end()), row_words_max);
    }
    static RowLayout make(uint32_t key_bytes, const std::vector<uint32_t>& widths, int row_words_max = kRowWordsMax) {
        if (!is_key_width(key_bytes)) throw Error(ErrorCode::kInvalid, "keys of rows have 4 or 8 bytes");
        RowLayout layout;
        layout.key_words = key_bytes / 4;
        layout.row_words = words_for(key_bytes, widths);
        layout.widths = widths;
        layout.offsets.resize(widths.size());
        const auto words_max = static_cast<uint32_t>(row_words_max);
        if (layout.row_words > words_max || widths.size() > static_cast<size_t>(kRowColumnsMax)) {
            throw Error(ErrorCode::kInvalid,
                        "rows of more than " + std::to_string(4 * words_max) + " bytes; carry row numbers instead");
        }
        std::vector<size_t> order(widths.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return widths[a] > widths[b]; });
        uint32_t at = key_bytes;
        for (const size_t field : order) {
            const uint32_t width = widths[field];
            if (!is_value_width(width)) {
                throw Error(ErrorCode::kInvalid, "fields of rows have 1, 2, 4, 8 or 16 bytes");
            }
            layout.offsets[field] = at;
            at += width;
        }
        return layout;
    }
};

}}  // namespace spillway::cuda::radix_partitioning
