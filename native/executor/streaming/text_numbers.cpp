// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/text_numbers.hpp"

#include "cpu/row/key_normalizer.hpp"

namespace spillway {

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
    look_up({texts_, 1, nullptr}, known_only);
    return codes_[0];
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

void TextNumbers::look_up(const TextBatch& batch, bool known_only) {
    if (known_only) {
        recent_.find_all(batch, codes_);
    } else {
        recent_.add_all(batch, codes_);
    }
}

}  // namespace spillway
