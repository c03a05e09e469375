// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "model/column_view.hpp"

// Logical Arrow values for tests: made at random for any type, laid out as Arrow buffers by arrow_body.hpp, and
// compared as text with what the engine's views show.
namespace spillway::test {

struct Value {
    bool null = false;
    std::string bytes;         // fixed, binary, view; bool: one byte
    std::vector<Value> items;  // list: items; struct: fields; union: the member in use; dictionary: the value
    int32_t member = 0;        // union
};

using Random = std::mt19937_64;
inline int64_t below(Random& random, int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

// ---- types ----

inline ColumnType type_of(Layout layout, int32_t byte_width = 4, std::vector<ColumnType> children = {}) {
    ColumnType type;
    type.layout = layout;
    type.byte_width = byte_width;
    type.children = std::move(children);
    type.name = "c";
    for (size_t k = 0; k < type.children.size(); ++k) type.children[k].name = "f" + std::to_string(k);
    if (layout == Layout::kUnionSparse || layout == Layout::kUnionDense) {
        // Ids that are no child indices, one of them the largest there is.
        for (size_t k = 0; k < type.children.size(); ++k) type.type_ids.push_back(static_cast<int8_t>(127 - 3 * k));
    }
    return type;
}

inline ColumnType list_of_size(int64_t size, ColumnType child) {
    ColumnType type = type_of(Layout::kFixedList, 0, {std::move(child)});
    type.list_size = size;
    return type;
}

inline ColumnType random_leaf(Random& random) {
    static constexpr int32_t kWidths[] = {1, 2, 3, 4, 8, 16, 32};
    switch (below(random, 7)) {
        case 0:
            return type_of(Layout::kNull);
        case 1:
            return type_of(Layout::kBool);
        case 2:
        case 3:
            return type_of(Layout::kFixed, kWidths[below(random, 7)]);
        case 4:
            return type_of(Layout::kView, 16);
        default:
            return type_of(Layout::kBinary, below(random, 2) == 0 ? 4 : 8);
    }
}

inline ColumnType random_type(Random& random, int depth, bool dictionaries) {
    if (depth == 0 || below(random, 3) == 0) return random_leaf(random);
    const auto child = [&] { return random_type(random, depth - 1, dictionaries); };
    switch (below(random, dictionaries ? 6 : 5)) {
        case 0:
            return type_of(Layout::kList, below(random, 2) == 0 ? 4 : 8, {child()});
        case 1:
            return list_of_size(below(random, 4), child());
        case 2:
            return type_of(Layout::kStruct, 0,
                           below(random, 4) == 0 ? std::vector{child()} : std::vector{child(), child()});
        case 3:
            return type_of(Layout::kUnionSparse, 0, {child(), child()});
        case 4:
            return type_of(Layout::kUnionDense, 0, {child(), child(), child()});
        default: {
            ColumnType type =
                type_of(Layout::kDictionary, 2 << below(random, 3), {random_type(random, depth - 1, false)});
            type.order = below(random, 2) == 0 ? Order::kSigned : Order::kUnsigned;
            return type;
        }
    }
}

// ---- values ----

inline std::string random_bytes(Random& random, int64_t count) {
    std::string bytes(static_cast<size_t>(count), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

inline Value random_value(Random& random, const ColumnType& type, int64_t null_percent) {
    Value value;
    const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
    value.null = type.layout == Layout::kNull || (!is_union && below(random, 100) < null_percent);
    if (value.null) return value;
    const auto item = [&](size_t k) { value.items.push_back(random_value(random, type.children[k], null_percent)); };
    switch (type.layout) {
        case Layout::kBool:
            value.bytes = std::string(1, static_cast<char>(below(random, 2)));
            break;
        case Layout::kFixed:
            value.bytes = random_bytes(random, type.byte_width);
            break;
        case Layout::kBinary:
        case Layout::kView:
            value.bytes = random_bytes(random, below(random, below(random, 4) == 0 ? 200 : 20));
            break;
        case Layout::kList:
            for (int64_t i = below(random, 5); i > 0; --i) item(0);
            break;
        case Layout::kFixedList:
            for (int64_t i = type.list_size; i > 0; --i) item(0);
            break;
        case Layout::kStruct:
            for (size_t k = 0; k < type.children.size(); ++k) item(k);
            break;
        case Layout::kUnionSparse:
        case Layout::kUnionDense:
            value.member = static_cast<int32_t>(below(random, static_cast<int64_t>(type.children.size())));
            item(static_cast<size_t>(value.member));
            break;
        case Layout::kDictionary:
            item(0);
            break;
        default:
            break;
    }
    return value;
}

inline std::vector<Value> random_values(Random& random, const ColumnType& type, int64_t rows, int64_t null_percent) {
    std::vector<Value> values;
    for (int64_t i = 0; i < rows; ++i) values.push_back(random_value(random, type, null_percent));
    return values;
}

// ---- text ----

inline std::string hex(const uint8_t* bytes, int64_t count) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text = "x";
    for (int64_t i = 0; i < count; ++i) {
        text += kDigits[bytes[i] >> 4];
        text += kDigits[bytes[i] & 15];
    }
    return text;
}

inline std::string text_of(const Value& value, const ColumnType& type) {
    if (value.null) return "null";
    if (type.layout == Layout::kDictionary) return text_of(value.items[0], type.children[0]);
    if (type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense) {
        const std::string member = text_of(value.items[0], type.children[static_cast<size_t>(value.member)]);
        return "<" + std::to_string(value.member) + ":" + member + ">";
    }
    if (!type.is_nested()) {
        return hex(reinterpret_cast<const uint8_t*>(value.bytes.data()), static_cast<int64_t>(value.bytes.size()));
    }
    std::string text = "[";
    for (size_t i = 0; i < value.items.size(); ++i) {
        text += text_of(value.items[i], type.children[type.layout == Layout::kStruct ? i : 0]) + ",";
    }
    return text + "]";
}

template <class T>
T load_as(const uint8_t* data, int64_t index) {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

inline int64_t offset_at(const ColumnView& view, int64_t row) {
    return view.type->byte_width == 8 ? load_as<int64_t>(view.offsets, row) : load_as<int32_t>(view.offsets, row);
}

inline std::string text_of(const ColumnView& view, int64_t row) {
    const ColumnType& type = *view.type;
    if (type.layout == Layout::kNull || !view.is_valid(row)) return "null";
    const auto items = [&](int64_t begin, int64_t end) {
        std::string text = "[";
        for (int64_t i = begin; i < end; ++i) text += text_of(view.children[0], i) + ",";
        return text + "]";
    };
    switch (type.layout) {
        case Layout::kBool:
            return get_bit(view.data, view.data_bit + row) ? "x01" : "x00";
        case Layout::kFixed:
            return hex(view.data + row * type.byte_width, type.byte_width);
        case Layout::kBinary:
            return hex(view.data + (offset_at(view, row) - view.offset_base),
                       offset_at(view, row + 1) - offset_at(view, row));
        case Layout::kView: {
            const uint8_t* at = view.data + row * 16;
            const auto length = load_as<int32_t>(at, 0);
            if (length <= 12) return hex(at + 4, length);
            return hex(view.view_buffers[load_as<uint32_t>(at, 2)] + load_as<int32_t>(at, 3), length);
        }
        case Layout::kList:
            return items(offset_at(view, row) - view.offset_base, offset_at(view, row + 1) - view.offset_base);
        case Layout::kFixedList:
            return items(row * type.list_size, (row + 1) * type.list_size);
        case Layout::kStruct: {
            std::string text = "[";
            for (const ColumnView& child : view.children) text += text_of(child, row) + ",";
            return text + "]";
        }
        case Layout::kDictionary:
            return text_of(type.dictionary->values, load_as<int32_t>(view.data, row));
        default:
            break;
    }
    for (size_t k = 0; k < type.type_ids.size(); ++k) {
        if (type.type_ids[k] != load_as<int8_t>(view.data, row)) continue;
        const bool dense = type.layout == Layout::kUnionDense;
        const int64_t child_row = dense ? load_as<int32_t>(view.offsets, row) - view.offset_base : row;
        return "<" + std::to_string(k) + ":" + text_of(view.children[k], child_row) + ">";
    }
    return "unknown type id";
}

}  // namespace spillway::test
