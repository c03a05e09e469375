// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "api/packed_block.hpp"

// Packed columns bit by bit, as api/packed_block.hpp describes them. Each block begins where its values would if they
// lay as they are.
namespace spillway::gpu_test {

class PackedBits {
  public:
    // words: of a block of values of `width` bytes, of which each has `bits`.
    PackedBits(uint8_t* words, uint32_t width, uint32_t bits)
        : words_(words),
          bits_(bits),
          lanes_(cuda::packed_lanes(width)),
          word_bits_(8 * cuda::packed_word_bytes(width)) {}

    uint64_t read(uint64_t value) const {
        uint64_t read = 0;
        for (uint32_t bit = 0; bit < bits_; ++bit) {
            const auto [byte, at] = place_of(value, bit);
            read |= static_cast<uint64_t>(words_[byte] >> at & 1) << bit;
        }
        return read;
    }
    // Over words of 0.
    void write(uint64_t value, uint64_t written) {
        for (uint32_t bit = 0; bit < bits_; ++bit) {
            const auto [byte, at] = place_of(value, bit);
            if ((written >> bit & 1) != 0) words_[byte] = static_cast<uint8_t>(words_[byte] | 1U << at);
        }
    }

  private:
    std::pair<uint64_t, uint32_t> place_of(uint64_t value, uint32_t bit) const {
        const uint64_t in_lane = value / lanes_ * bits_ + bit;
        const uint64_t word = in_lane / word_bits_ * lanes_ + value % lanes_;
        return {word * (word_bits_ / 8) + in_lane % word_bits_ / 8, static_cast<uint32_t>(in_lane % 8)};
    }
    uint8_t* words_;
    const uint64_t bits_;
    const uint64_t lanes_;
    const uint64_t word_bits_;
};

// What one block holds: values of 16 bytes are two planes.
struct PackedPlane {
    PackedPlane(uint64_t block, uint32_t width, uint64_t values) {
        const uint32_t planes = cuda::packed_planes(width);
        const uint64_t first = block / planes * cuda::kPackedValues;
        bytes = width / planes;
        at = first * width + block % planes * bytes;
        count = std::min<uint64_t>(cuda::kPackedValues, values - first);
        stride = width;
    }
    uint64_t at;  // of the first value, in bytes
    uint64_t count;
    uint32_t bytes;   // of what is packed
    uint32_t stride;  // from value to value
    int64_t value(const uint8_t* values, uint64_t i) const {
        uint64_t bits = 0;
        std::memcpy(&bits, values + at + i * stride, bytes);
        const uint32_t unused = 64 - 8 * bytes;
        return static_cast<int64_t>(bits << unused) >> unused;
    }
};

inline uint64_t packed_blocks(uint32_t width, uint64_t values) {
    return (values + cuda::kPackedValues - 1) / cuda::kPackedValues * cuda::packed_planes(width);
}

inline uint32_t bits_of_range(uint64_t range) {
    uint32_t bits = 0;
    for (; range != 0; range >>= 1) ++bits;
    return bits;
}

inline void pack_reference(const uint8_t* from, uint32_t width, uint64_t values, void* words,
                           cuda::PackedBlock* blocks) {
    for (uint64_t b = 0; b < packed_blocks(width, values); ++b) {
        const PackedPlane plane(b, width, values);
        int64_t least = plane.value(from, 0);
        int64_t largest = least;
        for (uint64_t i = 0; i < plane.count; ++i) {
            least = std::min(least, plane.value(from, i));
            largest = std::max(largest, plane.value(from, i));
        }
        cuda::PackedBlock& block = blocks[b];
        block.bits = bits_of_range(static_cast<uint64_t>(largest) - static_cast<uint64_t>(least));
        if (block.bits == 8 * cuda::packed_word_bytes(width)) least = 0;
        block.base = static_cast<uint64_t>(least) & (~uint64_t{0} >> (64 - 8 * plane.bytes));
        block.line = static_cast<uint32_t>(b * cuda::kPackedValues / 64 * plane.bytes);
        uint8_t* const to = static_cast<uint8_t*>(words) + uint64_t{block.line} * 64;
        std::memset(to, 0, cuda::packed_bytes(block.bits));
        PackedBits packed(to, width, block.bits);
        for (uint64_t i = 0; i < plane.count; ++i) {
            packed.write(i, static_cast<uint64_t>(plane.value(from, i)) - static_cast<uint64_t>(least));
        }
    }
}

inline void unpack_reference(const cuda::PackedBlock* blocks, void* words, uint32_t width, uint64_t values,
                             uint8_t* to) {
    for (uint64_t b = 0; b < packed_blocks(width, values); ++b) {
        const PackedPlane plane(b, width, values);
        const PackedBits packed(static_cast<uint8_t*>(words) + uint64_t{blocks[b].line} * 64, width, blocks[b].bits);
        for (uint64_t i = 0; i < plane.count; ++i) {
            const uint64_t value = packed.read(i) + blocks[b].base;
            std::memcpy(to + plane.at + i * plane.stride, &value, plane.bytes);
        }
    }
}

}  // namespace spillway::gpu_test
