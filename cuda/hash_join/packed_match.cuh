// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "materialize/join_output.hpp"
#include "materialize/match_output.cuh"
#include "primitive/mix.cuh"
#include "radix_partition/row_layout.hpp"

// Matches of packed rows, the mixed key first. The columns of a side are described word by word of its row, not field
// by field: a kernel that has the words in registers can only name them with constants.
namespace spillway::cuda { inline namespace hash_join {

// What is wanted of a row, a bit each: columns of 4 bytes by the words of their sides' rows, columns of 8 bytes by
// pairs of words behind the key (fields lie widest first, so that they begin nowhere else), and the rest.
__host__ __device__ constexpr uint32_t word_bit(int side, int word) {
    return 1U << (side * kRowWordsMax + word);
}
__host__ __device__ constexpr uint32_t far_bits(int side) {
    return ((1U << kRowWordsMax / 2) - 1) << (side * kRowWordsMax + kRowWordsMax / 2);
}
constexpr uint32_t kKeyWanted = 1U << 16;
constexpr uint32_t kPresenceWanted = 1U << 17;
constexpr uint32_t kMarksWanted = 1U << 18;
constexpr uint32_t kOtherWidths = 1U << 19;  // << side: it has columns of other widths, in any words
constexpr int kFirstPairBit = 21;
constexpr int kRowPairsMax = kRowWordsMax / 2;
__host__ __device__ constexpr uint32_t pair_bit(int side, int pair) {
    return 1U << (kFirstPairBit + side * kRowPairsMax + pair);
}
__host__ __device__ constexpr uint32_t pair_bits(int side) {
    return ((1U << kRowPairsMax) - 1) << (kFirstPairBit + side * kRowPairsMax);
}
static_assert(kFirstPairBit + kMatchSides * kRowPairsMax <= 32);

struct PackedOutput {
    MatchOutput out;
    uint32_t wanted = 0;
    uint32_t words[kMatchSides] = {};                // of the sides' rows
    uint32_t* data[kMatchSides][kRowWordsMax] = {};  // columns of 4 and 8 bytes, by their first word
    uint8_t begin[kMatchSides][kRowWordsMax] = {};   // columns of other widths that begin at the word are among
    uint8_t end[kMatchSides][kRowWordsMax] = {};     // out.column[begin, end)
};

// One column that begins in from[0].
__device__ inline void write_field(const MatchColumn& column, uint64_t place, const uint32_t (&from)[4]) {
    const uint32_t first = from[0] >> (column.offset % 4 * 8);
    switch (column.width) {
        case 1:
            __stcs(static_cast<unsigned char*>(column.data) + place, static_cast<unsigned char>(first));
            break;
        case 2:
            __stcs(static_cast<unsigned short*>(column.data) + place, static_cast<unsigned short>(first));
            break;
        case 4:
            __stcs(static_cast<uint32_t*>(column.data) + place, first);
            break;
        case 8:
            __stcs(static_cast<uint2*>(column.data) + place, make_uint2(from[0], from[1]));
            break;
        default:
            __stcs(static_cast<uint4*>(column.data) + place, make_uint4(from[0], from[1], from[2], from[3]));
    }
}

// Writes the columns of one side of a row; word(w): the row's word number w < kWords.
template <int kSide, int kKeyWords, int kWords, class Word>
__device__ inline void write_packed_side(const PackedOutput& output, uint32_t wanted, uint64_t place,
                                         const Word& word) {
    constexpr int kNear = kWords < kRowWordsMax / 2 ? kWords : kRowWordsMax / 2;
#pragma unroll
    for (int w = kKeyWords; w < kNear; ++w) {
        if ((wanted & word_bit(kSide, w)) != 0) __stcs(output.data[kSide][w] + place, word(w));
    }
    // One branch for all words that few rows have.
    if (kNear < kWords && (wanted & far_bits(kSide)) != 0) {
#pragma unroll
        for (int w = kNear; w < kWords; ++w) {
            if ((wanted & word_bit(kSide, w)) != 0) __stcs(output.data[kSide][w] + place, word(w));
        }
    }
    if ((wanted & (pair_bits(kSide) | kOtherWidths << kSide)) == 0) return;
#pragma unroll
    for (int w = kKeyWords; w + 1 < kWords; w += 2) {
        if ((wanted & pair_bit(kSide, (w - kKeyWords) / 2)) != 0) {
            __stcs(reinterpret_cast<uint2*>(output.data[kSide][w]) + place, make_uint2(word(w), word(w + 1)));
        }
    }
    if ((wanted & (kOtherWidths << kSide)) == 0) return;
    constexpr int kLast = kWords - 1;
#pragma unroll
    for (int w = kKeyWords; w < kWords; ++w) {
        if (w >= static_cast<int>(output.words[kSide])) break;
        const uint32_t words[4] = {word(w), word(w + 1 < kLast ? w + 1 : kLast), word(w + 2 < kLast ? w + 2 : kLast),
                                   word(w + 3 < kLast ? w + 3 : kLast)};
        for (int c = output.begin[kSide][w]; c < output.end[kSide][w]; ++c) {
            if (output.out.column[c].offset / 4 == w) write_field(output.out.column[c], place, words);
        }
    }
}

// low, high: first and last word of the mixed key.
template <int kKeyWords>
__device__ inline void write_packed_key(const MatchOutput& out, uint64_t place, uint32_t low, uint32_t high) {
    if constexpr (kKeyWords == 1) {
        __stcs(static_cast<uint32_t*>(out.key) + place, unmix32(low));
    } else {
        const uint64_t key = unmix64(low | static_cast<uint64_t>(high) << 32);
        __stcs(static_cast<uint2*>(out.key) + place,
               make_uint2(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)));
    }
}

}}  // namespace spillway::cuda::hash_join
