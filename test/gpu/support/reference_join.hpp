// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "support/host_table.hpp"

// The join that others are compared with: no idea in it but the definition of its result (docs/semantics.md).
namespace spillway::gpu_test {

enum class JoinType { kInner, kLeft, kRight, kFull, kSemi, kAnti };

constexpr JoinType kAllJoinTypes[] = {JoinType::kInner, JoinType::kLeft, JoinType::kRight,
                                      JoinType::kFull,  JoinType::kSemi, JoinType::kAnti};

constexpr uint64_t kNoRow = ~uint64_t{0};

// The bytes of a row's key; nothing when one of them is NULL, for such a key has no partner. Bytes that differ are
// different keys: floats come here with one NaN and without -0.
inline std::optional<std::string> key_of(const HostTable& table, const std::vector<size_t>& keys, uint64_t row) {
    std::string key;
    for (const size_t column : keys) {
        if (!table.columns[column].is_valid(row)) return std::nullopt;
        table.columns[column].append_cell(row, key);
    }
    return key;
}

// Row numbers (left, right) of the result, kNoRow where a side has none. Semi and anti joins have no right rows.
inline std::vector<std::pair<uint64_t, uint64_t>> reference_pairs(const HostTable& left, const HostTable& right,
                                                                  const std::vector<size_t>& left_keys,
                                                                  const std::vector<size_t>& right_keys,
                                                                  JoinType type) {
    std::unordered_map<std::string, std::vector<uint64_t>> right_rows;
    for (uint64_t row = 0; row < right.rows(); ++row) {
        if (const auto key = key_of(right, right_keys, row)) right_rows[*key].push_back(row);
    }
    const bool pairs = type != JoinType::kSemi && type != JoinType::kAnti;
    const bool keeps_left = type == JoinType::kLeft || type == JoinType::kFull || type == JoinType::kAnti;
    const bool keeps_right = type == JoinType::kRight || type == JoinType::kFull;
    std::vector<std::pair<uint64_t, uint64_t>> result;
    std::vector<bool> right_matched(right.rows());
    for (uint64_t row = 0; row < left.rows(); ++row) {
        const auto key = key_of(left, left_keys, row);
        const auto found = key ? right_rows.find(*key) : right_rows.end();
        if (found == right_rows.end()) {
            if (keeps_left) result.emplace_back(row, kNoRow);
            continue;
        }
        if (type == JoinType::kSemi) result.emplace_back(row, kNoRow);
        for (const uint64_t partner : found->second) {
            right_matched[partner] = true;
            if (pairs) result.emplace_back(row, partner);
        }
    }
    for (uint64_t row = 0; keeps_right && row < right.rows(); ++row) {
        if (!right_matched[row]) result.emplace_back(kNoRow, row);
    }
    return result;
}

// All columns of the left table, then (not for semi and anti joins) all of the right one, its keys included.
inline HostTable reference_join(const HostTable& left, const HostTable& right, const std::vector<size_t>& left_keys,
                                const std::vector<size_t>& right_keys, JoinType type) {
    const auto pairs = reference_pairs(left, right, left_keys, right_keys, type);
    HostTable result;
    const auto append = [&](const HostTable& table, uint64_t std::pair<uint64_t, uint64_t>::*side) {
        for (const HostColumn& column : table.columns) {
            HostColumn out;
            out.width = column.width;
            for (const auto& pair : pairs) {
                pair.*side == kNoRow ? out.push_null() : out.push_from(column, pair.*side);
            }
            result.columns.push_back(std::move(out));
        }
    };
    append(left, &std::pair<uint64_t, uint64_t>::first);
    if (type != JoinType::kSemi && type != JoinType::kAnti) {
        append(right, &std::pair<uint64_t, uint64_t>::second);
    }
    return result;
}

}  // namespace spillway::gpu_test
