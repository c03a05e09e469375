// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/key_normalizer.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/load.hpp"
#include "cpu/row/inline_text.hpp"

namespace spillway {

namespace {

uint64_t width_mask(int32_t width) {
    return width >= 8 ? ~0ULL : (1ULL << (width * 8)) - 1;
}

float half_to_float(uint16_t half) {
    const int exponent = (half >> 10) & 0x1f;
    const int fraction = half & 0x3ff;
    float value = 0;
    if (exponent == 0) {
        value = std::ldexp(static_cast<float>(fraction), -24);
    } else if (exponent == 31) {
        value = fraction != 0 ? NAN : INFINITY;
    } else {
        value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    }
    return (half & 0x8000) != 0 ? -value : value;
}

// NaN = NaN and -0 = 0: one bit pattern for each.
uint64_t canonical(double value) {
    if (std::isnan(value)) return 0x7ff8000000000000ULL;
    return std::bit_cast<uint64_t>(value + 0.0);  // -0.0 + 0.0 = +0.0
}

uint64_t canonical(float value) {
    if (std::isnan(value)) return 0x7fc00000u;
    return std::bit_cast<uint32_t>(value + 0.0f);
}

template <class T, class To>
void widen(const ColumnView& view, const RowSelection& selection, To&& to, uint64_t* words) {
    if (selection.rows == nullptr) {
        for (int64_t i = 0; i < selection.count; ++i) words[i] = to(load<T>(view.data, selection.begin + i));
    } else {
        for (int64_t i = 0; i < selection.count; ++i) words[i] = to(load<T>(view.data, selection.rows[i]));
    }
}

void integer_words(const ColumnView& view, const RowSelection& selection, int32_t width, uint64_t* words) {
    const uint64_t mask = width_mask(width);
    const auto cast = [mask](auto value) { return static_cast<uint64_t>(static_cast<int64_t>(value)) & mask; };
    const ColumnType& type = *view.type;
    if (type.layout == Layout::kBool) {
        for (int64_t i = 0; i < selection.count; ++i) words[i] = get_bit(view.data, view.data_bit + selection[i]);
        return;
    }
    if (type.layout == Layout::kDictionary) return widen<int32_t>(view, selection, cast, words);
    const bool is_signed = type.order == Order::kSigned;
    switch (type.byte_width) {
        case 1:
            return is_signed ? widen<int8_t>(view, selection, cast, words)
                             : widen<uint8_t>(view, selection, cast, words);
        case 2:
            return is_signed ? widen<int16_t>(view, selection, cast, words)
                             : widen<uint16_t>(view, selection, cast, words);
        case 4:
            return is_signed ? widen<int32_t>(view, selection, cast, words)
                             : widen<uint32_t>(view, selection, cast, words);
        default:
            return widen<uint64_t>(view, selection, cast, words);
    }
}

void float_words(const ColumnView& view, const RowSelection& selection, int32_t width, uint64_t* words) {
    const bool to_double = width == 8;
    switch (view.type->byte_width) {
        case 2:
            return widen<uint16_t>(
                view, selection,
                [=](uint16_t value) {
                    const float wide = half_to_float(value);
                    return to_double ? canonical(static_cast<double>(wide)) : canonical(wide);
                },
                words);
        case 4:
            return widen<float>(
                view, selection,
                [=](float value) { return to_double ? canonical(static_cast<double>(value)) : canonical(value); },
                words);
        default:
            return widen<double>(
                view, selection, [](double value) { return canonical(value); }, words);
    }
}

void fixed_words(const ColumnView& view, const RowSelection& selection, int32_t width, uint64_t* words) {
    for (int64_t i = 0; i < selection.count; ++i) {
        words[i] = 0;
        std::memcpy(&words[i], view.data + selection[i] * width, static_cast<size_t>(width));
    }
}

void value_words(KeyKind kind, int32_t width, const ColumnView& view, const RowSelection& selection, uint64_t* words) {
    switch (kind) {
        case KeyKind::kFloat:
            return float_words(view, selection, width, words);
        case KeyKind::kFixedBytes:
            return fixed_words(view, selection, width, words);
        case KeyKind::kInlineBytes:
            return inline_words(view, selection, static_cast<uint32_t>(width), words);
        default:
            return integer_words(view, selection, width, words);
    }
}

// Rows of the dictionary's values that the rows of the view point to.
constexpr int64_t kBlockRows = 1024;
RowSelection dictionary_rows(const ColumnView& view, const RowSelection& selection, int64_t* rows) {
    for (int64_t i = 0; i < selection.count; ++i) {
        const int64_t row = selection[i];
        rows[i] = view.is_valid(row) ? load<int32_t>(view.data, row) : 0;
    }
    return {0, rows, selection.count};
}

// body(begin, rows of the dictionary's values) for the rows of the view, in blocks.
template <class Body>
void for_dictionary_rows(const ColumnView& view, const RowSelection& selection, Body&& body) {
    int64_t rows[kBlockRows];
    for (int64_t done = 0; done < selection.count; done += kBlockRows) {
        RowSelection block = selection;
        if (block.rows != nullptr) block.rows += done;
        block.begin += done;
        block.count = std::min(kBlockRows, selection.count - done);
        body(done, dictionary_rows(view, block, rows));
    }
}

// No dictionary: a column of an intermediate result without rows, NULL everywhere.
bool lacks_values(const ColumnView& view) {
    return view.type->dictionary == nullptr || view.type->dictionary->values.length == 0;
}

void inline_key_bytes(const KeySpec& spec, const ColumnView& view, const RowSelection& selection, uint8_t* first_value,
                      uint32_t row_bytes) {
    const auto width = static_cast<uint32_t>(spec.width);
    if (spec.kind == KeyKind::kInlineBytes) return inline_bytes(view, selection, width, first_value, row_bytes);
    const bool none = lacks_values(view);
    if (!none) {
        for_dictionary_rows(view, selection, [&](int64_t begin, const RowSelection& rows) {
            inline_bytes(view.type->dictionary->values, rows, width, first_value + begin * row_bytes, row_bytes);
        });
    }
    if (!none && view.validity == nullptr) return;
    for (int64_t i = 0; i < selection.count; ++i) {
        if (none || !view.is_valid(selection[i])) std::memset(first_value + i * row_bytes, 0, width);
    }
}

void clear_null_words(const ColumnView& view, const RowSelection& selection, uint64_t* words) {
    if (view.validity == nullptr) return;
    for (int64_t i = 0; i < selection.count; ++i) {
        if (!view.is_valid(selection[i])) words[i] = 0;
    }
}

}  // namespace

void normalize_words(const KeyPart& part, const ColumnView& view, const RowSelection& selection, uint64_t* words) {
    const KeySpec& spec = part.spec;
    if (spec.kind == KeyKind::kDictionaryValue) {
        if (lacks_values(view)) {
            std::memset(words, 0, static_cast<size_t>(selection.count) * 8);
            return;
        }
        const ColumnView& values = view.type->dictionary->values;
        for_dictionary_rows(view, selection, [&](int64_t begin, const RowSelection& rows) {
            value_words(spec.kind_of_value, spec.width, values, rows, words + begin);
        });
    } else {
        value_words(spec.kind, spec.width, view, selection, words);
    }
    clear_null_words(view, selection, words);
}

void normalize_bytes(const KeyPart& part, const ColumnView& view, const RowSelection& selection, uint8_t* first_value,
                     uint32_t row_bytes) {
    const KeySpec& spec = part.spec;
    const auto width = static_cast<size_t>(spec.width);
    const KeyKind value_kind = spec.kind == KeyKind::kDictionaryValue ? spec.kind_of_value : spec.kind;
    if (value_kind == KeyKind::kInlineBytes) return inline_key_bytes(spec, view, selection, first_value, row_bytes);
    if (spec.width <= 8) {
        uint64_t words[kBlockRows];
        for (int64_t done = 0; done < selection.count; done += kBlockRows) {
            RowSelection block = selection;
            if (block.rows != nullptr) block.rows += done;
            block.begin += done;
            block.count = std::min(kBlockRows, selection.count - done);
            normalize_words(part, view, block, words);
            for (int64_t i = 0; i < block.count; ++i) {
                std::memcpy(first_value + (done + i) * row_bytes, &words[i], width);
            }
        }
        return;
    }
    for (int64_t i = 0; i < selection.count; ++i) {
        const int64_t row = selection[i];
        uint8_t* value = first_value + i * row_bytes;
        if (!view.is_valid(row)) {
            std::memset(value, 0, width);
            continue;
        }
        std::memcpy(value, fixed_key(part, view, row), width);
    }
}

const uint8_t* fixed_key(const KeyPart& part, const ColumnView& view, int64_t row) {
    if (part.spec.kind != KeyKind::kDictionaryValue) return view.data + row * part.spec.width;
    return view.type->dictionary->values.data + int64_t{load<int32_t>(view.data, row)} * part.spec.width;
}

ByteString byte_string(const ColumnView& view, int64_t row) {
    if (view.type->layout == Layout::kView) {
        const uint8_t* entry = view.data + row * 16;
        const auto length = load<uint32_t>(entry, 0);
        if (length <= 12) return {entry + 4, length};
        return {view.view_buffers[load<uint32_t>(entry, 2)] + load<uint32_t>(entry, 3), length};
    }
    if (view.type->byte_width == 8) {
        const auto begin = load<int64_t>(view.offsets, row);
        return {view.data + (begin - view.offset_base),
                static_cast<uint64_t>(load<int64_t>(view.offsets, row + 1) - begin)};
    }
    const auto begin = load<int32_t>(view.offsets, row);
    return {view.data + (begin - view.offset_base),
            static_cast<uint64_t>(load<int32_t>(view.offsets, row + 1) - begin)};
}

ByteString key_byte_string(const KeyPart& part, const ColumnView& view, int64_t row) {
    if (!view.is_valid(row)) return {nullptr, 0};
    if (part.spec.kind != KeyKind::kDictionaryValue) return byte_string(view, row);
    return byte_string(view.type->dictionary->values, load<int32_t>(view.data, row));
}

}  // namespace spillway
