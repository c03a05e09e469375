// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/row_layout.hpp"
#include "transfer/source.hpp"

namespace spillway {

// What the planner wants to know about key columns before it plans.
struct KeyStatistics {
    uint64_t rows = 0;
    uint64_t nulls = 0;      // rows with a NULL in any key column, among the rows looked at
    bool has_range = false;  // one integer key of at most 8 bytes and at least one non-NULL row
    int64_t min = 0;         // two's complement; unsigned 64-bit keys as their bit pattern
    int64_t max = 0;
    uint64_t sampled_rows = 0;
    uint64_t sampled_distinct = 0;
    uint64_t piece_distinct =
        0;  // distinct keys of each piece of the sample, added up: few where equal keys lie together
    // Mean share of the range that the rows of a piece span: near 0 where keys lie in order, 1 where in none.
    double piece_range_share = 1;
    double heaviest_share = 0;  // share of the sample taken by its most frequent key
};

// Reads sample_rows rows in pieces spread evenly over the source (exact_range: all rows, for min, max and nulls).
KeyStatistics key_statistics(Source& source, const std::vector<KeySpec>& keys, int64_t sample_rows, bool exact_range,
                             int workers, MemoryBudget& budget, JobControl& control);

struct SampledPairs {
    // Estimated pairs of rows with equal keys of the whole relations.
    double pairs = 0;
    // Pieces of one side with a piece of the other side that has an equal key. Where both sides are sorted alike, many
    // pairs of rows come of few of these, and the estimate is as good as so few draws are.
    uint64_t pieces = 0;
};

// Pairs among sample_rows rows of each side, in pieces at random places, times what share of all pairs the samples can
// hold. Keys of n rows that all have a partner show sample_rows^2 / n pairs.
SampledPairs sampled_pairs(Source& left, const std::vector<KeySpec>& left_keys, Source& right,
                           const std::vector<KeySpec>& right_keys, int64_t sample_rows, MemoryBudget& budget,
                           JobControl& control);

}  // namespace spillway
