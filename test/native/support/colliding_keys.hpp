// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.hpp"

// Different keys whose 64 bits of hash are the same. By chance that happens to nobody; but hash_bytes() is no secret,
// and whoever makes the keys can compute such ones as it is done here.
namespace spillway::test {

// The first or the second of the n-th two strings of 16 bytes. seed: of hash_bytes().
inline std::string colliding_key(uint64_t n, bool second, uint64_t seed = 0x9e3779b97f4a7c15ULL) {
    const uint64_t start = seed ^ (16 * 0xa0761d6478bd642fULL);
    const auto after_a_word = [start](uint64_t word) {
        const unsigned __int128 product = static_cast<unsigned __int128>(start ^ word) * 0xe7037ed1a0b428dbULL;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    uint64_t words[2] = {n, ~n};
    if (second) {
        // What differs after the first word is taken back by the second.
        words[0] = n + 1'000'000'007;
        words[1] = ~n ^ after_a_word(n) ^ after_a_word(words[0]);
    }
    return std::string(reinterpret_cast<const char*>(words), sizeof words);
}

// 16 bytes that hash as the first 8 of them alone do, which are n.
inline std::string key_with_hash_of_its_beginning(uint64_t n, uint64_t seed = 0x9e3779b97f4a7c15ULL) {
    const auto start = [seed](uint64_t length) { return seed ^ (length * 0xa0761d6478bd642fULL); };
    const unsigned __int128 product = static_cast<unsigned __int128>(start(16) ^ n) * 0xe7037ed1a0b428dbULL;
    const uint64_t after_n = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    // With this word, the second step of the longer key is the first and only one of the shorter.
    const uint64_t words[2] = {n, after_n ^ start(8) ^ n};
    return std::string(reinterpret_cast<const char*>(words), sizeof words);
}

}  // namespace spillway::test
