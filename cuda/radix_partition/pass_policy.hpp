// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "radix_partition/radix_policy.hpp"

// The numbers that say which passes go a way of their own: over rows of a width that is bad for them, and over skewed
// keys; and which histograms are counted in slices.
namespace spillway::cuda { inline namespace radix_partitioning {

// Rows of 7 words wait for 7 others of their digit, to be whole sectors together. In passes of 8 bits those that wait
// take so much shared memory that one block of 960 rows has a multiprocessor for itself, and moves as many left-over
// rows as rows of its tile. Rows of 8 words are sectors of their own, and never wait. H200, 94.9 M rows of 7 words and
// of as many with a word of padding, two passes of 8 bits by ncu: 3.43 + 2.62 and 1.77 + 1.70 ms.
constexpr uint32_t kPaddedRowWords = 7;
constexpr bool gains_from_padding(uint32_t row_words, int pass_bits) {
    return row_words == kPaddedRowWords && pass_bits > kFewBits;
}

// A histogram of this many more bits than one block has counters for is counted in slices of the digits, for each of
// which all keys are read, instead of one more time from rows. H200, 16 bits by ncu, from rows and in slices: 94.9 M
// rows of 28 bytes with keys of 4 1.50 and 0.28 ms, 82 M of 8 bytes 0.49 and 0.25, 115 M of 12 bytes with keys of 8
// 0.95 and 0.43.
constexpr int kHistogramSliceBitsMax = 1;

// The digit that had at least a part of so many of a block's last tile is counted by whole warps in the next, as atomic
// operations on one address in shared memory are taken one after the other. Of Zipf keys at most the most frequent one
// has as much in a first pass; in a later one it has whole tiles. H200, 2^27 probe rows of 8 bytes, Zipf 1.5, by ncu
// without and with: first pass 0.81 and 0.77 ms, second 0.89 and 0.71, where unique keys take 0.69 and 0.64; all passes
// of a join of rows of 8 and of 12 bytes, Zipf 1, 3.34 and 3.13, 4.47 and 4.28. Rows of 16 bytes gain nothing.
constexpr uint32_t kHotDigitPart = 5;
constexpr int kHotDigitRowWordsMax = 3;

}}  // namespace spillway::cuda::radix_partitioning
