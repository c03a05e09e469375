// SPDX-License-Identifier: Apache-2.0
#include "model/type_size.hpp"

#include <algorithm>

#include "base/checked_size.hpp"
#include "base/error.hpp"

namespace spillway {

namespace {

constexpr uint64_t kValidity = 1;
constexpr uint64_t kTypeId = 8;
constexpr uint64_t kUnionOffset = 32;
constexpr uint64_t kView = 128;
constexpr uint64_t kIndex = 32;  // of a dictionary, as the engine unifies them

uint64_t bits_of(int32_t bytes) {
    return bytes < 0 ? 0 : 8 * static_cast<uint64_t>(bytes);
}

uint64_t widest_child(const ColumnType& type) {
    uint64_t bits = 0;
    for (const ColumnType& child : type.children) bits = std::max(bits, row_bits(child));
    return bits;
}

uint64_t all_children(const ColumnType& type) {
    uint64_t bits = 0;
    for (const ColumnType& child : type.children) bits = add_or_max(bits, row_bits(child));
    return bits;
}

bool has_empty_union(const ColumnType& type) {
    const bool is_union = type.layout == Layout::kUnionSparse || type.layout == Layout::kUnionDense;
    return (is_union && type.children.empty()) ||
           std::any_of(type.children.begin(), type.children.end(), has_empty_union);
}

}  // namespace

uint64_t row_bits(const ColumnType& type) {
    switch (type.layout) {
        case Layout::kNull:  // readers show NULLs by a bitmap
            return kValidity;
        case Layout::kBool:
            return kValidity + 1;
        case Layout::kFixed:
        case Layout::kBinary:
            return kValidity + bits_of(type.byte_width);
        case Layout::kView:
            return kValidity + kView;
        case Layout::kDictionary:
            return std::max(kValidity + std::max(bits_of(type.byte_width), kIndex), widest_child(type));
        case Layout::kList:
            return std::max(kValidity + bits_of(type.byte_width), widest_child(type));
        case Layout::kFixedList: {
            const auto items = static_cast<uint64_t>(std::max<int64_t>(type.list_size, 0));
            // A type that no list of which has an item is as hard to hold for those who ask for one.
            const uint64_t item = widest_child(type);  // once: twice at each level would be 2^levels
            return std::max(add_or_max(kValidity, multiply_or_max(items, item)), item);
        }
        case Layout::kStruct:
            return add_or_max(kValidity, all_children(type));
        case Layout::kUnionSparse:
            return add_or_max(kTypeId, all_children(type));
        case Layout::kUnionDense:
            return add_or_max(kTypeId + kUnionOffset, widest_child(type));
    }
    return kValidity;
}

uint64_t fixed_value_bytes(const ColumnType& type) {
    switch (type.layout) {
        case Layout::kBool:
            return 1;
        case Layout::kFixed:
            return static_cast<uint64_t>(type.byte_width);
        case Layout::kDictionary:
            return sizeof(int32_t);
        default:
            return 0;
    }
}

void check_row_size(const ColumnType& type, const std::string& column) {
    if (has_empty_union(type)) {
        throw Error(ErrorCode::kUnsupportedType,
                    "column '" + column + "' has a union without members, of which no row can exist; drop the column",
                    {{"column", column}});
    }
    const uint64_t bytes = row_bits(type) / 8;
    if (bytes <= kRowBytesMax) return;
    throw Error(
        ErrorCode::kUnsupportedType,
        "one row of column '" + column + "' takes at least " + std::to_string(bytes) +
            " bytes, more than the 1073741824 that a row may take; drop the column, or write its fixed-size "
            "lists as lists of variable size",
        {{"column", column}, {"rowBytes", std::to_string(bytes)}, {"largestRowBytes", std::to_string(kRowBytesMax)}});
}

}  // namespace spillway
