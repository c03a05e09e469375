// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/bitmap.hpp"
#include "generate/permutation.hpp"
#include "generate/random.hpp"
#include "generate/zipf.hpp"
#include "support/host_table.hpp"

// Keys, payloads and NULLs as a function of a seed. Keys come as 64-bit numbers; key_column<Key>() narrows them.
namespace spillway::gpu_test {

// Streams of one seed: columns of the same relation must not be functions of each other.
enum class Purpose : uint64_t { kPermutation, kSparse, kRank, kHot, kPlace, kNull, kPayload };
inline uint64_t stream_of(uint64_t seed, Purpose purpose) {
    return random_stream(seed, static_cast<uint64_t>(purpose));
}

// 0 .. rows - 1, each once, shuffled.
inline std::vector<uint64_t> dense_permutation(uint64_t rows, uint64_t seed) {
    const Permutation permutation(rows, stream_of(seed, Purpose::kPermutation));
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) keys[row] = permutation(row);
    return keys;
}

// Different keys all over 64 bits. The same seed and place give the same key, so that two relations can meet: rows
// [first, first + rows) of one seed share keys with those of another range where the ranges overlap.
inline std::vector<uint64_t> sparse_keys(uint64_t rows, uint64_t seed, uint64_t first = 0) {
    std::vector<uint64_t> keys(rows);
    // A bijection of the place: no two are equal.
    for (uint64_t row = 0; row < rows; ++row) keys[row] = random64(stream_of(seed, Purpose::kSparse), first + row);
    return keys;
}

// Keys 0 .. distinct - 1, of which the k-th most frequent comes with probability k^-exponent / H. Which key is how
// frequent is shuffled: else the frequent ones would be neighbours and share a partition.
inline std::vector<uint64_t> zipf_keys(uint64_t rows, uint64_t distinct, double exponent, uint64_t seed) {
    const ZipfDistribution zipf(distinct, exponent);
    const Permutation permutation(distinct, stream_of(seed, Purpose::kPermutation));
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) {
        RandomSequence random(stream_of(seed, Purpose::kRank), row);
        keys[row] = permutation(zipf.sample(random) - 1);
    }
    return keys;
}

// One key in `hot_share` of the rows on average, keys that nobody shares in the others. The hot key is a random one:
// special values like 0 are tested by name where they matter.
inline std::vector<uint64_t> one_hot_key(uint64_t rows, double hot_share, uint64_t seed) {
    std::vector<uint64_t> keys = sparse_keys(rows, seed);
    const uint64_t hot = random64(stream_of(seed, Purpose::kSparse), rows);  // of no row
    for (uint64_t row = 0; row < rows; ++row) {
        if (random_unit(random64(stream_of(seed, Purpose::kHot), row)) < hot_share) keys[row] = hot;
    }
    return keys;
}

// Each of these keys `multiplicity` times, shuffled: with m on one side and n on the other, m * n pairs per key.
inline std::vector<uint64_t> repeated_keys(const std::vector<uint64_t>& distinct, uint64_t multiplicity,
                                           uint64_t seed) {
    const uint64_t rows = distinct.size() * multiplicity;
    const Permutation permutation(rows, stream_of(seed, Purpose::kPlace));
    std::vector<uint64_t> keys(rows);
    for (uint64_t row = 0; row < rows; ++row) keys[permutation(row)] = distinct[row / multiplicity];
    return keys;
}

// Arrow bitmap in which `null_share` of the rows are NULL on average. Bits behind the last row are random: nothing may
// depend on them.
inline std::vector<uint8_t> null_mask(uint64_t rows, double null_share, uint64_t seed) {
    const uint64_t stream = stream_of(seed, Purpose::kNull);
    std::vector<uint8_t> bits(static_cast<size_t>(bitmap_bytes(static_cast<int64_t>(rows))));
    for (uint64_t bit = 0; bit < bits.size() * 8; ++bit) {
        if (random_unit(random64(stream, bit)) >= null_share) set_bit(bits.data(), static_cast<int64_t>(bit));
    }
    return bits;
}

// Random bytes of any width; `column` tells the payload columns of one relation apart.
inline HostColumn payload_column(uint64_t rows, uint32_t width, uint64_t seed, uint64_t column = 0) {
    const uint64_t stream = random_stream(stream_of(seed, Purpose::kPayload), column);
    HostColumn payload;
    payload.width = width;
    payload.bytes.resize(rows * width);
    for (uint64_t at = 0; at < payload.bytes.size(); at += 8) {
        const uint64_t word = random64(stream, at);
        std::memcpy(payload.bytes.data() + at, &word, std::min<uint64_t>(8, payload.bytes.size() - at));
    }
    return payload;
}

}  // namespace spillway::gpu_test
