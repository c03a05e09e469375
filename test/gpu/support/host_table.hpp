// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/bitmap.hpp"

// Relations of the GPU tests as plain host memory, laid out as Arrow has fixed-width columns. This header and those
// beside it without "device" in their name hold no CUDA: test/native tests them on machines without a GPU.
namespace spillway::gpu_test {

struct HostColumn {
    uint32_t width = 8;               // bytes of a value
    std::vector<uint8_t> bytes;       // what stands under a NULL means nothing
    std::vector<uint8_t> valid_bits;  // Arrow bitmap; empty = no NULLs

    uint64_t rows() const { return bytes.size() / width; }
    bool is_valid(uint64_t row) const {
        return valid_bits.empty() || get_bit(valid_bits.data(), static_cast<int64_t>(row));
    }
    template <class T>
    T value(uint64_t row) const {
        if (sizeof(T) != width) throw std::logic_error("a column is read with another width");
        T value;
        std::memcpy(&value, bytes.data() + row * width, width);
        return value;
    }
    // The value's bytes after a 1, or a 0 for NULL: equal texts are equal cells.
    void append_cell(uint64_t row, std::string& out) const {
        const bool valid = is_valid(row);
        out += static_cast<char>(valid);
        if (valid) out.append(reinterpret_cast<const char*>(bytes.data() + row * width), width);
    }
    void push_null() {
        const uint64_t row = rows();
        if (valid_bits.empty()) {
            valid_bits.assign(static_cast<size_t>(bitmap_bytes(static_cast<int64_t>(row))), 0xff);
        }
        bytes.resize(bytes.size() + width);
        valid_bits.resize(static_cast<size_t>(bitmap_bytes(static_cast<int64_t>(row + 1))));
        clear_bit(valid_bits.data(), static_cast<int64_t>(row));
    }
    void push_bytes(const void* value) {
        const uint64_t row = rows();
        const auto* from = static_cast<const uint8_t*>(value);
        bytes.insert(bytes.end(), from, from + width);
        if (valid_bits.empty()) return;
        valid_bits.resize(static_cast<size_t>(bitmap_bytes(static_cast<int64_t>(row + 1))));
        set_bit(valid_bits.data(), static_cast<int64_t>(row));
    }
    template <class T>
    void push(T value) {
        if (sizeof(T) != width) throw std::logic_error("a column is written with another width");
        push_bytes(&value);
    }
    void push_from(const HostColumn& other, uint64_t row) {
        if (other.width != width) throw std::logic_error("a cell is copied between columns of different widths");
        other.is_valid(row) ? push_bytes(other.bytes.data() + row * width) : push_null();
    }
};

struct HostTable {
    std::vector<HostColumn> columns;

    uint64_t rows() const { return columns.empty() ? 0 : columns.front().rows(); }
};

template <class T>
HostColumn column_of(const std::vector<T>& values, std::vector<uint8_t> valid_bits = {}) {
    static_assert(std::is_trivially_copyable_v<T>, "a column holds plain values");
    HostColumn column;
    column.width = sizeof(T);
    column.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(column.bytes.data(), values.data(), column.bytes.size());
    column.valid_bits = std::move(valid_bits);
    return column;
}

// Keys are generated in 64 bits; a type that cannot hold one is a mistake of the test.
template <class Key>
HostColumn key_column(const std::vector<uint64_t>& keys, std::vector<uint8_t> valid_bits = {}) {
    std::vector<Key> narrow(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
        narrow[i] = static_cast<Key>(keys[i]);
        if (static_cast<uint64_t>(narrow[i]) != keys[i]) throw std::logic_error("a key does not fit its column");
    }
    return column_of(narrow, std::move(valid_bits));
}

// One text per row, sorted: the multiset of rows.
inline std::vector<std::string> sorted_rows(const HostTable& table) {
    std::vector<std::string> rows(table.rows());
    for (uint64_t row = 0; row < rows.size(); ++row) {
        for (const HostColumn& column : table.columns) column.append_cell(row, rows[row]);
    }
    std::sort(rows.begin(), rows.end());
    return rows;
}

inline std::string row_text(const std::string& row, const HostTable& table) {
    static const char* const kDigits = "0123456789abcdef";
    std::string out = "(";
    size_t at = 0;
    for (const HostColumn& column : table.columns) {
        if (out.size() > 1) out += ", ";
        if (row[at++] == 0) {
            out += "NULL";
            continue;
        }
        out += "0x";  // the highest byte first, as numbers are written
        for (size_t byte = column.width; byte-- > 0;) {
            const auto value = static_cast<unsigned char>(row[at + byte]);
            out += kDigits[value >> 4];
            out += kDigits[value & 15];
        }
        at += column.width;
    }
    return out + ")";
}

// Empty when both tables hold the same rows equally often, in any order; else what the first difference is.
inline std::string row_difference(const HostTable& actual, const HostTable& expected) {
    if (actual.columns.size() != expected.columns.size()) {
        return std::to_string(actual.columns.size()) + " columns, expected " + std::to_string(expected.columns.size());
    }
    for (size_t c = 0; c < actual.columns.size(); ++c) {
        const HostColumn& column = actual.columns[c];
        const std::string name = "column " + std::to_string(c);
        if (column.width != expected.columns[c].width) {
            return name + " has values of " + std::to_string(column.width) + " bytes, expected " +
                   std::to_string(expected.columns[c].width);
        }
        if (column.rows() != actual.rows()) return name + " has another number of rows than column 0";
    }
    const std::vector<std::string> got = sorted_rows(actual);
    const std::vector<std::string> wanted = sorted_rows(expected);
    if (got == wanted) return "";
    std::string text = std::to_string(got.size()) + " rows, expected " + std::to_string(wanted.size()) + "; ";
    const size_t shorter = std::min(got.size(), wanted.size());
    size_t at = 0;
    while (at < shorter && got[at] == wanted[at]) ++at;
    // In the first place where the sorted rows differ, the smaller of both is the one that the other table lacks.
    const bool is_missing = at == got.size() || (at < wanted.size() && wanted[at] < got[at]);
    const std::string& row = is_missing ? wanted[at] : got[at];
    return text + row_text(row, expected) + (is_missing ? " is missing" : " is there too often");
}

}  // namespace spillway::gpu_test
