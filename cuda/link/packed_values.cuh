// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "api/packed_block.hpp"
#include "link/link_policy.hpp"
#include "primitive/warp.cuh"

// Blocks of packed values (api/packed_block.hpp), each (un)packed by the threads of a block of the kernel.
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

constexpr uint32_t kPackedWordsMax = packed_bytes(64) / sizeof(uint4);

// What one thread loads of a block's words. They go to shared memory from there: threads of several warps want the same
// ones, which then cross the link once.
struct PackedWords {
    uint4 word[kPackedWordsMax / kLinkThreads];
};
struct StagedWords {
    uint4 word[kPackedWordsMax];
};

// host: line 0 of the blocks.
__device__ inline PackedWords load_words(const uint8_t* host, const PackedBlock& block) {
    const auto* const from = reinterpret_cast<const uint4*>(host + uint64_t{block.line} * 64);
    PackedWords words;
#pragma unroll
    for (uint32_t i = 0; i < kPackedWordsMax / kLinkThreads; ++i) {
        const uint32_t at = i * kLinkThreads + threadIdx.x;
        if (at < packed_bytes(block.bits) / sizeof(uint4)) words.word[i] = from[at];
    }
    return words;
}

__device__ inline void store_words(const PackedWords& words, const PackedBlock& block, StagedWords& staged) {
#pragma unroll
    for (uint32_t i = 0; i < kPackedWordsMax / kLinkThreads; ++i) {
        const uint32_t at = i * kLinkThreads + threadIdx.x;
        if (at < packed_bytes(block.bits) / sizeof(uint4)) staged.word[at] = words.word[i];
    }
}

// All of the staged words are there.
__device__ inline void unpack_block(const StagedWords& staged, const PackedBlock& block, uint32_t width,
                                    uint64_t values, uint32_t tile, uint8_t* device) {
    const uint32_t planes = packed_planes(width);
    const uint64_t index = tile / planes;
    const uint32_t count = values_of_block(values, index);
    uint8_t* const out = device + index * kPackedValues * width;
    const auto* const narrow = reinterpret_cast<const uint32_t*>(staged.word);
    const auto* const wide = reinterpret_cast<const uint64_t*>(staged.word);
    if (width == 1) unpack_words(narrow, block, count, out, 1);
    if (width == 2) unpack_words(narrow, block, count, reinterpret_cast<uint16_t*>(out), 1);
    if (width == 4) unpack_words(narrow, block, count, reinterpret_cast<uint32_t*>(out), 1);
    if (width >= 8) unpack_words(wide, block, count, reinterpret_cast<uint64_t*>(out) + tile % planes, planes);
}

__device__ inline uint32_t bits_of_range(uint32_t range) {
    return 32 - __clz(static_cast<int>(range));
}
__device__ inline uint32_t bits_of_range(uint64_t range) {
    return 64 - __clzll(static_cast<long long>(range));
}

template <class Signed>
struct ValueRange {
    Signed least;
    Signed largest;
};

// Of all lanes of a warp.
template <class Signed>
__device__ ValueRange<Signed> warp_range(ValueRange<Signed> range) {
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
        const Signed least = __shfl_xor_sync(kFullWarp, range.least, distance);
        const Signed largest = __shfl_xor_sync(kFullWarp, range.largest, distance);
        range.least = least < range.least ? least : range.least;
        range.largest = largest > range.largest ? largest : range.largest;
    }
    return range;
}

// Shared memory in which a block is packed.
struct PackingMemory {
    uint64_t values[kPackedValues];
    int64_t least[kLinkThreads / kWarpThreads];
    int64_t largest[kLinkThreads / kWarpThreads];
};

// The values go to shared memory, with the ranges of all warps.
template <class Word, class Signed, class Value>
__device__ void load_values(const Value* in, uint32_t stride, uint32_t count, PackingMemory& memory) {
    auto* const value = reinterpret_cast<Word*>(memory.values);
    ValueRange<Signed> range{};
    for (uint32_t i = threadIdx.x; i < kPackedValues; i += kLinkThreads) {
        // A missing value is the first one: it changes no range.
        const auto read = static_cast<Signed>(static_cast<std::make_signed_t<Value>>(in[i < count ? i * stride : 0]));
        value[i] = static_cast<Word>(read);
        range.least = i == threadIdx.x || read < range.least ? read : range.least;
        range.largest = i == threadIdx.x || read > range.largest ? read : range.largest;
    }
    range = warp_range(range);
    if (lane_index() == 0) {
        memory.least[threadIdx.x / kWarpThreads] = range.least;
        memory.largest[threadIdx.x / kWarpThreads] = range.largest;
    }
}

// Word k of a lane has the values of all rows that reach into its bits. value_bits: of a value as the column has it.
template <class Word>
__device__ void store_words(const PackingMemory& memory, uint32_t value_bits, uint32_t count, uint8_t* host,
                            PackedBlock& told, uint32_t line) {
    using Lane = Lanes<Word>;
    const auto* const value = reinterpret_cast<const Word*>(memory.values);
    auto* const out = reinterpret_cast<Word*>(host + uint64_t{line} * 64);
    int64_t least = memory.least[0];
    int64_t largest = memory.largest[0];
    for (int warp = 1; warp < kLinkThreads / kWarpThreads; ++warp) {
        least = memory.least[warp] < least ? memory.least[warp] : least;
        largest = memory.largest[warp] > largest ? memory.largest[warp] : largest;
    }
    const uint32_t bits = bits_of_range(static_cast<Word>(static_cast<Word>(largest) - static_cast<Word>(least)));
    const Word base = bits == Lane::kBits ? Word{0} : static_cast<Word>(least);
    if (threadIdx.x == 0) told = {static_cast<uint64_t>(base & low_bits<Word>(value_bits)), line, bits};
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

// host, blocks: of the column.
__device__ inline void pack_block(const uint8_t* device, uint32_t width, uint64_t values, uint32_t tile, uint8_t* host,
                                  PackedBlock* blocks) {
    __shared__ PackingMemory memory;
    const uint32_t planes = packed_planes(width);
    const uint64_t index = tile / planes;
    const uint32_t count = values_of_block(values, index);
    const uint8_t* const in = device + index * kPackedValues * width;
    const auto* const in16 = reinterpret_cast<const uint16_t*>(in);
    const auto* const in32 = reinterpret_cast<const uint32_t*>(in);
    const auto* const in64 = reinterpret_cast<const uint64_t*>(in) + tile % planes;
    if (width == 1) load_values<uint32_t, int32_t>(in, 1, count, memory);
    if (width == 2) load_values<uint32_t, int32_t>(in16, 1, count, memory);
    if (width == 4) load_values<uint32_t, int32_t>(in32, 1, count, memory);
    if (width >= 8) load_values<uint64_t, int64_t>(in64, planes, count, memory);
    __syncthreads();
    const uint32_t line = tile * (kPackedValues / 64) * (width / planes);
    if (width < 8) store_words<uint32_t>(memory, 8 * width, count, host, blocks[tile], line);
    if (width >= 8) store_words<uint64_t>(memory, 64, count, host, blocks[tile], line);
    __syncthreads();
}

}}  // namespace spillway::cuda::link
