// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/text_numbers.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "executor/streaming/text_words.hpp"

namespace spillway {

namespace {

// Texts of no more bytes have a place each: the empty one, 256 of one byte, 65,536 of two.
constexpr uint64_t kTinyBytes = 2;
constexpr uint64_t kTinyPlaces[] = {0, 1, 1 + 256, 1 + 256 + 65536};

// Where the text of a row begins. It keeps what it reads by: words that a loop writes could be those of the view, as
// far as the compiler knows, which would look them up for each row.
template <class Offset>
auto offsets_of(const ColumnView& view) {
    return [offsets = view.offsets, base = view.offset_base](int64_t row) {
        return static_cast<int64_t>(load<Offset>(offsets, row)) - base;
    };
}

}  // namespace

// nullptr: the column is no dictionary, or one of so many values that each is looked up as a text.
std::vector<uint32_t>* TextNumbers::of_values(const ColumnView& view, bool known_only) {
    if (view.type->layout != Layout::kDictionary) return nullptr;
    const Dictionary* const dictionary = view.type->dictionary.get();
    // Rows of an intermediate result without a dictionary are NULL.
    const int64_t values = dictionary == nullptr ? 0 : dictionary->values.length;
    if (values > kValuesMax) return nullptr;
    std::vector<uint32_t>& numbers = of_values_[{dictionary, known_only}];
    if (numbers.empty()) numbers.assign(static_cast<size_t>(values), kNotAsked);
    return &numbers;
}

uint32_t TextNumbers::number_of(const ColumnView& texts, int64_t row, bool known_only) {
    texts_[0] = byte_string(texts, row);
    look_up({texts_, 1, nullptr}, known_only, codes_);
    return codes_[0];
}

// Numbers the texts of these rows, kTogether at most and none of them NULL, by a place for each text of so few bytes:
// neither a hash nor a comparison is needed. False: most are longer, so that it did nothing.
template <class Offset>
bool TextNumbers::number_tiny_rows(const ColumnView& view, int64_t begin, int64_t rows, bool known_only) {
    const auto offset = offsets_of<Offset>(view);
    int64_t at = offset(begin);
    const int64_t end_of_all = offset(begin + rows);
    if (end_of_all - at > static_cast<int64_t>(kTinyBytes) * rows) return false;
    std::vector<uint32_t>& numbers = of_tiny_[known_only ? 1 : 0];
    if (numbers.empty()) numbers.assign(kTinyPlaces[kTinyBytes + 1], kNotAsked);
    const uint32_t* const places = numbers.data();
    const uint8_t* const data = view.data;
    uint64_t others = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t end = offset(begin + row + 1);
        const auto length = static_cast<uint64_t>(end - at);
        const uint64_t bytes = std::min(length, kTinyBytes);
        const uint8_t* const text = data + at;
        const bool is_readable = at + static_cast<int64_t>(kTinyBytes) <= end_of_all;
        const uint64_t word = is_readable ? load<uint16_t>(text) & kLowBytes[bytes] : padded_word(text, bytes);
        const uint32_t number = places[kTinyPlaces[bytes] + word];
        codes_[row] = number;
        rows_[others] = row;
        others += length > kTinyBytes || number == kNotAsked ? 1 : 0;
        at = end;
    }
    if (others == 0) return true;
    for (uint64_t i = 0; i < others; ++i) {
        const int64_t first = offset(begin + rows_[i]);
        texts_[i] = {data + first, static_cast<uint64_t>(offset(begin + rows_[i] + 1) - first)};
    }
    uint32_t found[kTogether];
    const TextBatch batch{texts_, others, nullptr};
    look_up(batch, known_only, found);
    for (uint64_t i = 0; i < others; ++i) {
        codes_[rows_[i]] = found[i];
        const ByteString text = texts_[i];
        // What is not known may be later.
        if (found[i] == TextCodes::kNone || text.length > kTinyBytes) continue;
        numbers[kTinyPlaces[text.length] + padded_word(text.bytes, text.length)] = found[i];
    }
    return true;
}

bool TextNumbers::number_tiny(const ColumnView& view, int64_t begin, int64_t rows, bool known_only) {
    if (view.type->layout != Layout::kBinary || view.validity != nullptr) return false;
    return view.type->byte_width == 8 ? number_tiny_rows<int64_t>(view, begin, rows, known_only)
                                      : number_tiny_rows<int32_t>(view, begin, rows, known_only);
}

template <class Offset>
TextBatch TextNumbers::gather_offsets(const ColumnView& view, int64_t begin, int64_t rows) {
    int64_t at = load<Offset>(view.offsets, begin) - view.offset_base;
    uint64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t end = load<Offset>(view.offsets, begin + row + 1) - view.offset_base;
        texts_[count] = {view.data + at, static_cast<uint64_t>(end - at)};
        rows_[count] = row;
        at = end;
        if (view.is_valid(begin + row)) ++count;
    }
    return {texts_, count, view.data + at};
}

