// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/nearest_mean.hpp"
#include "support/host_table.hpp"

// The group-by that others are compared with: the rows of each group, then each aggregate from the list of its values.
namespace spillway::gpu_test {

enum class ValueKind { kSigned, kUnsigned, kFloat };
enum class Aggregate { kCountRows, kCount, kSum, kMin, kMax, kMean, kFirst };

struct WantedAggregate {
    Aggregate aggregate;
    size_t column = 0;  // not of kCountRows
    ValueKind kind = ValueKind::kSigned;
    // Only rows count that have the least value of this column (kMax: the greatest); 0: all do.
    size_t decided_by = 0;
    ValueKind decided_kind = ValueKind::kUnsigned;
};

inline __int128 integer_value(const HostColumn& column, ValueKind kind, uint64_t row) {
    const bool is_signed = kind == ValueKind::kSigned;
    switch (column.width) {
        case 1:
            return is_signed ? column.value<int8_t>(row) : column.value<uint8_t>(row);
        case 2:
            return is_signed ? column.value<int16_t>(row) : column.value<uint16_t>(row);
        case 4:
            return is_signed ? __int128{column.value<int32_t>(row)} : __int128{column.value<uint32_t>(row)};
        case 8:
            return is_signed ? __int128{column.value<int64_t>(row)} : __int128{column.value<uint64_t>(row)};
        default:
            throw std::logic_error("integers have 1, 2, 4 or 8 bytes");
    }
}

inline double float_value(const HostColumn& column, uint64_t row) {
    return column.width == 4 ? static_cast<double>(column.value<float>(row)) : column.value<double>(row);
}

// Whether the first row's value is below the second's; NaN is above all others.
inline bool is_less(const HostColumn& column, ValueKind kind, uint64_t a, uint64_t b) {
    if (kind == ValueKind::kFloat) {
        const double left = float_value(column, a);
        const double right = float_value(column, b);
        return std::isnan(right) ? !std::isnan(left) : left < right;
    }
    return integer_value(column, kind, a) < integer_value(column, kind, b);
}

inline void push_sum(const HostColumn& column, ValueKind kind, const std::vector<uint64_t>& rows, HostColumn& out) {
    if (kind == ValueKind::kFloat) {
        // Sums depend on the order of their rows unless values are chosen so that every sum is exact, as tests do.
        double sum = 0;
        for (const uint64_t row : rows) sum += float_value(column, row);
        return out.push(sum);
    }
    __int128 sum = 0;
    for (const uint64_t row : rows) sum += integer_value(column, kind, row);
    const bool fits = kind == ValueKind::kSigned ? sum == static_cast<int64_t>(sum) : sum == static_cast<uint64_t>(sum);
    if (!fits) throw std::overflow_error("a sum does not fit 64 bits; give the test smaller values");
    out.push(static_cast<uint64_t>(sum));
}

inline void push_mean(const HostColumn& column, ValueKind kind, const std::vector<uint64_t>& rows, HostColumn& out) {
    double float_sum = 0;
    __int128 sum = 0;
    for (const uint64_t row : rows) {
        if (kind == ValueKind::kFloat) {
            float_sum += float_value(column, row);
        } else {
            sum += integer_value(column, kind, row);
        }
    }
    // The mean of integers is the double nearest to the exact mean, as the CPU engine gives it.
    out.push(kind == ValueKind::kFloat ? float_sum / static_cast<double>(rows.size())
                                       : nearest_mean(sum, rows.size(), 0));
}

// The rows of a group whose values count.
inline std::vector<uint64_t> rows_that_count(const HostTable& table, const WantedAggregate& wanted,
                                             const std::vector<uint64_t>& group) {
    if (wanted.decided_by == 0 || group.empty()) return group;
    const HostColumn& column = table.columns[wanted.decided_by];
    const bool is_max = wanted.aggregate == Aggregate::kMax;
    __int128 best = integer_value(column, wanted.decided_kind, group[0]);
    for (const uint64_t row : group) {
        const __int128 value = integer_value(column, wanted.decided_kind, row);
        best = is_max ? std::max(best, value) : std::min(best, value);
    }
    std::vector<uint64_t> rows;
    for (const uint64_t row : group) {
        if (integer_value(column, wanted.decided_kind, row) == best) rows.push_back(row);
    }
    return rows;
}

// One cell: counts, sums and means in 8 bytes, min, max and first as wide as the column. All but counts are NULL
// without a value, and first where the first row's is.
inline void push_aggregate(const HostTable& table, const WantedAggregate& wanted, const std::vector<uint64_t>& all,
                           HostColumn& out) {
    const std::vector<uint64_t> group = rows_that_count(table, wanted, all);
    if (wanted.aggregate == Aggregate::kCountRows) return out.push(static_cast<uint64_t>(group.size()));
    const HostColumn& column = table.columns[wanted.column];
    std::vector<uint64_t> rows;
    for (const uint64_t row : group) {
        if (column.is_valid(row)) rows.push_back(row);
    }
    if (wanted.aggregate == Aggregate::kCount) return out.push(static_cast<uint64_t>(rows.size()));
    // The one group of a group-by without keys may have no row.
    if (wanted.aggregate == Aggregate::kFirst && !group.empty()) return out.push_from(column, group.front());
    if (rows.empty()) return out.push_null();
    if (wanted.aggregate == Aggregate::kMean) return push_mean(column, wanted.kind, rows, out);
    if (wanted.aggregate == Aggregate::kSum) return push_sum(column, wanted.kind, rows, out);
    const auto less = [&](uint64_t a, uint64_t b) { return is_less(column, wanted.kind, a, b); };
    const bool is_min = wanted.aggregate == Aggregate::kMin;
    const auto found =
        is_min ? std::min_element(rows.begin(), rows.end(), less) : std::max_element(rows.begin(), rows.end(), less);
    out.push_from(column, *found);
}

// The key columns, then the aggregates; NULL is a key like any other. Without keys one group, also of no rows.
inline HostTable reference_group_by(const HostTable& table, const std::vector<size_t>& keys,
                                    const std::vector<WantedAggregate>& aggregates) {
    std::unordered_map<std::string, std::vector<uint64_t>> groups;
    if (keys.empty()) groups[""] = {};
    for (uint64_t row = 0; row < table.rows(); ++row) {
        std::string key;
        for (const size_t column : keys) table.columns[column].append_cell(row, key);
        groups[key].push_back(row);
    }
    HostTable result;
    for (const size_t key : keys) {
        HostColumn out;
        out.width = table.columns[key].width;
        for (const auto& group : groups) out.push_from(table.columns[key], group.second.front());
        result.columns.push_back(std::move(out));
    }
    for (const WantedAggregate& wanted : aggregates) {
        HostColumn out;
        const bool is_value = wanted.aggregate == Aggregate::kMin || wanted.aggregate == Aggregate::kMax ||
                              wanted.aggregate == Aggregate::kFirst;
        out.width = is_value ? table.columns[wanted.column].width : 8;
        for (const auto& group : groups) push_aggregate(table, wanted, group.second, out);
        result.columns.push_back(std::move(out));
    }
    return result;
}

}  // namespace spillway::gpu_test
