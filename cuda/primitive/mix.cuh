// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/host_device.hpp"

namespace spillway::cuda { inline namespace primitive {

// Invertible mixes: a key is stored mixed, so that the stored word is hash and key in one, strided keys spread over the
// partitions, and no other hash is kept. Radix bits come from the top of the word, hash table slots from below them.

// "lowbias32" of C. Wellons' search for integer hashes, with its inverse.
SPILLWAY_HOST_DEVICE inline uint32_t mix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}
SPILLWAY_HOST_DEVICE inline uint32_t unmix32(uint32_t x) {
    x ^= x >> 16;
    x *= 0x43021123U;  // inverse of 0x846ca68b mod 2^32
    x ^= (x >> 15) ^ (x >> 30);
    x *= 0x1d69e2a5U;  // inverse of 0x7feb352d mod 2^32
    x ^= x >> 16;
    return x;
}

// As native/base/hash.hpp: rows partitioned on the CPU and on the GPU must agree.
SPILLWAY_HOST_DEVICE inline uint64_t mix64(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}
SPILLWAY_HOST_DEVICE inline uint64_t unmix64(uint64_t x) {
    x ^= (x >> 31) ^ (x >> 62);
    x *= 0x319642b2d24d8ec3ULL;
    x ^= (x >> 27) ^ (x >> 54);
    x *= 0x96de1b173f119089ULL;
    x ^= (x >> 30) ^ (x >> 60);
    return x;
}

// Mixed keys of 4 or 8 bytes, by the number of 32-bit words that they take in a row.
template <int kKeyWords>
struct MixedKey;
template <>
struct MixedKey<1> {
    using Key = uint32_t;
    SPILLWAY_HOST_DEVICE static Key mix(Key key) { return mix32(key); }
    SPILLWAY_HOST_DEVICE static Key unmix(Key word) { return unmix32(word); }
};
template <>
struct MixedKey<2> {
    using Key = uint64_t;
    SPILLWAY_HOST_DEVICE static Key mix(Key key) { return mix64(key); }
    SPILLWAY_HOST_DEVICE static Key unmix(Key word) { return unmix64(word); }
};

// The bits of a key in reverse order: the radix bits of such a word, its top ones, are the lowest bits of the key, so
// that the keys of a partition are a fixed distance apart, and their other bits the places of an array, as perfect
// hashing wants them.
SPILLWAY_HOST_DEVICE inline uint32_t reverse_bits(uint32_t x) {
#ifdef __CUDA_ARCH__
    return __brev(x);
#else
    x = (x >> 1 & 0x55555555U) | (x & 0x55555555U) << 1;
    x = (x >> 2 & 0x33333333U) | (x & 0x33333333U) << 2;
    x = (x >> 4 & 0x0f0f0f0fU) | (x & 0x0f0f0f0fU) << 4;
    x = (x >> 8 & 0x00ff00ffU) | (x & 0x00ff00ffU) << 8;
    return x >> 16 | x << 16;
#endif
}
SPILLWAY_HOST_DEVICE inline uint64_t reverse_bits(uint64_t x) {
#ifdef __CUDA_ARCH__
    return __brevll(x);
#else
    return uint64_t{reverse_bits(static_cast<uint32_t>(x))} << 32 | reverse_bits(static_cast<uint32_t>(x >> 32));
#endif
}

// Bits [shift, shift + bits) counted from the top of the mixed key's upper 32 bits: shift + bits <= 32.
SPILLWAY_HOST_DEVICE inline uint32_t radix_digit(uint32_t top_word, uint32_t shift, uint32_t mask) {
    return (top_word >> shift) & mask;
}

}}  // namespace spillway::cuda::primitive
