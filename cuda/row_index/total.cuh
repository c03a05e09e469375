// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "row_index/probe_index.hpp"
#include "stream/result_writer.hpp"
#include "stream/row_tiles.cuh"

namespace spillway::cuda { inline namespace row_index {

// The value of a summed column in a row of its side, as an unsigned number.
__device__ inline uint64_t number_of(const ResultColumn& column, const uint32_t* row) {
    const uint32_t* const from = row + column.offset / 4;
    return column.width == 8 ? from[0] | static_cast<uint64_t>(from[1]) << 32 : from[0];
}

// What a result row adds to the sum of a column; a side without a row adds 0.
template <int kKeyWords>
__device__ inline uint64_t addend(const ResultColumn& column, const uint32_t* build, const uint32_t* probe,
                                  bool has_key) {
    const auto side = static_cast<OutputSide>(column.side);
    if (side == OutputSide::kKey) {
        const uint64_t key = row_key<kKeyWords>(build != nullptr ? build : probe);
        return has_key ? MixedKey<kKeyWords>::unmix(static_cast<typename MixedKey<kKeyWords>::Key>(key)) : 0;
    }
    const uint32_t* const row = side == OutputSide::kBuild ? build : probe;
    return row != nullptr ? number_of(column, row) : 0;
}

// A part of a value that a pair of rows adds to its sum, widened with its sign.
template <int kKeyWords>
__device__ inline uint64_t added(const AddedPart& part, const uint32_t* build, const uint32_t* probe) {
    const auto side = static_cast<OutputSide>(part.side);
    const uint32_t shift = part.offset % 4 * 8;
    uint32_t bits = 0;
    if (side == OutputSide::kKey) {
        const auto mixed = static_cast<typename MixedKey<kKeyWords>::Key>(row_key<kKeyWords>(probe));
        const uint64_t key = MixedKey<kKeyWords>::unmix(mixed);
        bits = static_cast<uint32_t>(key >> (part.offset * 8));
    } else {
        const uint32_t* const row = side == OutputSide::kBuild ? build : probe;
        const int validity = part.validity;
        if (validity >= 0 && (row[validity / 4] >> (validity % 4 * 8) & 0xff) == 0) return 0;
        bits = row[part.offset / 4] >> shift;
    }
    const uint32_t unused = 32 - part.width * 8u;
    bits <<= unused;
    if (part.counts) return bits == 0 ? 0 : 1;
    if (part.is_signed) return static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(bits) >> unused));
    return bits >> unused;
}

// By all lanes of a warp.
__device__ inline void add_total(uint64_t value, uint64_t* total) {
#pragma unroll
    for (uint32_t distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kFullWarp, value, distance);
    if (lane_index() == 0 && value != 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(total), static_cast<unsigned long long>(value));
    }
}

// A sum in two parts, of 32 bits and of the rest, so that no bit is lost where many are added up.
struct SplitSum {
    uint64_t low = 0;
    uint64_t high = 0;

    __device__ void add(uint64_t value, bool is_signed) {
        low += value & 0xffffffff;
        high += is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value) >> 32) : value >> 32;
    }
};

// By all lanes of a warp.
__device__ inline void add_exact(SplitSum sum, uint64_t* total) {
    uint64_t low = sum.low;
    uint64_t high = sum.high;
#pragma unroll
    for (uint32_t distance = 16; distance > 0; distance /= 2) {
        low += __shfl_xor_sync(kFullWarp, low, distance);
        high += __shfl_xor_sync(kFullWarp, high, distance);
    }
    high += low >> 32;
    low &= 0xffffffff;
    if (lane_index() != 0) return;
    if (low != 0) atomicAdd(reinterpret_cast<unsigned long long*>(total), static_cast<unsigned long long>(low));
    if (high != 0) atomicAdd(reinterpret_cast<unsigned long long*>(total + 1), static_cast<unsigned long long>(high));
}

}}  // namespace spillway::cuda::row_index
