// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "relation/key_columns.hpp"
#include "support/generators.hpp"
#include "support/reference_join.hpp"
#include "support/test_table.hpp"

// Keys of every kind out of small numbers, and what the reference join takes for them.
namespace spillway::gpu_test {

using cuda::KeyPart;
using cuda::KeyPartKind;

enum class KeyCase {
    kInt32,
    kInt64,
    kWidened,  // int16 on the build side, int64 on the probe side
    kInt8,     // takes a word of 4 bytes
    kFloat,    // with NaN of several bit patterns, -0 and +0
    kDouble,   // float on the probe side
    kFixed3,   // bytes of no word's width
    kPacked,   // int32, int16
    kWide,     // int64, int32: more than a word
    kFixed12,  // compared as bytes
    kString,   // empty, short and long ones
    kMixed     // string, int32, 16 bytes
};
constexpr KeyCase kAllKeyCases[] = {KeyCase::kInt32, KeyCase::kInt64,   KeyCase::kWidened, KeyCase::kInt8,
                                    KeyCase::kFloat, KeyCase::kDouble,  KeyCase::kFixed3,  KeyCase::kPacked,
                                    KeyCase::kWide,  KeyCase::kFixed12, KeyCase::kString,  KeyCase::kMixed};

inline std::vector<uint64_t> small_numbers(uint64_t rows, uint64_t domain, uint64_t seed) {
    std::vector<uint64_t> numbers(rows);
    for (uint64_t row = 0; row < rows; ++row) numbers[row] = random64(seed, row) % domain;
    return numbers;
}

template <class T, class Body>
std::vector<T> mapped(const std::vector<uint64_t>& numbers, Body&& body) {
    std::vector<T> values;
    for (uint64_t row = 0; row < numbers.size(); ++row) values.push_back(static_cast<T>(body(numbers[row], row)));
    return values;
}

// Numbers 0 and 1 are zeros and NaNs, of different signs and bits from row to row.
inline double special_double(uint64_t number, uint64_t row) {
    if (number == 0) return row % 2 == 0 ? 0.0 : -0.0;
    if (number == 1) {
        const double nan = std::numeric_limits<double>::quiet_NaN();
        return row % 2 == 0 ? nan : -nan;
    }
    return static_cast<double>(number) * 0.5 - 3;
}

inline std::string key_text(uint64_t number) {
    if (number == 0) return "";
    std::string text = "key " + std::to_string(number);
    // Texts that differ behind a long common part, and beginnings of others.
    if (number % 3 == 0) text = std::string(number % 50, 'x') + text;
    return text;
}

// Numbers as `bytes` bytes each, the last ones different.
inline HostColumn fixed_bytes(const std::vector<uint64_t>& numbers, uint32_t bytes) {
    HostColumn column;
    column.width = bytes;
    for (const uint64_t number : numbers) {
        std::vector<uint8_t> value(bytes, 7);
        value[bytes - 1] = static_cast<uint8_t>(number);
        value[bytes - 2] = static_cast<uint8_t>(number >> 8);
        column.push_bytes(value.data());
    }
    return column;
}

// Adds key columns to tables.
class KeyMaker {
  public:
    KeyMaker(TestTable& table, const std::vector<uint64_t>& numbers, double null_share, bool is_build, uint64_t seed)
        : table_(table), numbers_(numbers), null_share_(null_share), is_build_(is_build), seed_(seed) {}

    std::vector<KeyPart> add(KeyCase key) {
        switch (key) {
            case KeyCase::kInt32:
                return {integer<int32_t>(4, [](uint64_t n) { return static_cast<int64_t>(n) * 77 - 900; })};
            case KeyCase::kInt64:
                return {integer<int64_t>(8, [](uint64_t n) { return static_cast<int64_t>(n) * 0x123456789ab - 5; })};
            case KeyCase::kWidened:
                return {is_build_ ? integer<int16_t>(8, [](uint64_t n) { return static_cast<int64_t>(n) - 9; })
                                  : integer<int64_t>(8, [](uint64_t n) { return static_cast<int64_t>(n) - 9; })};
            case KeyCase::kInt8:
                return {integer<uint8_t>(1, [](uint64_t n) { return n % 256; })};
            case KeyCase::kFloat:
                return {number<float>(4)};
            case KeyCase::kDouble:
                return {is_build_ ? number<double>(8) : number<float>(8)};
            case KeyCase::kFixed3:
                return {fixed(3)};
            case KeyCase::kPacked:
                return {integer<int32_t>(4, [](uint64_t n) { return n % 7; }),
                        integer<int16_t>(2, [](uint64_t n) { return n / 7; })};
            case KeyCase::kWide:
                return {integer<int64_t>(8, [](uint64_t n) { return n % 7; }),
                        integer<int32_t>(4, [](uint64_t n) { return n / 7; })};
            case KeyCase::kFixed12:
                return {fixed(12)};
            case KeyCase::kString:
                return {string()};
            case KeyCase::kMixed:
                return {string(), integer<int32_t>(4, [](uint64_t n) { return n % 2; }), fixed(16)};
        }
        throw std::logic_error("a case without keys");
    }

