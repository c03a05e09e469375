// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

// By all lanes of a warp.
__device__ inline void add_total(uint64_t value, uint64_t* total) {
#pragma unroll
    for (uint32_t distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kFullWarp, value, distance);
    if (lane_index() == 0 && value != 0) {
        atomicAdd(reinterpret_cast<unsigned long long*>(total), static_cast<unsigned long long>(value));
    }
}

}}  // namespace spillway::cuda::row_index
