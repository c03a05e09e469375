// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/key_array.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/load.hpp"
#include "cpu/group_by/load_numbers.hpp"
#include "cpu/row/key_normalizer.hpp"

namespace spillway {

namespace {

// 128 KiB of numbers, of which few groups use few lines of the cache.
constexpr uint32_t kIndexBitsMax = 16;
// An array is made anew where values leave its ranges, at least half as wide again or twice: more often than for each
// doubling of a few keys' ranges it is of no use.
constexpr uint32_t kWidenedMax = 64;

bool has_small_values(const KeySpec& spec) {
    const KeyKind kind = spec.kind == KeyKind::kDictionaryValue ? spec.kind_of_value : spec.kind;
    return kind == KeyKind::kInteger || kind == KeyKind::kDictionaryIndex ||
           (kind == KeyKind::kInlineBytes && spec.width <= 8);
}

// Texts of one byte are read faster as what they are, and keys of one word are found as fast by a hash of it.
bool wants_dictionary(const GroupPlan& plan, const KeySpec& spec) {
    return plan.wide_keys() && (spec.kind == KeyKind::kBytes || (spec.kind == KeyKind::kInlineBytes && spec.width > 2));
}

std::unique_ptr<LocalDictionary> make_dictionary(const KeySpec& spec, TableMemory& memory) {
    const int32_t width = spec.kind == KeyKind::kInlineBytes ? spec.width : 0;
    return std::make_unique<LocalDictionary>(memory, static_cast<uint32_t>(width));
}

// Values of a key. word(i): modulo the range of `Word`, less `offset`. Values that differ have words that differ, so
// that the difference of a word and any base tells them apart, whatever overflows.
template <class T>
struct PlainValues {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    static constexpr int64_t offset = 0;
    const uint8_t* data;
    Word word(int64_t i) const { return static_cast<Word>(load<T>(data, i)); }
    int64_t operator[](int64_t i) const { return static_cast<int64_t>(load<T>(data, i)); }
};

// Texts of one byte each, as the words that normalize_words() makes of them.
template <int64_t kStride>
struct OneByteTexts {
    using Word = uint32_t;
    const uint8_t* bytes;
    int64_t offset;  // the length, in the last byte of the word
    Word word(int64_t i) const { return bytes[i * kStride]; }
    int64_t operator[](int64_t i) const { return bytes[i * kStride] | offset; }
};

template <class Offset>
const uint8_t* bytes_if_one_each(const ColumnView& view, int64_t begin, int64_t count) {
    const uint8_t* offsets = view.offsets + begin * static_cast<int64_t>(sizeof(Offset));
    Offset other = 0;
    for (int64_t i = 0; i < count; ++i) other |= (load<Offset>(offsets, i + 1) - load<Offset>(offsets, i)) ^ 1;
    return other == 0 ? view.data + (load<Offset>(offsets) - view.offset_base) : nullptr;
}

constexpr int64_t kEntryBytes = 16;  // of a kView column: the length, and short texts themselves

const uint8_t* entries_if_one_each(const ColumnView& view, int64_t begin, int64_t count) {
    const uint8_t* entries = view.data + begin * kEntryBytes;
    uint32_t other = 0;
    for (int64_t i = 0; i < count; ++i) other |= load<uint32_t>(entries + i * kEntryBytes) ^ 1;
    return other == 0 ? entries : nullptr;
}

// Returns false, without a visit, where a text has another length, or where a word less `base` needs more than 32 bits.
template <class Visit>
bool visit_one_byte_texts(const ColumnView& view, const KeySpec& spec, const ColumnRows& rows, int64_t count,
                          int64_t base, Visit&& visit) {
    const int64_t length = int64_t{1} << (8 * (spec.width - 1));
    const auto low = static_cast<int64_t>(static_cast<uint64_t>(base) - static_cast<uint64_t>(length));
    if (low != static_cast<int32_t>(low)) return false;
    const uint8_t* bytes = nullptr;
    if (view.type->layout == Layout::kView) {
        bytes = entries_if_one_each(view, rows.begin, count);
        if (bytes != nullptr) visit(OneByteTexts<kEntryBytes>{bytes + 4, length});
    } else {
        bytes = view.type->byte_width == 8 ? bytes_if_one_each<int64_t>(view, rows.begin, count)
                                           : bytes_if_one_each<int32_t>(view, rows.begin, count);
        if (bytes != nullptr) visit(OneByteTexts<1>{bytes, length});
    }
    return bytes != nullptr;
}

}  // namespace

KeyArray::KeyArray(const GroupPlan& plan, const std::vector<int32_t>& views, TableMemory& memory) : memory_(memory) {
    for (const KeyPart& key : plan.layout.keys) {
        const bool is_text = wants_dictionary(plan, key.spec);
        if (!is_text && !has_small_values(key.spec)) {
            parts_.clear();
            return;
        }
        const auto view = std::find(views.begin(), views.end(), key.spec.column) - views.begin();
        parts_.push_back({&key, static_cast<size_t>(view)});
        if (is_text) parts_.back().dictionary = make_dictionary(key.spec, memory);
    }
    if (parts_.empty()) return;
    indices_.resize(RowBlock::kRowsMax);
    words_.resize(RowBlock::kRowsMax);
}

template <class Visit>
void KeyArray::visit_values(const Part& part, const ColumnRows& rows, int64_t count, Visit&& visit) {
    if (part.dictionary != nullptr) {
        return visit(PlainValues<int32_t>{reinterpret_cast<const uint8_t*>(part.dictionary->codes())});
    }
    const ColumnView& view = (*rows.views)[part.view];
    const ColumnType& type = *view.type;
    const KeySpec& spec = part.key->spec;
    if (spec.kind == KeyKind::kDictionaryIndex) return visit(PlainValues<int32_t>{view.data + rows.begin * 4});
    if (spec.kind == KeyKind::kInteger && type.layout == Layout::kFixed) {
        const bool is_signed = type.order == Order::kSigned;
        const uint8_t* data = view.data + rows.begin * type.byte_width;
        switch (type.byte_width) {
            case 1:
                return is_signed ? visit(PlainValues<int8_t>{data}) : visit(PlainValues<uint8_t>{data});
            case 2:
                return is_signed ? visit(PlainValues<int16_t>{data}) : visit(PlainValues<uint16_t>{data});
            case 4:
                return is_signed ? visit(PlainValues<int32_t>{data}) : visit(PlainValues<uint32_t>{data});
            default:
                return visit(PlainValues<int64_t>{data});
        }
    }
    const bool text = spec.kind == KeyKind::kInlineBytes;
    if (text && visit_one_byte_texts(view, spec, rows, count, part.base, visit)) return;
    normalize_words(*part.key, view, {rows.begin, nullptr, count}, words_.data());
    visit(PlainValues<int64_t>{reinterpret_cast<const uint8_t*>(words_.data())});
}

// Returns false where a value is outside the range of its key.
bool KeyArray::make_indices(const ColumnRows& rows, int64_t count) {
    uint64_t outside = 0;
    uint32_t* indices = indices_.data();
    for (const Part& part : parts_) {
        visit_values(part, rows, count, [&](const auto& values) {
            using Word = typename std::decay_t<decltype(values)>::Word;
            const auto base =
                static_cast<Word>(static_cast<uint64_t>(part.base) - static_cast<uint64_t>(values.offset));
            const uint32_t bits = part.bits;
            const uint32_t shift = part.shift;
            Word high = 0;
            if (&part == parts_.data()) {
                for (int64_t i = 0; i < count; ++i) {
                    const Word value = values.word(i) - base;
                    high |= value;
                    indices[i] = static_cast<uint32_t>(value);
                }
            } else {
                for (int64_t i = 0; i < count; ++i) {
                    const Word value = values.word(i) - base;
                    high |= value;
                    indices[i] |= static_cast<uint32_t>(value) << shift;
                }
            }
            outside |= high >> bits;
        });
    }
    return outside == 0;
}

// Makes the array anew, for the values of these rows too. Returns false where they are too many.
bool KeyArray::widen(const ColumnRows& rows, int64_t count) {
    uint32_t bits = 0;
    for (Part& part : parts_) {
        visit_values(part, rows, count, [&](const auto& values) {
            for (int64_t i = 0; i < count; ++i) {
                part.least = std::min(part.least, values[i]);
                part.most = std::max(part.most, values[i]);
            }
        });
        if (part.dictionary != nullptr) part.least = 0;  // codes grow upwards only
        const uint64_t range = static_cast<uint64_t>(part.most) - static_cast<uint64_t>(part.least);
        part.bits = static_cast<uint32_t>(std::bit_width(range));
        part.shift = bits;
        bits += part.bits;
        if (bits > kIndexBitsMax) return false;
        // What is left of the power of two, on both sides.
        const uint64_t rest = (uint64_t{1} << part.bits) - 1 - range;
        part.base = static_cast<int64_t>(static_cast<uint64_t>(part.least) - (part.dictionary ? 0 : rest / 2));
    }
    const uint64_t bytes = sizeof(uint16_t) << bits;
    numbers_.release();
    if (bytes > memory_.left_for_arrays() || ++widened_ > kWidenedMax) return false;
    try {
        numbers_ = TableBlock(memory_, bytes);
    } catch (const TableFull&) {
        return false;
    }
    std::memset(numbers_.data(), 0, bytes);
    return true;
}

bool KeyArray::find(const ColumnRows& rows, int64_t count, uint32_t copies, uint32_t* places) {
    known_ = 0;
    if (parts_.empty()) return false;
    for (const Part& part : parts_) {
        const ColumnView& view = (*rows.views)[part.view];
        if (view.type->layout == Layout::kNull) return false;
        if (part.dictionary == nullptr && any_null(view, rows.begin, count)) return false;
    }
    for (const Part& part : parts_) {
        if (part.dictionary == nullptr) continue;
        if (!part.dictionary->encode((*rows.views)[part.view], rows.begin, count)) {
            release();
            return false;
        }
    }
    if (numbers_.bytes() == 0 || !make_indices(rows, count)) {
        if (!widen(rows, count)) {
            release();
            return false;
        }
        SPILLWAY_CHECK(make_indices(rows, count));
    }
    known_ = count;
    const uint16_t* numbers = this->numbers();
    const uint32_t* indices = indices_.data();
    for (int64_t i = 0; i < count; ++i) places[i] = numbers[indices[i]];
    // Apart from the loads above, which are one after the other, this is done for several rows at once.
    const auto copy_bits = static_cast<uint32_t>(std::countr_zero(copies));
    const auto rows_found = static_cast<uint32_t>(count);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < rows_found; ++i) {
        const uint32_t number = places[i] - 1;
        missing |= number;
        places[i] = number << copy_bits | (i & (copies - 1));
    }
    return (missing >> 31) == 0;
}

void KeyArray::learn(const uint32_t* numbers) {
    for (int64_t i = 0; i < known_; ++i) this->numbers()[indices_[i]] = static_cast<uint16_t>(numbers[i] + 1);
}

bool KeyArray::release() {
    const bool was_usable = !parts_.empty();
    numbers_.release();
    parts_.clear();
    known_ = 0;
    return was_usable;
}

}  // namespace spillway
