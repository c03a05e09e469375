// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/column_view.hpp"
#include "model/output_batch.hpp"

// Input columns of the group-by tests: each value as the oracle sees it (its bytes, or nothing for NULL) and in Arrow
// layout.
namespace spillway::test::grouping {

using Cell = std::optional<std::string>;
using Random = std::mt19937_64;

template <class T>
std::string raw(const T& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class T>
T as(std::string_view bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(sizeof value, bytes.size()));
    return value;
}

struct InputColumn {
    std::shared_ptr<ColumnType> type;
    std::vector<Cell> cells;  // dictionary: decoded values
    std::vector<uint8_t> validity;
    std::vector<uint8_t> data;
    std::vector<uint8_t> offsets;
    std::vector<uint8_t> child;  // list of int32

    ColumnView view() const {
        ColumnView view;
        view.type = type.get();
        view.length = static_cast<int64_t>(cells.size());
        view.validity = type->nullable ? validity.data() : nullptr;
        view.data = data.data();
        view.offsets = offsets.data();
        if (type->layout == Layout::kView) view.view_buffers = {child.data()};
        if (type->layout == Layout::kList) {
            ColumnView items;
            items.type = &type->children[0];
            items.length = static_cast<int64_t>(child.size() / 4);
            items.data = child.data();
            view.children.push_back(items);
        }
        return view;
    }
};

inline std::shared_ptr<ColumnType> plain_type(Layout layout, Order order, int32_t width, const std::string& name) {
    auto type = std::make_shared<ColumnType>();
    type->layout = layout;
    type->order = order;
    type->byte_width = width;
    type->name = name;
    return type;
}

inline void append_raw(std::vector<uint8_t>& to, const void* bytes, size_t count) {
    const auto* from = static_cast<const uint8_t*>(bytes);
    to.insert(to.end(), from, from + count);
}

inline void lay_out_views(InputColumn& column) {
    for (const Cell& cell : column.cells) {
        const std::string value = cell.value_or("");
        const auto length = static_cast<int32_t>(value.size());
        uint8_t entry[16] = {};
        std::memcpy(entry, &length, 4);
        if (length <= 12) {
            std::memcpy(entry + 4, value.data(), value.size());
        } else {
            const auto offset = static_cast<int32_t>(column.child.size());
            std::memcpy(entry + 4, value.data(), 4);
            std::memcpy(entry + 12, &offset, 4);
            append_raw(column.child, value.data(), value.size());
        }
        append_raw(column.data, entry, sizeof entry);
    }
}

inline void lay_out_strings(InputColumn& column) {
    int32_t end = 0;
    auto& bytes = column.type->layout == Layout::kList ? column.child : column.data;
    const int32_t unit = column.type->layout == Layout::kList ? 4 : 1;
    append_raw(column.offsets, &end, 4);
    for (const Cell& cell : column.cells) {
        if (cell) append_raw(bytes, cell->data(), cell->size());
        end = static_cast<int32_t>(bytes.size()) / unit;
        append_raw(column.offsets, &end, 4);
    }
}

// The type of dictionary columns must hold its dictionary: cells are looked up in it.
inline void lay_out_indices(InputColumn& column) {
    const ColumnView& values = column.type->dictionary->values;
    std::unordered_map<std::string_view, int32_t> indices;
    for (int32_t i = 0; i < static_cast<int32_t>(values.length); ++i) {
        int32_t bounds[2] = {i * values.type->byte_width, (i + 1) * values.type->byte_width};
        if (values.type->layout == Layout::kBinary) std::memcpy(bounds, values.offsets + i * 4, 8);
        indices.try_emplace(
            {reinterpret_cast<const char*>(values.data) + bounds[0], static_cast<size_t>(bounds[1] - bounds[0])}, i);
    }
    for (const Cell& cell : column.cells) {
        const int32_t index = cell ? indices.at(*cell) : -1;
        append_raw(column.data, &index, 4);
    }
}

inline InputColumn input_column(std::shared_ptr<ColumnType> type, std::vector<Cell> cells) {
    InputColumn column{std::move(type), std::move(cells), {}, {}, {}, {}};
    const size_t rows = column.cells.size();
    column.validity.assign(rows / 8 + 1, 0);
    for (size_t i = 0; i < rows; ++i) {
        if (column.cells[i]) set_bit(column.validity.data(), static_cast<int64_t>(i));
    }
    switch (column.type->layout) {
        case Layout::kBool:
            column.data.assign(rows / 8 + 1, 0);
            for (size_t i = 0; i < rows; ++i) {
                const bool value = column.cells[i] && (*column.cells[i])[0] != 0;
                assign_bit(column.data.data(), static_cast<int64_t>(i), value);
            }
            break;
        case Layout::kFixed: {
            // NULL slots hold garbage in Arrow: nothing may depend on them.
            const std::string garbage(static_cast<size_t>(column.type->byte_width), '\x5a');
            for (const Cell& cell : column.cells) {
                append_raw(column.data, cell ? cell->data() : garbage.data(), garbage.size());
            }
            break;
        }
        case Layout::kView:
            lay_out_views(column);
            break;
        case Layout::kDictionary:
            lay_out_indices(column);
            break;
        case Layout::kNull:
            break;
        default:
            lay_out_strings(column);
            break;
    }
    column.data.push_back(0);
    column.child.push_back(0);
    return column;
}

// A dictionary type over the distinct `values`.
inline std::shared_ptr<ColumnType> dictionary_type(std::shared_ptr<ColumnType> value_type,
                                                   const std::vector<Cell>& values, const std::string& name) {
    auto column = std::make_shared<InputColumn>(input_column(std::move(value_type), values));
    auto dictionary = std::make_shared<Dictionary>();
    dictionary->type = *column->type;
    dictionary->values = column->view();
    dictionary->values.validity = nullptr;
    dictionary->owners.push_back(column);
    auto type = plain_type(Layout::kDictionary, Order::kSigned, 4, name);
    type->children.push_back(*column->type);
    type->dictionary = dictionary;
    return type;
}

// ---- results ----

inline std::string output_bytes(const OutputColumn& column, int64_t row) {
    const ColumnType& type = *column.type;
    if (type.layout == Layout::kBool) return std::string(1, static_cast<char>(get_bit(column.data.data(), row)));
    if (type.layout == Layout::kFixed || type.layout == Layout::kDictionary) {
        const auto width = static_cast<size_t>(type.layout == Layout::kFixed ? type.byte_width : 4);
        const std::string bytes(reinterpret_cast<const char*>(column.data.data()) + static_cast<size_t>(row) * width,
                                width);
        if (type.layout == Layout::kFixed) return bytes;
        OutputColumn values;  // the dictionary's value, as bytes
        const ColumnView& view = type.dictionary->values;
        const auto index = as<int32_t>(bytes);
        if (view.type->layout == Layout::kFixed) {
            const auto value_width = static_cast<size_t>(view.type->byte_width);
            return std::string(reinterpret_cast<const char*>(view.data) + static_cast<size_t>(index) * value_width,
                               value_width);
        }
        int32_t bounds[2];
        std::memcpy(bounds, view.offsets + index * 4, 8);
        return std::string(reinterpret_cast<const char*>(view.data) + bounds[0],
                           static_cast<size_t>(bounds[1] - bounds[0]));
    }
    int32_t bounds[2];
    std::memcpy(bounds, column.offsets.data() + row * 4, 8);
    const bool list = type.layout == Layout::kList;
    const Buffer& data = list ? column.children[0].data : column.data;
    const int32_t unit = list ? 4 : 1;
    return std::string(reinterpret_cast<const char*>(data.data()) + bounds[0] * unit,
                       static_cast<size_t>((bounds[1] - bounds[0]) * unit));
}

inline Cell output_cell(const OutputColumn& column, int64_t row) {
    if (column.type->layout == Layout::kNull) return std::nullopt;
    if (!column.validity.empty() && !get_bit(column.validity.data(), row)) return std::nullopt;
    return output_bytes(column, row);
}

}  // namespace spillway::test::grouping
