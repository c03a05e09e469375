// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <ostream>
#include <stdexcept>
#include <vector>

#include "base/hash.hpp"
#include "support/host_table.hpp"

// A hash of a multiset of rows: the sums, modulo 2^64, of two independent mixes of each row. Sums do not depend on the
// order of rows and, unlike an exclusive or, see how often each occurs. Two results of billions of rows are compared by
// it where they cannot be sorted.
//
// The function, which exists twice (row_hash_device.cu has its own code, not this one):
//   a row starts with the states kLowStart and kHighStart;
//   each cell, column by column: every 64-bit word of the value (narrow ones zero-extended, of 16 bytes first the low
//   word) is taken into both states, s = mix((s ^ word) + kValueStep); NULL is one word 0 with kNullStep;
//   `low` sums the one state, mixed as in base/hash.hpp, `high` the other, mixed as at the end of MurmurHash3.
namespace spillway::gpu_test {

struct RowHash {
    uint64_t low = 0;
    uint64_t high = 0;

    bool operator==(const RowHash& other) const { return low == other.low && high == other.high; }
    bool operator!=(const RowHash& other) const { return !(*this == other); }
    // Parts of a table that were hashed apart.
    RowHash operator+(const RowHash& other) const { return {low + other.low, high + other.high}; }
};

inline std::ostream& operator<<(std::ostream& out, const RowHash& hash) {
    const auto flags = out.flags();
    out << std::hex << hash.high << ":" << hash.low;
    out.flags(flags);
    return out;
}

// A column wherever it lies: host_row_hash wants host memory, device_row_hash what a kernel can read.
struct HashColumn {
    const void* values;
    uint32_t width;                       // 1, 2, 4, 8 or 16
    const uint8_t* valid_bits = nullptr;  // Arrow bitmap, nullptr = no NULLs
};

constexpr uint64_t kLowStart = 0x243f6a8885a308d3;  // digits of pi
constexpr uint64_t kHighStart = 0x13198a2e03707344;
constexpr uint64_t kValueStep = 0x9e3779b97f4a7c15;
constexpr uint64_t kNullStep = 0xd1b54a32d192ed03;

inline void check_hash_width(uint32_t width) {
    if (width == 1 || width == 2 || width == 4 || width == 8 || width == 16) return;
    throw std::invalid_argument("a row hash takes columns of 1, 2, 4, 8 or 16 bytes");
}

inline uint64_t murmur_mix(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccd;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53;
    x ^= x >> 33;
    return x;
}

inline void hash_word(uint64_t word, uint64_t step, RowHash& row) {
    row.low = mix64((row.low ^ word) + step);
    row.high = murmur_mix((row.high ^ word) + step);
}

inline RowHash host_row_hash(const std::vector<HashColumn>& columns, uint64_t rows) {
    for (const HashColumn& column : columns) check_hash_width(column.width);
    RowHash sum;
    for (uint64_t row = 0; row < rows; ++row) {
        RowHash state{kLowStart, kHighStart};
        for (const HashColumn& column : columns) {
            if (column.valid_bits != nullptr && !get_bit(column.valid_bits, static_cast<int64_t>(row))) {
                hash_word(0, kNullStep, state);
                continue;
            }
            uint64_t words[2] = {0, 0};
            std::memcpy(words, static_cast<const uint8_t*>(column.values) + row * column.width, column.width);
            hash_word(words[0], kValueStep, state);
            if (column.width == 16) hash_word(words[1], kValueStep, state);
        }
        sum = sum + state;
    }
    return sum;
}

inline RowHash host_row_hash(const HostTable& table) {
    std::vector<HashColumn> columns;
    for (const HostColumn& column : table.columns) {
        const uint8_t* valid_bits = column.valid_bits.empty() ? nullptr : column.valid_bits.data();
        columns.push_back({column.bytes.data(), column.width, valid_bits});
    }
    return host_row_hash(columns, table.rows());
}

}  // namespace spillway::gpu_test
