// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

namespace spillway::packing {

// A block is 128 rows: two lanes of 64, lane = row % 2. Each lane is a bit string of `width` whole 64-bit words, so a
// block of one row word takes `width` vectors of 16 bytes and every shift is a constant. Vertical layout after Lemire
// and Boytsov (2015); two 64-bit lanes because SSE2, NEON and VSX all have them: no dispatch, one format everywhere.
constexpr uint32_t kLanes = 2;
constexpr uint32_t kBlockRows = 128;
constexpr int kWordBits = 64;

using Lanes = uint64_t __attribute__((vector_size(16)));

inline uint64_t load_word(const uint8_t* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}
inline void store_word(uint8_t* at, uint64_t word) {
    std::memcpy(at, &word, sizeof word);
}

// Step I of packing: the values of rows 2 I and 2 I + 1 enter at bit I * W of their lanes.
template <int W, int I>
[[gnu::always_inline]] inline void pack_step(const uint8_t*& row, uint64_t stride, Lanes base, Lanes& gathered,
                                             uint8_t*& out) {
    constexpr int kAt = I * W % kWordBits;
    const Lanes value = Lanes{load_word(row), load_word(row + stride)} - base;
    row += kLanes * stride;
    if constexpr (kAt == 0) {
        gathered = value;
    } else {
        gathered |= value << kAt;
    }
    if constexpr (kAt + W >= kWordBits) {
        std::memcpy(out, &gathered, sizeof gathered);
        out += sizeof gathered;
        if constexpr (kAt + W > kWordBits) gathered = value >> (kWordBits - kAt);
    }
}

template <int W, int... I>
void pack_block(const uint8_t* rows, uint64_t stride, uint64_t base, uint8_t* out, std::integer_sequence<int, I...>) {
    Lanes gathered{};
    const Lanes bases{base, base};
    (pack_step<W, I>(rows, stride, bases, gathered, out), ...);
}

template <int W, int I>
[[gnu::always_inline]] inline void unpack_step(const uint8_t*& in, Lanes& bits, Lanes base, uint8_t*& row,
                                               uint64_t stride) {
    constexpr int kAt = I * W % kWordBits;
    constexpr uint64_t kMask = W == kWordBits ? ~uint64_t{0} : (uint64_t{1} << (W % kWordBits)) - 1;
    if constexpr (kAt == 0) {
        std::memcpy(&bits, in, sizeof bits);
        in += sizeof bits;
    }
    Lanes value = bits >> kAt;
    if constexpr (kAt + W > kWordBits) {
        std::memcpy(&bits, in, sizeof bits);
        in += sizeof bits;
        value |= bits << (kWordBits - kAt);
    }
    if constexpr (kAt + W != kWordBits) value &= Lanes{kMask, kMask};
    value += base;
    store_word(row, value[0]);
    store_word(row + stride, value[1]);
    row += kLanes * stride;
}

template <int W, int... I>
void unpack_block(const uint8_t* in, uint64_t base, uint8_t* rows, uint64_t stride, std::integer_sequence<int, I...>) {
    Lanes bits{};
    const Lanes bases{base, base};
    (unpack_step<W, I>(in, bits, bases, rows, stride), ...);
}

using PackBlock = void (*)(const uint8_t* rows, uint64_t stride, uint64_t base, uint8_t* out);
using UnpackBlock = void (*)(const uint8_t* in, uint64_t base, uint8_t* rows, uint64_t stride);

template <int W>
void pack_block_of(const uint8_t* rows, uint64_t stride, uint64_t base, uint8_t* out) {
    pack_block<W>(rows, stride, base, out, std::make_integer_sequence<int, kWordBits>());
}
template <int W>
void unpack_block_of(const uint8_t* in, uint64_t base, uint8_t* rows, uint64_t stride) {
    unpack_block<W>(in, base, rows, stride, std::make_integer_sequence<int, kWordBits>());
}

template <>
inline void pack_block_of<0>(const uint8_t*, uint64_t, uint64_t, uint8_t*) {}
template <>
inline void unpack_block_of<0>(const uint8_t*, uint64_t base, uint8_t* rows, uint64_t stride) {
    for (uint32_t i = 0; i < kBlockRows; ++i) store_word(rows + i * stride, base);
}

template <int... W>
constexpr std::array<PackBlock, sizeof...(W)> pack_table(std::integer_sequence<int, W...>) {
    return {pack_block_of<W>...};
}
template <int... W>
constexpr std::array<UnpackBlock, sizeof...(W)> unpack_table(std::integer_sequence<int, W...>) {
    return {unpack_block_of<W>...};
}

// Index = width, 0 .. 64.
constexpr auto kPackBlock = pack_table(std::make_integer_sequence<int, kWordBits + 1>());
constexpr auto kUnpackBlock = unpack_table(std::make_integer_sequence<int, kWordBits + 1>());

}  // namespace spillway::packing
