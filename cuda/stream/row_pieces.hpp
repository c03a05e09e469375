// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "memory_model/stream_memory.hpp"
#include "stream/parcels.hpp"
#include "stream/stream_policy.hpp"

namespace spillway::cuda { inline namespace stream {

// Rows of one partition that lie one behind the other.
struct RowPiece {
    uint64_t begin = 0;  // first row
    uint64_t rows = 0;
    uint64_t partition = 0;
};
static_assert(sizeof(RowPiece) == kRowPieceBytes);

// Packed rows in device memory (RowLayout, the mixed key first), in pieces.
struct RowPieces {
    const uint32_t* rows = nullptr;
    uint32_t row_words = 1;
    std::vector<RowPiece> pieces;  // none is empty
};

// Pieces as kernels see them, cut into tiles of kTileRows rows, one per block.
struct PieceTiles {
    const RowPiece* piece = nullptr;
    const uint64_t* first_tile = nullptr;  // [pieces + 1]
    uint64_t pieces = 0;
    uint64_t tiles = 0;
};

// The first tile of each piece, and the number of all tiles behind them.
template <class Piece>
std::vector<uint64_t> first_tiles_of(const std::vector<Piece>& pieces) {
    std::vector<uint64_t> first_tile;
    first_tile.reserve(pieces.size() + 1);
    uint64_t tiles = 0;
    for (const Piece& piece : pieces) {
        first_tile.push_back(tiles);
        tiles += (piece.rows + kTileRows - 1) / kTileRows;
    }
    first_tile.push_back(tiles);
    return first_tile;
}

inline PieceTiles send_pieces(Parcels& parcels, const std::vector<RowPiece>& pieces) {
    const std::vector<uint64_t> first_tile = first_tiles_of(pieces);
    if (first_tile.back() == 0) return {};
    const auto [piece, first] = parcels.send_together(pieces, first_tile);
    return {piece, first, pieces.size(), first_tile.back()};
}

}}  // namespace spillway::cuda::stream
