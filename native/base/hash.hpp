// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace spillway {

// Invertible 64-bit mix (xor-shift, odd multiply, xor-shift, odd multiply, xor-shift; constants of D. Stafford's
// variant 13 of the MurmurHash3 finalizer). Because it is a bijection, a key of at most 8 bytes is *stored* mixed: the
// row needs no separate hash, equal mixed words mean equal keys, and unmix64 gives the key back on output. Radix bits
// are taken from the top, hash-table slots from the bottom, so that the levels use disjoint bits.
inline uint64_t mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

inline uint64_t unmix64(uint64_t x) {
    x ^= (x >> 31) ^ (x >> 62);
    x *= 0x319642b2d24d8ec3ULL;  // inverse of 0x94d049bb133111eb mod 2^64
    x ^= (x >> 27) ^ (x >> 54);
    x *= 0x96de1b173f119089ULL;  // inverse of 0xbf58476d1ce4e5b9 mod 2^64
    x ^= (x >> 30) ^ (x >> 60);
    return x;
}

// Hash of a byte string: 8 bytes a step, folded with a 128-bit multiply; not cryptographic.
inline uint64_t hash_bytes(const void* bytes, size_t length, uint64_t seed = 0x9e3779b97f4a7c15ULL) {
    const auto* p = static_cast<const unsigned char*>(bytes);
    uint64_t h = seed ^ (length * 0xa0761d6478bd642fULL);
    auto fold = [](uint64_t a, uint64_t b) {
        const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    while (length >= 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        h = fold(h ^ word, 0xe7037ed1a0b428dbULL);
        p += 8;
        length -= 8;
    }
    if (length > 0) {
        uint64_t word = 0;
        std::memcpy(&word, p, length);
        h = fold(h ^ word, 0x8ebc6af09c88c6e3ULL);
    }
    return mix64(h);
}

}  // namespace spillway
