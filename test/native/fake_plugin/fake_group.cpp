// SPDX-License-Identifier: Apache-2.0
// Group-bys in the most obvious way: the rows of each group, and a loop over them for each aggregate.
#include <algorithm>
#include <cmath>
#include <memory_resource>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "fake_gpu.hpp"
#include "native/base/nearest_mean.hpp"

namespace fake {

namespace {

using Kind = TableAggregateKind;
using Values = TableValueKind;
using Rows = std::vector<uint64_t>;

template <class T>
std::string bytes_of(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

__int128 integer_of(std::string value, Values kind) {
    const bool negative =
        (kind == Values::kSigned || kind == Values::kDecimal) && (static_cast<uint8_t>(value.back()) & 0x80) != 0;
    value.resize(16, negative ? '\xff' : '\0');
    __int128 number;
    std::memcpy(&number, value.data(), 16);
    return number;
}

double float_of(const std::string& value) {
    if (value.size() == 4) {
        float number;
        std::memcpy(&number, value.data(), 4);
        return static_cast<double>(number);
    }
    double number;
    std::memcpy(&number, value.data(), 8);
    return number;
}

// Two's complement of any width, as bytes that compare as the numbers do.
std::string ordered(std::string value) {
    std::reverse(value.begin(), value.end());
    value[0] = static_cast<char>(value[0] ^ '\x80');
    return value;
}

// NaN is the largest value.
bool less(const std::string& a, const std::string& b, Values kind) {
    if (kind == Values::kBytes) return a < b;
    if (kind == Values::kDecimal) return ordered(a) < ordered(b);
    if (kind != Values::kFloat) return integer_of(a, kind) < integer_of(b, kind);
    const double x = float_of(a);
    const double y = float_of(b);
    return std::isnan(y) ? !std::isnan(x) : x < y;
}

double mean_of(const Column& column, const Rows& rows, const TableAggregate& aggregate) {
    uint64_t sum[3] = {};
    for (const uint64_t row : rows) {
        const __int128 value = integer_of(column.at(row), aggregate.value_kind);
        const auto bits = static_cast<unsigned __int128>(value);
        const uint64_t words[3] = {static_cast<uint64_t>(bits), static_cast<uint64_t>(bits >> 64),
                                   value < 0 ? ~0ULL : 0};
        unsigned __int128 carry = 0;
        for (int i = 0; i < 3; ++i) {
            carry += static_cast<unsigned __int128>(sum[i]) + words[i];
            sum[i] = static_cast<uint64_t>(carry);
            carry >>= 64;
        }
    }
    return spillway::nearest_decimal_mean(sum, rows.size(), aggregate.decimal_scale);
}

std::string sum_of(const Column& column, const Rows& rows, const TableAggregate& aggregate) {
    if (aggregate.value_kind == Values::kFloat) {
        long double sum = 0;
        for (const uint64_t row : rows) sum += static_cast<long double>(float_of(column.at(row)));
        if (aggregate.kind == Kind::kMean) sum /= static_cast<long double>(rows.size());
        return bytes_of(static_cast<double>(sum));
    }
    // As on a GPU, means are those of sums in 192 bits.
    if (aggregate.kind == Kind::kMean) return bytes_of(mean_of(column, rows, aggregate));
    __int128 sum = 0;
    bool wraps = false;
    for (const uint64_t row : rows) {
        wraps = __builtin_add_overflow(sum, integer_of(column.at(row), aggregate.value_kind), &sum) || wraps;
    }
    if (aggregate.result_width == 16) {
        const __int128 limit = __int128{10'000'000'000'000'000'000ULL} * 10'000'000'000'000'000'000ULL;
        const bool fits = !wraps && sum < limit && sum > -limit;
        if (!fits) throw Failure{SPILLWAY_CUDA_OVERFLOW, "a sum has more than 38 digits"};
        return bytes_of(sum);
    }
    const bool fits = aggregate.value_kind == Values::kSigned
                          ? sum == static_cast<int64_t>(sum)
                          : sum == static_cast<__int128>(static_cast<uint64_t>(sum));
    if (!fits) throw Failure{SPILLWAY_CUDA_OVERFLOW, "a sum does not fit 64 bits"};
    return bytes_of(static_cast<int64_t>(sum));
}

std::string extreme_of(const Column& column, const Rows& rows, const TableAggregate& aggregate) {
    std::string best = column.at(rows[0]);
    for (const uint64_t row : rows) {
        const std::string value = column.at(row);
        if (aggregate.kind == Kind::kMin ? less(value, best, aggregate.value_kind)
                                         : less(best, value, aggregate.value_kind)) {
            best = value;
        }
    }
    return best;
}

// Counts the distinct values that are not NULL, which are as many as their normalized keys.
int64_t distinct(const Table& table, const Rows& rows, const TableAggregate& aggregate) {
    const Column& column = table.columns[aggregate.column];
    const KeyPartKind kind = aggregate.value_kind == Values::kFloat ? KeyPartKind::kFloat : KeyPartKind::kFixed;
    const KeyPart part{aggregate.column, kind, column.is.width};
    std::unordered_set<std::string> values;
    for (const uint64_t row : rows) values.insert(key_of(table, {&part, 1}, row, true).second);
    return static_cast<int64_t>(values.size());
}

void refuse_unsupported(const Table& table, const TableAggregate& aggregate) {
    const bool adds = aggregate.kind == Kind::kSum || aggregate.kind == Kind::kMean;
    const bool is_sum_of_decimals =
        adds && aggregate.value_kind == Values::kDecimal && table.columns[aggregate.column].is.width == 16;
    if (adds && aggregate.value_kind > Values::kFloat && !is_sum_of_decimals) {
        throw Failure{SPILLWAY_CUDA_UNSUPPORTED, "the fake GPU has no such aggregate"};
    }
}

void add_result(const Table& table, const Rows& all, const TableAggregate& aggregate, ColumnWriter& writer) {
    if (aggregate.kind == Kind::kCountRows) return writer.add(bytes_of(static_cast<int64_t>(all.size())));
    const Column& column = table.columns[aggregate.column];
    Rows rows;
    for (const uint64_t row : all) {
        if (column.valid(row)) rows.push_back(row);
    }
    const uint32_t width = column.is_bytes() ? 0 : aggregate.result_width;
    if (aggregate.kind == Kind::kCountDistinct) return writer.add(bytes_of(distinct(table, rows, aggregate)));
    if (aggregate.kind == Kind::kCount) return writer.add(bytes_of(static_cast<int64_t>(rows.size())));
    const bool first_is_null = aggregate.kind == Kind::kFirst && (all.empty() || !column.valid(all[0]));
    if (rows.empty() || first_is_null) return writer.add_null(width);
    if (aggregate.kind == Kind::kSum || aggregate.kind == Kind::kMean)
        return writer.add(sum_of(column, rows, aggregate));
    if (aggregate.kind == Kind::kMin || aggregate.kind == Kind::kMax)
        return writer.add(extreme_of(column, rows, aggregate));
    writer.add(column.at(rows[0]));
}

// The rows of all groups, one group behind the other. A list for each group would leave behind small blocks, which stay
// resident: a test watches that.
class Groups {
  public:
    Groups(const Table& table, const ListView<KeyPart>& keys) {
        const std::vector<uint32_t> group_of = numbers(table, keys);
        std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), 0U);
        rows_.resize(table.rows);
        for (uint64_t row = 0; row < table.rows; ++row) rows_[ends_[group_of[row]]++] = static_cast<uint32_t>(row);
    }
    uint64_t size() const { return ends_.size(); }
    Rows rows(uint64_t group) const {
        const uint32_t begin = group == 0 ? 0 : ends_[group - 1];
        return Rows(rows_.begin() + begin, rows_.begin() + ends_[group]);
    }