  private:
    std::vector<uint8_t> nulls() {
        return null_share_ > 0 ? null_mask(numbers_.size(), null_share_, seed_ + 31 * ++parts_)
                               : std::vector<uint8_t>();
    }
    template <class T, class Body>
    KeyPart integer(uint32_t width, Body&& body) {
        const auto values = mapped<T>(numbers_, [&](uint64_t n, uint64_t) { return body(n); });
        const KeyPartKind kind = std::is_signed_v<T> ? KeyPartKind::kSigned : KeyPartKind::kUnsigned;
        return {table_.add(column_of(values, nulls())), kind, width};
    }
    template <class T>
    KeyPart number(uint32_t width) {
        return {table_.add(column_of(mapped<T>(numbers_, special_double), nulls())), KeyPartKind::kFloat, width};
    }
    KeyPart fixed(uint32_t width) {
        HostColumn column = fixed_bytes(numbers_, width);
        column.valid_bits = nulls();
        return {table_.add(column), KeyPartKind::kFixed, width};
    }
    KeyPart string() {
        const auto texts = mapped<std::string>(numbers_, [](uint64_t n, uint64_t) { return key_text(n); });
        return {table_.add_strings(texts, nulls()), KeyPartKind::kBytes, 0};
    }

    TestTable& table_;
    const std::vector<uint64_t>& numbers_;
    const double null_share_;
    const bool is_build_;
    const uint64_t seed_;
    uint64_t parts_ = 0;
};

inline int64_t widened(const HostColumn& column, bool is_signed, uint64_t row) {
    switch (column.width) {
        case 1:
            return is_signed ? column.value<int8_t>(row) : column.value<uint8_t>(row);
        case 2:
            return is_signed ? column.value<int16_t>(row) : column.value<uint16_t>(row);
        case 4:
            return is_signed ? column.value<int32_t>(row) : int64_t{column.value<uint32_t>(row)};
        default:
            return column.value<int64_t>(row);
    }
}

// One of the values that are equal to this one, in 8 bytes for all numbers.
inline void push_canonical(const HostColumn& from, KeyPartKind kind, uint64_t row, HostColumn& to) {
    if (kind == KeyPartKind::kFixed || kind == KeyPartKind::kBytes) return to.push_from(from, row);
    if (kind != KeyPartKind::kFloat) return to.push(widened(from, kind == KeyPartKind::kSigned, row));
    const double value = from.width == 4 ? static_cast<double>(from.value<float>(row)) : from.value<double>(row);
    const bool is_nan = value != value;
    const bool is_zero = value == 0;
    to.push(is_nan ? std::numeric_limits<double>::quiet_NaN() : is_zero ? 0.0 : value);
}

// Columns whose bytes are equal where keys are. NULL equal to NULL: no NULLs, but a column that says where they were.
inline HostTable reference_keys(const HostTable& table, const std::vector<KeyPart>& parts, bool nulls_equal) {
    HostTable keys;
    for (const KeyPart& part : parts) {
        const HostColumn& from = table.columns[part.column];
        HostColumn values;
        HostColumn flags;
        flags.width = 1;
        values.width = part.kind == KeyPartKind::kFixed ? from.width : 8;
        const std::vector<uint8_t> zeros(values.width);
        for (uint64_t row = 0; row < table.rows(); ++row) {
            flags.push(static_cast<uint8_t>(from.is_valid(row)));
            if (from.is_valid(row)) {
                push_canonical(from, part.kind, row, values);
            } else {
                nulls_equal ? values.push_bytes(zeros.data()) : values.push_null();
            }
        }
        keys.columns.push_back(std::move(values));
        if (nulls_equal) keys.columns.push_back(std::move(flags));
    }
    return keys;
}

inline std::vector<size_t> all_of(const HostTable& table) {
    std::vector<size_t> columns(table.columns.size());
    for (size_t c = 0; c < columns.size(); ++c) columns[c] = c;
    return columns;
}

}  // namespace spillway::gpu_test
