// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway {

// Physical layout of a column as it lies in Arrow memory. The logical type (Date, Timestamp unit, precision ...) stays
// in TypeScript: the engine needs widths, comparison order and nesting only.
enum class Layout : uint8_t {
    kNull,         // no buffers
    kBool,         // validity, bits
    kFixed,        // validity, values of byte_width bytes (ints, floats, dates, decimals, intervals, fixed-size binary)
    kBinary,       // validity, offsets of byte_width (4 or 8) bytes, bytes (utf8, binary and their large forms)
    kView,         // validity, 16-byte views, variadic data buffers (utf8 view, binary view)
    kList,         // validity, offsets of byte_width (4 or 8) bytes, one child (list, large list, map)
    kFixedList,    // validity, one child of list_size x length
    kStruct,       // validity, children
    kUnionSparse,  // type ids (int8), children of equal length
    kUnionDense,   // type ids (int8), int32 offsets, children
    kDictionary,   // validity, indices; child 0 = value type. After the reader: int32 indices into `Dictionary`
};

// How kFixed values (and dictionary values) compare for min, max and key normalization.
enum class Order : uint8_t { kSigned, kUnsigned, kFloat, kDecimal /* signed, 16 or 32 bytes */, kBytes };

struct Dictionary;  // column_view.hpp

struct ColumnType {
    Layout layout = Layout::kFixed;
    Order order = Order::kSigned;
    int32_t byte_width = 8;        // value width, offset width or index width; see Layout
    bool nullable = true;          // false: promised to hold no NULL (schema says so, or every batch has null_count 0)
    bool utf8 = false;             // kBinary / kView holds UTF-8 (only passed through)
    int64_t list_size = 0;         // kFixedList
    std::vector<int8_t> type_ids;  // unions: type id of each child
    std::vector<ColumnType> children;
    std::string name;
    std::shared_ptr<const Dictionary> dictionary;  // kDictionary: set by Source::load_dictionaries

    bool is_fixed_value() const { return layout == Layout::kFixed || layout == Layout::kBool; }
    bool is_bytes() const { return layout == Layout::kBinary || layout == Layout::kView; }
    bool is_nested() const {
        return layout == Layout::kList || layout == Layout::kFixedList || layout == Layout::kStruct ||
               layout == Layout::kUnionSparse || layout == Layout::kUnionDense;
    }
};

using TypePtr = std::shared_ptr<const ColumnType>;

}  // namespace spillway
