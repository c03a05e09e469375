// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_set>

#include "base/nearest_mean.hpp"
#include "model/stage_spec.hpp"
#include "support/group_by_columns.hpp"
#include "support/test.hpp"

// Group-by the plain way: a std::map of rows, each aggregate computed from the list of its values.
namespace spillway::test::grouping {

struct Wanted {
    AggregateKind kind;
    int32_t column = -1;
};

inline const ColumnType& value_type(const ColumnType& type) {
    return type.layout == Layout::kDictionary ? type.children[0] : type;
}

inline bool is_number(const ColumnType& type) {
    return type.layout == Layout::kBool || (type.layout == Layout::kFixed && type.order != Order::kBytes);
}

inline double float_of(const ColumnType& type, std::string_view bytes) {
    return type.byte_width == 4 ? static_cast<double>(as<float>(bytes)) : as<double>(bytes);
}

inline __int128 integer_of(const ColumnType& type, std::string_view bytes) {
    const size_t width = bytes.size();
    auto value = as<unsigned __int128>(bytes);
    const bool is_signed = type.layout == Layout::kFixed && type.order != Order::kUnsigned;
    const bool negative = is_signed && width < 16 && (bytes[width - 1] & 0x80) != 0;
    if (negative) value -= static_cast<unsigned __int128>(1) << (8 * width);
    return static_cast<__int128>(value);
}

// One representative of values that count as equal. Views, since copies of the values are most of a sanitized run.
inline std::string_view canonical(const ColumnType& type, std::string_view bytes) {
    static const std::string kNan4 = raw(std::nanf(""));
    static const std::string kNan8 = raw(std::nan(""));
    static const std::string kZero(8, '\0');
    if (type.layout != Layout::kFixed || type.order != Order::kFloat) return bytes;
    const double value = float_of(type, bytes);
    if (std::isnan(value)) return type.byte_width == 4 ? kNan4 : kNan8;
    if (value == 0) return std::string_view(kZero).substr(0, bytes.size());
    return bytes;
}

inline bool less(const ColumnType& type, std::string_view a, std::string_view b) {
    if (!is_number(type)) return a < b;
    if (type.order != Order::kFloat || type.layout == Layout::kBool) return integer_of(type, a) < integer_of(type, b);
    const double x = float_of(type, a);
    const double y = float_of(type, b);
    if (std::isnan(x)) return false;
    return std::isnan(y) || x < y;
}

inline std::string sum_of(const ColumnType& type, const std::vector<std::string_view>& values, bool mean) {
    const auto count = static_cast<double>(values.size());
    if (type.layout == Layout::kFixed && type.order == Order::kFloat) {
        long double total = 0;
        for (const std::string_view value : values) total += float_of(type, value);
        return raw(static_cast<double>(mean ? total / count : total));
    }
    __int128 total = 0;
    for (const std::string_view value : values) total += integer_of(type, value);
    if (mean) return raw(nearest_mean(total, values.size(), 0));
    if (type.byte_width == 16) return raw(total);
    return raw(static_cast<uint64_t>(total));
}

inline Cell aggregate_of(const Wanted& wanted, const InputColumn* column, const std::vector<size_t>& rows) {
    if (wanted.kind == AggregateKind::kCountRows) return raw(static_cast<int64_t>(rows.size()));
    const ColumnType& type = value_type(*column->type);
    std::vector<std::string_view> values;
    for (size_t row : rows) {
        if (column->cells[row]) values.push_back(canonical(type, *column->cells[row]));
    }
    switch (wanted.kind) {
        case AggregateKind::kCount:
            return raw(static_cast<int64_t>(values.size()));
        case AggregateKind::kCountDistinct:
            return raw(static_cast<int64_t>(std::unordered_set(values.begin(), values.end()).size()));
        case AggregateKind::kFirst:
            return rows.empty() ? Cell() : column->cells[rows.front()];
        default:
            break;
    }
    if (values.empty()) return std::nullopt;
    const auto compare = [&](std::string_view a, std::string_view b) { return less(type, a, b); };
    switch (wanted.kind) {
        case AggregateKind::kMin:
            return std::string(*std::min_element(values.begin(), values.end(), compare));
        case AggregateKind::kMax:
            return std::string(*std::max_element(values.begin(), values.end(), compare));
        case AggregateKind::kAny:
            return "any of the values";
        default:
            return sum_of(type, values, wanted.kind == AggregateKind::kMean);
    }
}

using Key = std::vector<Cell>;
using Groups = std::map<Key, std::vector<size_t>>;

inline Groups oracle_groups(const std::vector<InputColumn>& columns, const std::vector<int32_t>& keys, size_t rows) {
    Groups groups;
    if (keys.empty()) groups[{}] = {};
    for (size_t row = 0; row < rows; ++row) {
        Key key;
        for (int32_t k : keys) {
            const InputColumn& column = columns[static_cast<size_t>(k)];
            key.push_back(column.cells[row] ? Cell(canonical(value_type(*column.type), *column.cells[row])) : Cell());
        }
        groups[key].push_back(row);
    }
    return groups;
}

inline bool close(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b || std::fabs(a - b) <= 1e-12 * std::max(std::fabs(a), std::fabs(b)) + 1e-9;
}

inline void check_cell(const Wanted& wanted, const InputColumn* column, const std::vector<size_t>& rows,
                       const Cell& got) {
    const Cell expected = aggregate_of(wanted, column, rows);
    bool same = got == expected;
    if (!same && got && expected && wanted.kind == AggregateKind::kAny) {
        for (size_t row : rows) same = same || column->cells[row] == got;
    } else if (!same && got && expected && column != nullptr) {
        const ColumnType& type = value_type(*column->type);
        const bool is_float = type.layout == Layout::kFixed && type.order == Order::kFloat;
        if (is_float && (wanted.kind == AggregateKind::kMean || wanted.kind == AggregateKind::kSum)) {
            same = close(as<double>(*got), as<double>(*expected));
        } else if (is_float) {
            same = canonical(type, *got) == canonical(type, *expected);
        }
    }
    if (same) return;
    std::ostringstream text;
    text << "aggregate kind " << static_cast<int>(wanted.kind) << " of column " << wanted.column << " over "
         << rows.size() << " rows: got " << (got ? "a value" : "NULL") << ", wanted "
         << (expected ? "another value" : "NULL");
    if (got && expected && got->size() == 8 && expected->size() == 8) {
        text << " (" << as<int64_t>(*got) << " / " << as<double>(*got) << ", " << as<int64_t>(*expected) << " / "
             << as<double>(*expected) << ")";
    }
    fail(text.str(), __FILE__, __LINE__);
}

}  // namespace spillway::test::grouping
