// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/hash.hpp"

namespace spillway {

// Counter-based random numbers: the n-th number of a stream is a function of (stream, n), so any batch can be made by
// any worker in any order. mix64 over an odd-step counter is the SplitMix64 generator (Steele, Lea, Flood 2014).
constexpr uint64_t kGoldenStep = 0x9e3779b97f4a7c15ULL;

// Independent streams of one seed; `purpose` is a small constant of the caller.
inline uint64_t random_stream(uint64_t seed, uint64_t purpose) {
    return mix64(mix64(seed ^ 0x5851f42d4c957f2dULL) + (purpose + 1) * kGoldenStep);
}

inline uint64_t random64(uint64_t stream, uint64_t n) {
    return mix64(stream + (n + 1) * kGoldenStep);
}

// [0, range) from 64 random bits by the high half of a product; the bias is below range / 2^64.
inline uint64_t random_below(uint64_t random, uint64_t range) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(random) * range) >> 64);
}

// [0, 1) with 53 bits.
inline double random_unit(uint64_t random) {
    return static_cast<double>(random >> 11) * 0x1p-53;
}

// Successive numbers for one row or order.
class RandomSequence {
  public:
    RandomSequence(uint64_t stream, uint64_t n) : state_(random64(stream, n)) {}
    uint64_t next() {
        state_ += kGoldenStep;
        return mix64(state_);
    }
    // Integer in [low, high].
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(random_below(next(), static_cast<uint64_t>(high - low) + 1));
    }

  private:
    uint64_t state_;
};

}  // namespace spillway
