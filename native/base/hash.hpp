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

// The `length` < 8 bytes at `bytes` as a number, the first one lowest. Two loads that overlap: a copy of a length that
// a compiler does not know is a call.
inline uint64_t load_below_8(const unsigned char* bytes, size_t length) {
    if (length >= 4) {
        uint32_t first;
        uint32_t last;
        std::memcpy(&first, bytes, 4);
        std::memcpy(&last, bytes + length - 4, 4);
        return first | (static_cast<uint64_t>(last) << (8 * (length - 4)));
    }
    if (length == 0) return 0;
    const size_t middle = length / 2;
    return bytes[0] | (static_cast<uint64_t>(bytes[middle]) << (8 * middle)) |
           (static_cast<uint64_t>(bytes[length - 1]) << (8 * (length - 1)));
}

// Hash of a byte string: 8 bytes a step, folded with a 128-bit multiply, and of long ones 32, in two chains that do not
// wait for each other; not cryptographic.
inline uint64_t hash_bytes(const void* bytes, size_t length, uint64_t seed = 0x9e3779b97f4a7c15ULL) {
    const auto* p = static_cast<const unsigned char*>(bytes);
    uint64_t h = seed ^ (length * 0xa0761d6478bd642fULL);
    const auto fold = [](uint64_t a, uint64_t b) {
        const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
        return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    };
    const auto word = [](const unsigned char* at) {
        uint64_t loaded;
        std::memcpy(&loaded, at, 8);
        return loaded;
    };
    constexpr uint64_t kFirst = 0xe7037ed1a0b428dbULL;
    constexpr uint64_t kSecond = 0x8ebc6af09c88c6e3ULL;
    if (length > 32) {
        uint64_t other = h;
        for (; length > 32; p += 32, length -= 32) {
            h = fold(h ^ word(p), kFirst ^ word(p + 8));
            other = fold(other ^ word(p + 16), kSecond ^ word(p + 24));
        }
        h ^= other;
    }
    for (; length > 16; p += 16, length -= 16) h = fold(h ^ word(p), kFirst ^ word(p + 8));
    for (; length >= 8; p += 8, length -= 8) h = fold(h ^ word(p), kFirst);
    if (length > 0) h = fold(h ^ load_below_8(p, length), kSecond);
    return mix64(h);
}

}  // namespace spillway
