// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "api/packed_block.hpp"
#include "link/link_policy.hpp"
#include "primitive/warp.cuh"

// A block of packed values (api/packed_block.hpp), (un)packed by a block of threads.
namespace spillway::cuda { inline namespace link {

// Values that a block has: all, but for the last block of a column.
__device__ inline uint32_t values_of_block(uint64_t values, uint64_t block) {
    const uint64_t rest = values - block * kPackedValues;
    return rest < kPackedValues ? static_cast<uint32_t>(rest) : kPackedValues;
}

template <class Word>
struct Lanes {
    static constexpr uint32_t kCount = 128 / sizeof(Word);
    static constexpr uint32_t kBits = 8 * sizeof(Word);
};

template <class Word>
__device__ Word low_bits(uint32_t bits) {
    return bits >= Lanes<Word>::kBits ? ~Word{0} : static_cast<Word>((Word{1} << bits) - 1);
}

// Value i goes to out[i * stride].
template <class Word, class Value>
__device__ void unpack_words(const Word* words, const PackedBlock& block, uint32_t count, Value* out, uint32_t stride) {
    using Lane = Lanes<Word>;
    const Word mask = low_bits<Word>(block.bits);
    for (uint32_t i = threadIdx.x; i < count; i += kLinkThreads) {
        Word value = 0;
        if (block.bits > 0) {
            const uint32_t at = i / Lane::kCount * block.bits;
            const uint32_t shift = at % Lane::kBits;
            const Word* const word = words + at / Lane::kBits * Lane::kCount + i % Lane::kCount;
            value = word[0] >> shift;
            if (shift + block.bits > Lane::kBits) value |= word[Lane::kCount] << (Lane::kBits - shift);
        }
        out[i * stride] = static_cast<Value>((value & mask) + static_cast<Word>(block.base));
    }
}

// Words go to shared memory first: threads of several warps want the same ones, which then cross the link once.
__device__ inline void unpack_block(const uint8_t* host, const PackedBlock& told, uint32_t width, uint64_t values,
                                    uint32_t tile, uint8_t* device) {
    __shared__ uint4 staged[packed_bytes(64) / sizeof(uint4)];
    const PackedBlock block = told;
    const auto* const from = reinterpret_cast<const uint4*>(host + uint64_t{block.line} * 64);
    for (uint32_t i = threadIdx.x; i < packed_bytes(block.bits) / sizeof(uint4); i += kLinkThreads) staged[i] = from[i];
    __syncthreads();
    const uint32_t planes = packed_planes(width);
    const uint64_t index = tile / planes;
    const uint32_t count = values_of_block(values, index);
    uint8_t* const out = device + index * kPackedValues * width;
    const auto* const narrow = reinterpret_cast<const uint32_t*>(staged);
    const auto* const wide = reinterpret_cast<const uint64_t*>(staged);
    switch (width) {
        case 1:
            return unpack_words(narrow, block, count, out, 1);
        case 2:
            return unpack_words(narrow, block, count, reinterpret_cast<uint16_t*>(out), 1);
        case 4:
            return unpack_words(narrow, block, count, reinterpret_cast<uint32_t*>(out), 1);
        default:
            return unpack_words(wide, block, count, reinterpret_cast<uint64_t*>(out) + tile % planes, planes);
    }
}

// The least and the largest of all threads' values.
template <class Signed>
__device__ void block_range(Signed& least, Signed& largest) {
    constexpr int kWarps = kLinkThreads / kWarpThreads;
    __shared__ Signed of_warp[2][kWarps];
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        const Signed other_least = __shfl_xor_sync(kFullWarp, least, distance);
        const Signed other_largest = __shfl_xor_sync(kFullWarp, largest, distance);
        least = other_least < least ? other_least : least;
        largest = other_largest > largest ? other_largest : largest;
    }
    if (threadIdx.x % kWarpThreads == 0) {
        of_warp[0][threadIdx.x / kWarpThreads] = least;
        of_warp[1][threadIdx.x / kWarpThreads] = largest;
    }
    __syncthreads();
    for (int warp = 0; warp < kWarps; ++warp) {
        least = of_warp[0][warp] < least ? of_warp[0][warp] : least;
        largest = of_warp[1][warp] > largest ? of_warp[1][warp] : largest;
    }
}

__device__ inline uint32_t bits_of_range(uint32_t range) {
    return 32 - __clz(static_cast<int>(range));
}
__device__ inline uint32_t bits_of_range(uint64_t range) {
    return 64 - __clzll(static_cast<long long>(range));
}

// Word k of a lane has the values of all rows that reach into its bits. `staged`: shared memory for all values.
template <class Word, class Signed, class Value>
__device__ void pack_words(const Value* in, uint32_t stride, uint32_t count, void* staged, uint8_t* host,
                           PackedBlock& told, uint32_t line) {
    using Lane = Lanes<Word>;
    auto* const value = static_cast<Word*>(staged);
    auto* const out = reinterpret_cast<Word*>(host + uint64_t{line} * 64);
    Signed least = 0;
    Signed largest = 0;
    for (uint32_t i = threadIdx.x; i < kPackedValues; i += kLinkThreads) {
        // A missing value is the first one: it changes no range.
        const auto read = static_cast<Signed>(static_cast<std::make_signed_t<Value>>(in[i < count ? i * stride : 0]));
        value[i] = static_cast<Word>(read);
        least = i == threadIdx.x || read < least ? read : least;
        largest = i == threadIdx.x || read > largest ? read : largest;
    }
    block_range(least, largest);
    const uint32_t bits = bits_of_range(static_cast<Word>(static_cast<Word>(largest) - static_cast<Word>(least)));
    const Word base = bits == Lane::kBits ? Word{0} : static_cast<Word>(least);
    if (threadIdx.x == 0) told = {static_cast<uint64_t>(base & low_bits<Word>(8 * sizeof(Value))), line, bits};
    for (uint32_t i = threadIdx.x; i < Lane::kCount * bits; i += kLinkThreads) {
        const uint32_t lane = i % Lane::kCount;
        const uint32_t begin = i / Lane::kCount * Lane::kBits;
        Word word = 0;
        for (uint32_t row = begin / bits; row * bits < begin + Lane::kBits && row < kPackedValues / Lane::kCount;
             ++row) {
            const Word bare = row * Lane::kCount + lane < count ? value[row * Lane::kCount + lane] - base : 0;
            word |= row * bits < begin ? bare >> (begin - row * bits) : bare << (row * bits - begin);
        }
        out[i] = word;
    }
}

__device__ inline void pack_block(const uint8_t* device, uint32_t width, uint64_t values, uint32_t tile, uint8_t* host,
                                  PackedBlock* blocks) {
    __shared__ uint64_t staged[kPackedValues];
    const uint32_t planes = packed_planes(width);
    const uint64_t index = tile / planes;
    const uint32_t count = values_of_block(values, index);
    const uint32_t line = tile * kPackedValues / 64 * (width / planes);
    const uint8_t* const in = device + index * kPackedValues * width;
    const auto* const in16 = reinterpret_cast<const uint16_t*>(in);
    const auto* const in32 = reinterpret_cast<const uint32_t*>(in);
    const auto* const in64 = reinterpret_cast<const uint64_t*>(in) + tile % planes;
    PackedBlock& told = blocks[tile];
    switch (width) {
        case 1:
            return pack_words<uint32_t, int32_t>(in, 1, count, staged, host, told, line);
        case 2:
            return pack_words<uint32_t, int32_t>(in16, 1, count, staged, host, told, line);
        case 4:
            return pack_words<uint32_t, int32_t>(in32, 1, count, staged, host, told, line);
        default:
            return pack_words<uint64_t, int64_t>(in64, planes, count, staged, host, told, line);
    }
}

}}  // namespace spillway::cuda::link
