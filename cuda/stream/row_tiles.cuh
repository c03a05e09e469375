// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "primitive/mix.cuh"
#include "primitive/warp.cuh"
#include "stream/row_pieces.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

constexpr uint32_t kStreamWarps = kStreamThreads / kWarpThreads;

// The tile of this block.
struct RowTile {
    uint64_t piece = 0;
    uint64_t offset = 0;  // of its first row in the piece
    uint32_t rows = 0;
};

// Every thread of the block finds it on its own: the searched array is small and in the caches.
__device__ inline RowTile row_tile(const PieceTiles& tiles) {
    const uint64_t index = blockIdx.x;
    RowTile tile;
    tile.piece = last_not_above(tiles.first_tile, tiles.pieces, index);
    tile.offset = (index - tiles.first_tile[tile.piece]) * kTileRows;
    const uint64_t left = tiles.piece[tile.piece].rows - tile.offset;
    tile.rows = static_cast<uint32_t>(left < kTileRows ? left : kTileRows);
    return tile;
}

// The mixed key of a row, its first words.
template <int kKeyWords>
__device__ inline uint64_t row_key(const uint32_t* row) {
    if constexpr (kKeyWords == 1) {
        return row[0];
    } else {
        return row[0] | static_cast<uint64_t>(row[1]) << 32;
    }
}

__device__ inline bool equal_words(const uint32_t* a, const uint32_t* b, uint32_t words) {
    bool equal = true;
    for (uint32_t w = 0; w < words; ++w) equal = equal && a[w] == b[w];
    return equal;
}

// The bits behind the partition's.
template <int kKeyWords>
__device__ inline uint64_t bucket_of(uint64_t mixed_key, uint32_t radix_bits, uint32_t bucket_bits) {
    constexpr uint32_t kKeyBits = kKeyWords * 32;
    if (bucket_bits == 0) return 0;
    return (mixed_key << (64 - kKeyBits + radix_bits)) >> (64 - bucket_bits);
}

}}  // namespace spillway::cuda::stream
