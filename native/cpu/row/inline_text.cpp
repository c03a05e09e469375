// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/inline_text.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "base/load.hpp"

namespace spillway {

namespace {

constexpr uint32_t kWordsMax = kInlineWidthMax / 8;
constexpr uint64_t kBytesMax = kInlineWidthMax;

// The mask of the first n bytes of a string begins kBytesMax - n bytes behind the first one.
constexpr std::array<uint8_t, 2 * kBytesMax> kMasks = [] {
    std::array<uint8_t, 2 * kBytesMax> masks{};
    std::fill_n(masks.begin(), kBytesMax, uint8_t{0xff});
    return masks;
}();

// Strings between offsets. Those of NULL rows may be anything.
template <class Offset>
struct OffsetStrings {
    explicit OffsetStrings(const ColumnView& view)
        : offsets(view.offsets),
          base(view.offset_base),
          data(view.data),
          end(view.data + (load<Offset>(view.offsets, view.length) - base)) {}
    ByteString operator()(int64_t row) const {
        const auto begin = load<Offset>(offsets, row);
        return {data + (begin - base), static_cast<uint64_t>(load<Offset>(offsets, row + 1) - begin)};
    }
    // How many bytes from there on are memory of the column.
    uint64_t readable(const uint8_t* bytes) const { return static_cast<uint64_t>(end - bytes); }

    const uint8_t* const offsets;
    const int64_t base;
    const uint8_t* const data;
    const uint8_t* const end;
};

struct ViewStrings {
    explicit ViewStrings(const ColumnView& view) : view(view) {}
    ByteString operator()(int64_t row) const { return byte_string(view, row); }
    uint64_t readable(const uint8_t*) const { return 0; }  // where its buffer ends, the view does not tell

    const ColumnView& view;
};

// put(i, bytes, length) for every string, NULL as an empty one: kWords words can be read from `bytes` on, of which
// those behind the length are no part of it. Returns the greatest length; `put` gets no greater one than those words
// have.
template <uint32_t kWords, class Strings, class Put>
uint64_t for_each_string(const Strings& strings, const ColumnView& view, const RowSelection& selection, Put&& put) {
    constexpr uint64_t kRead = kWords * 8;
    const uint8_t* const validity = view.validity;
    uint64_t longest = 0;
    uint8_t copy[kRead];
    for (int64_t i = 0; i < selection.count; ++i) {
        const int64_t row = selection[i];
        if (validity != nullptr && !get_bit(validity, view.validity_bit + row)) {
            put(i, kMasks.data() + kBytesMax, 0);
            continue;
        }
        ByteString string = strings(row);
        longest = std::max(longest, string.length);
        const uint64_t length = std::min(string.length, kRead);
        if (strings.readable(string.bytes) < kRead) {
            std::memset(copy, 0, kRead);
            if (length > 0) std::memcpy(copy, string.bytes, length);
            string.bytes = copy;
        }
        put(i, string.bytes, length);
    }
    return longest;
}

uint64_t masked_word(const uint8_t* bytes, uint64_t length, uint64_t at) {
    return load<uint64_t>(bytes + at) & load<uint64_t>(kMasks.data() + kBytesMax - length + at);
}

// Writes exactly `width` bytes, of which kWords words are the first that hold all.
template <uint32_t kWords>
void put_bytes(const uint8_t* bytes, uint64_t length, uint32_t width, uint8_t* out) {
    if constexpr (kWords == 1) {
        const uint64_t word = masked_word(bytes, length, 0) | length << (8 * (width - 1));
        if (width == 8) {
            std::memcpy(out, &word, 8);
        } else if (width >= 4) {
            const uint64_t last = word >> (8 * (width - 4));
            std::memcpy(out, &word, 4);
            std::memcpy(out + width - 4, &last, 4);
        } else {
            for (uint32_t at = 0; at < width; ++at) out[at] = static_cast<uint8_t>(word >> (8 * at));
        }
    } else {
        for (uint32_t word = 0; word + 1 < kWords; ++word) {
            const uint64_t value = masked_word(bytes, length, word * 8);
            std::memcpy(out + word * 8, &value, 8);
        }
        const uint64_t last = masked_word(bytes, length, width - 8) | length << 56;
        std::memcpy(out + width - 8, &last, 8);
    }
}

template <class Strings>
uint64_t encode_words(const Strings& strings, const ColumnView& view, const RowSelection& selection, uint32_t width,
                      uint64_t* words) {
    const uint32_t shift = 8 * (width - 1);
    return for_each_string<1>(strings, view, selection, [=](int64_t i, const uint8_t* bytes, uint64_t length) {
        words[i] = masked_word(bytes, length, 0) | length << shift;
    });
}

template <uint32_t kWords, class Strings>
uint64_t encode_bytes(const Strings& strings, const ColumnView& view, const RowSelection& selection, uint32_t width,
                      uint8_t* first_value, uint32_t row_bytes) {
    if constexpr (kWords < kWordsMax) {
        if (width > kWords * 8) {
            return encode_bytes<kWords + 1>(strings, view, selection, width, first_value, row_bytes);
        }
    }
    return for_each_string<kWords>(strings, view, selection, [=](int64_t i, const uint8_t* bytes, uint64_t length) {
        put_bytes<kWords>(bytes, length, width, first_value + i * row_bytes);
    });
}

// encode(strings) for the layout of the view. Throws where a string is longer than was planned.
template <class Encode>
void encode_strings(const ColumnView& view, uint32_t width, Encode&& encode) {
    SPILLWAY_CHECK(width >= 2 && width <= kBytesMax);
    if (view.length == 0) return;
    uint64_t longest = 0;
    if (view.type->layout == Layout::kView) {
        longest = encode(ViewStrings(view));
    } else if (view.type->byte_width == 8) {
        longest = encode(OffsetStrings<int64_t>(view));
    } else {
        longest = encode(OffsetStrings<int32_t>(view));
    }
    if (longest < width) return;
    throw Error(ErrorCode::kInvalidArgument,
                "a value of column '" + view.type->name + "' has " + std::to_string(longest) +
                    " bytes, more than the " + std::to_string(width - 1) +
                    " that its longest one had when the relation was looked at; do not write to the memory of a "
                    "relation while queries read it",
                {{"reason", "longText"}, {"column", view.type->name}});
}

}  // namespace

void inline_words(const ColumnView& view, const RowSelection& selection, uint32_t width, uint64_t* words) {
    SPILLWAY_CHECK(width <= 8);
    encode_strings(view, width,
                   [&](const auto& strings) { return encode_words(strings, view, selection, width, words); });
}

void inline_bytes(const ColumnView& view, const RowSelection& selection, uint32_t width, uint8_t* first_value,
                  uint32_t row_bytes) {
    encode_strings(view, width, [&](const auto& strings) {
        return encode_bytes<1>(strings, view, selection, width, first_value, row_bytes);
    });
}

}  // namespace spillway
