// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "device/error.hpp"

// What the parts of join_pieces.hpp share: lists of ranges with their rows, the next one last.
namespace spillway::cuda { inline namespace hash_join {

inline uint64_t parts_of(uint64_t rows, uint64_t part_rows) {
    return (rows + part_rows - 1) / part_rows;
}

// Counting and joining must agree.
inline void check_rows(uint64_t written, uint64_t counted) {
    if (written == counted) return;
    throw Error(ErrorCode::kInternal, "a piece of a join has " + std::to_string(written) + " rows, and " +
                                          std::to_string(counted) + " were counted");
}

// How many of the last ranges of a list make a piece of at most rows_max rows; one at least.
template <class Range, class RowsOf>
size_t ranges_that_fit(const std::vector<Range>& left, uint64_t rows_max, const RowsOf& rows_of, uint64_t& rows) {
    size_t count = 0;
    for (rows = 0; count < left.size(); ++count) {
        const uint64_t more = rows_of(left[left.size() - 1 - count]);
        if (count > 0 && rows + more > rows_max) break;
        rows += more;
    }
    return count;
}

// In place of the last range, those that it was cut into; the first of them becomes the last.
template <class Range>
void replace_last(std::vector<Range>& left, const std::vector<Range>& parts) {
    left.reserve(left.size() + parts.size());
    left.pop_back();
    left.insert(left.end(), parts.rbegin(), parts.rend());
}

}}  // namespace spillway::cuda::hash_join
