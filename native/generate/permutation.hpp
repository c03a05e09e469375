// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/error.hpp"
#include "generate/random.hpp"

namespace spillway {

// Seeded bijection on [0, n): shuffled unique keys without an array of them. A Feistel network on pairs (left, right)
// of Z_a x Z_b with a * b barely above n (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002); the rare
// results outside [0, n) are sent through again until they fall inside. With halves of whole bits instead, up to half
// of all values would go around, and the branch predictor would not know which.
class Permutation {
  public:
    Permutation(uint64_t n, uint64_t stream) : n_(n) {
        SPILLWAY_CHECK(n <= uint64_t{1} << 62);
        right_range_ = std::max<uint64_t>(1, static_cast<uint64_t>(std::sqrt(static_cast<double>(n))));
        left_range_ = std::max<uint64_t>(1, (n + right_range_ - 1) / right_range_);
        for (int round = 0; round < kRounds; ++round) round_keys_[round] = random64(stream, round);
    }

    uint64_t operator()(uint64_t value) const {
        do {
            value = permute(value);
        } while (value >= n_);
        return value;
    }

  private:
    // Four rounds of a random function give a strong pseudo-random permutation (Luby and Rackoff 1988); two more for
    // a function that is only a good hash.
    static constexpr int kRounds = 6;

    // The halves change in turn, each by a function of the other: invertible whatever the function.
    uint64_t permute(uint64_t value) const {
        uint64_t left = value / right_range_;
        uint64_t right = value % right_range_;
        for (int round = 0; round < kRounds; round += 2) {
            left = add(left, scramble(right, round_keys_[round]), left_range_);
            right = add(right, scramble(left, round_keys_[round + 1]), right_range_);
        }
        return left * right_range_ + right;
    }

    static uint64_t add(uint64_t half, uint64_t random, uint64_t range) {
        const uint64_t sum = half + random_below(random, range);
        return sum >= range ? sum - range : sum;
    }

    // random_below uses the top bits: the second product brings every input bit there, nonlinearly through the
    // xor-shift.
    static uint64_t scramble(uint64_t half, uint64_t key) {
        uint64_t word = (half ^ key) * 0xd6e8feb86659fd93ULL;
        word ^= word >> 32;
        return word * 0xe7037ed1a0b428dbULL;
    }

    uint64_t n_;
    uint64_t left_range_ = 1;
    uint64_t right_range_ = 1;
    std::array<uint64_t, kRounds> round_keys_{};
};

// Bijection on 32 bits (the finalizer constants of MurmurHash3), the narrow sibling of mix64.
inline uint32_t mix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    x ^= x >> 16;
    return x;
}

}  // namespace spillway
