// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bitmap.hpp"

namespace spillway {

// Ranges of bits at any bit offset, a machine word at a time where that is safe: a word is loaded only when all of its
// bytes hold bits of the range, so nothing past the last byte of the bitmap is ever touched.

// 64 bits starting at `bit`; the caller promises that bits [bit, bit + 64) exist.
inline uint64_t load_bits64(const uint8_t* bits, int64_t bit) {
    uint64_t word;
    std::memcpy(&word, bits + (bit >> 3), 8);
    const int shift = static_cast<int>(bit & 7);
    if (shift == 0) return word;
    return (word >> shift) | (static_cast<uint64_t>(bits[(bit >> 3) + 8]) << (64 - shift));
}

inline int64_t count_set_bits(const uint8_t* bits, int64_t bit, int64_t count) {
    int64_t set = 0;
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) set += __builtin_popcountll(load_bits64(bits, bit + i));
    for (; i < count; ++i) set += get_bit(bits, bit + i);
    return set;
}

inline bool all_bits_set(const uint8_t* bits, int64_t bit, int64_t count) {
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        if (load_bits64(bits, bit + i) != ~0ULL) return false;
    }
    for (; i < count; ++i) {
        if (!get_bit(bits, bit + i)) return false;
    }
    return true;
}

// Copies bits to a byte boundary; the bits behind the last one in its byte become 0.
inline void copy_bits_aligned(const uint8_t* bits, int64_t bit, int64_t count, uint8_t* out) {
    int64_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const uint64_t word = load_bits64(bits, bit + i);
        std::memcpy(out + (i >> 3), &word, 8);
    }
    if (i == count) return;
    std::memset(out + (i >> 3), 0, static_cast<size_t>(bitmap_bytes(count - i)));
    for (; i < count; ++i) {
        if (get_bit(bits, bit + i)) set_bit(out, i);
    }
}

inline void fill_bits(uint8_t* bits, int64_t bit, int64_t count, bool value) {
    for (; count > 0 && (bit & 7) != 0; --count, ++bit) assign_bit(bits, bit, value);
    if (count >= 8) std::memset(bits + (bit >> 3), value ? 0xff : 0, static_cast<size_t>(count >> 3));
    bit += count & ~int64_t{7};
    for (count &= 7; count > 0; --count, ++bit) assign_bit(bits, bit, value);
}

// Appends `count` bits of `bits` behind bit `out_bit` of `out`.
inline void copy_bits(const uint8_t* bits, int64_t bit, int64_t count, uint8_t* out, int64_t out_bit) {
    if ((out_bit & 7) == 0) return copy_bits_aligned(bits, bit, count, out + (out_bit >> 3));
    for (int64_t i = 0; i < count; ++i) assign_bit(out, out_bit + i, get_bit(bits, bit + i));
}

}  // namespace spillway
