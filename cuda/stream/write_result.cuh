// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "stream/result_writer.hpp"
#include "stream/row_tiles.cuh"

namespace spillway::cuda { inline namespace stream {

// One value of a row to `place` of a column; row nullptr: 0.
__device__ inline void write_value(const ResultColumn& column, uint64_t place, const uint32_t* row) {
    const uint32_t* const from = row + column.offset / 4;
    const uint32_t first = row == nullptr ? 0 : from[0];
    switch (column.width) {
        case 1:
            static_cast<uint8_t*>(column.data)[place] = static_cast<uint8_t>(first >> (column.offset % 4 * 8));
            break;
        case 2:
            static_cast<uint16_t*>(column.data)[place] = static_cast<uint16_t>(first >> (column.offset % 4 * 8));
            break;
        case 4:
            static_cast<uint32_t*>(column.data)[place] = first;
            break;
        case 8:
            static_cast<uint2*>(column.data)[place] = row == nullptr ? make_uint2(0, 0) : make_uint2(first, from[1]);
            break;
        default:
            static_cast<uint4*>(column.data)[place] =
                row == nullptr ? make_uint4(0, 0, 0, 0) : make_uint4(first, from[1], from[2], from[3]);
    }
}

// A result row of a build and a probe row; nullptr where the side has none. has_key: what is there has a key.
template <int kKeyWords>
__device__ inline void write_result(const ResultWindow& window, uint64_t place, const uint32_t* build,
                                    const uint32_t* probe, bool has_key) {
    for (int32_t c = 0; c < window.columns; ++c) {
        const ResultColumn& column = window.column[c];
        const auto side = static_cast<OutputSide>(column.side);
        if (side == OutputSide::kBuild || side == OutputSide::kProbe) {
            write_value(column, place, side == OutputSide::kBuild ? build : probe);
        } else if (side == OutputSide::kPresence) {
            static_cast<uint8_t*>(column.data)[place] =
                static_cast<uint8_t>((build != nullptr ? kBuildPresent : 0) | (probe != nullptr ? kProbePresent : 0) |
                                     (has_key ? kKeyPresent : 0));
        } else {
            using Key = typename MixedKey<kKeyWords>::Key;
            const auto mixed = static_cast<Key>(row_key<kKeyWords>(build != nullptr ? build : probe));
            static_cast<Key*>(column.data)[place] = has_key ? MixedKey<kKeyWords>::unmix(mixed) : Key{0};
        }
    }
}

}}  // namespace spillway::cuda::stream