  private:
    // The group of each row; counts those of each in ends_.
    std::vector<uint32_t> numbers(const Table& table, const ListView<KeyPart>& keys) {
        std::pmr::monotonic_buffer_resource memory;
        std::pmr::unordered_map<std::string, uint32_t> index(&memory);
        std::vector<uint32_t> group_of(table.rows);
        if (keys.empty()) ends_.push_back(0);
        for (uint64_t row = 0; row < table.rows; ++row) {
            const auto next = static_cast<uint32_t>(ends_.size());
            if (!keys.empty()) group_of[row] = index.emplace(key_of(table, keys, row, true).second, next).first->second;
            if (group_of[row] == next) ends_.push_back(0);
            ++ends_[group_of[row]];
        }
        return group_of;
    }
    std::vector<uint32_t> ends_;
    std::vector<uint32_t> rows_;
};

}  // namespace

Table group(spillway_cuda_gpu* gpu, const Table& table, const TableGroupBy& group) {
    const Groups groups(table, group.keys);
    Table result;
    result.rows = groups.size();
    for (const KeyPart& key : group.keys) {
        const Column& column = table.columns[key.column];
        ColumnWriter writer;
        for (uint64_t i = 0; i < groups.size(); ++i) {
            const Rows rows = groups.rows(i);
            column.valid(rows[0]) ? writer.add(column.at(rows[0]))
                                  : writer.add_null(column.is_bytes() ? 0 : column.is.width);
        }
        result.columns.push_back(writer.finish(gpu, column.is.kind, column.is.width));
    }
    for (const TableAggregate& aggregate : group.aggregates) {
        refuse_unsupported(table, aggregate);
        ColumnWriter writer;
        for (uint64_t i = 0; i < groups.size(); ++i) add_result(table, groups.rows(i), aggregate, writer);
        const bool chosen = aggregate.kind == Kind::kFirst || aggregate.kind == Kind::kAny ||
                            aggregate.kind == Kind::kMin || aggregate.kind == Kind::kMax;
        const bool bytes = chosen && table.columns[aggregate.column].is_bytes();
        result.columns.push_back(
            writer.finish(gpu, bytes ? ColumnKind::kBytes : ColumnKind::kFixed, bytes ? 0 : aggregate.result_width));
    }
    return result;
}

}  // namespace fake