TextBatch TextNumbers::gather(const ColumnView& view, int64_t begin, int64_t rows) {
    if (view.type->layout == Layout::kBinary) {
        return view.type->byte_width == 8 ? gather_offsets<int64_t>(view, begin, rows)
                                          : gather_offsets<int32_t>(view, begin, rows);
    }
    uint64_t count = 0;
    for (int64_t row = 0; row < rows; ++row) {
        if (!view.is_valid(begin + row)) continue;
        const bool is_dictionary = view.type->layout == Layout::kDictionary;
        texts_[count] = is_dictionary
                            ? byte_string(view.type->dictionary->values, load<int32_t>(view.data, begin + row))
                            : byte_string(view, begin + row);
        rows_[count++] = row;
    }
    return {texts_, count, nullptr};
}

void TextNumbers::look_up(const TextBatch& batch, bool known_only, uint32_t* codes) {
    if (known_only) {
        recent_.find_all(batch, codes);
    } else {
        recent_.add_all(batch, codes);
    }
}

// Rows whose texts are longer than a key, of which rows_ has so many, get their numbers.
template <class Offset>
void TextNumbers::number_long(const ColumnView& view, int64_t begin, uint64_t count, bool known_only,
                              const ShortTextKeys& keys) {
    uint64_t valid = 0;
    for (uint64_t i = 0; i < count; ++i) {
        const int64_t row = rows_[i];
        if (!view.is_valid(begin + row)) continue;
        const auto at = static_cast<int64_t>(load<Offset>(view.offsets, begin + row));
        const auto end = static_cast<int64_t>(load<Offset>(view.offsets, begin + row + 1));
        texts_[valid] = {view.data + (at - view.offset_base), static_cast<uint64_t>(end - at)};
        rows_[valid++] = row;
    }
    look_up({texts_, valid, nullptr}, known_only, codes_);
    uint64_t* const last_words = keys.last_words();
    for (uint64_t i = 0; i < valid; ++i) {
        const int64_t row = rows_[i];
        last_words[row] = 0;  // the only word, or the second one
        keys.words[row] = codes_[i];
        last_words[row] |= uint64_t{kNumberedText} << 56;
    }
}

// A few instructions a row and no branch that lengths decide, but for the last texts: what is behind them is not ours
// to read. kTogether rows at most, of which it returns how many have longer texts; rows_ has these.
template <class Offset, uint32_t kKeyBytes>
uint64_t TextNumbers::write_short_rows(const ColumnView& view, int64_t begin, int64_t rows, const ShortTextKeys& keys) {
    constexpr uint64_t kLongest = short_text_bytes_max(kKeyBytes);
    const auto offset = offsets_of<Offset>(view);
    const uint8_t* const data = view.data;
    uint64_t* const words = keys.words;
    uint64_t* const last_words = keys.last_words();
    uint64_t longer = 0;
    int64_t at = offset(begin);
    const int64_t end_of_all = offset(begin + rows);
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t end = offset(begin + row + 1);
        const auto length = static_cast<uint64_t>(end - at);
        const uint8_t* const text = data + at;
        const bool is_readable = at + int64_t{kKeyBytes} <= end_of_all;
        at = end;
        rows_[longer] = row;
        longer += length > kLongest ? 1 : 0;
        const uint64_t first = std::min<uint64_t>(length, 8);
        const uint64_t word = is_readable ? load<uint64_t>(text) & kLowBytes[first] : padded_word(text, first);
        if constexpr (kKeyBytes == 8) {
            words[row] = word | length << 56;
        } else {
            const uint64_t second = std::min<uint64_t>(std::max<uint64_t>(length, 8) - 8, 8);
            words[row] = word;
            const uint64_t last =
                is_readable ? load<uint64_t>(text + 8) & kLowBytes[second] : padded_word(text + 8, second);
            last_words[row] = last | length << 56;
        }
    }
    return longer;
}

template <class Offset>
void TextNumbers::write_short_of(const ColumnView& view, int64_t begin, int64_t rows, bool known_only,
                                 ShortTextKeys keys) {
    for (int64_t done = 0; done < rows; done += kTogether) {
        const int64_t first = begin + done;
        const int64_t count = std::min(kTogether, rows - done);
        const uint64_t longer = keys.key_bytes == 8 ? write_short_rows<Offset, 8>(view, first, count, keys)
                                                    : write_short_rows<Offset, 16>(view, first, count, keys);
        if (longer > 0) number_long<Offset>(view, first, longer, known_only, keys);
        for (int64_t row = 0; view.validity != nullptr && row < count; ++row) {
            if (!view.is_valid(first + row)) keys.words[row] = keys.last_words()[row] = 0;
        }
        keys.words += count;
    }
}

void TextNumbers::write_short(const ColumnView& view, int64_t begin, int64_t rows, bool known_only,
                              ShortTextKeys keys) {
    SPILLWAY_CHECK(view.type->layout == Layout::kBinary && (keys.key_bytes == 8 || keys.key_bytes == 16));
    view.type->byte_width == 8 ? write_short_of<int64_t>(view, begin, rows, known_only, keys)
                               : write_short_of<int32_t>(view, begin, rows, known_only, keys);
}

}  // namespace spillway
