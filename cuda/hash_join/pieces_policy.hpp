// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune joins whose result comes in pieces. None is measured yet, but where something else is said.
namespace spillway::cuda { inline namespace hash_join {

// Rows that a piece may have whatever its limit: ranges are cut at multiples of kRegionAlignRows on both sides, so that
// 8 build rows and 8 probe rows of one key stay together.
constexpr uint64_t kPieceRowsMin = 64;

// Threads of a block that counts. Keys of 4 bytes leave room for two blocks per multiprocessor.
constexpr int kCountThreads = 1024;
// Build rows of a range at most: their keys and a table of 4/3 slots of 4 bytes take 109 KiB with keys of 4 bytes,
// twice of which is what a multiprocessor has. Partitions of the join have 8,192 rows or fewer on the average.
constexpr uint64_t kCountBuildRowsMax = 12000;
// Probe rows of a range at first; more where there would be more ranges than the second number, of 40 bytes each in
// host memory.
constexpr uint64_t kCountProbeRows = 1ULL << 16;
constexpr uint64_t kRangesMax = 1ULL << 20;

// A range that is too large for a piece is cut into so many that a piece is this many of them: pieces are then filled
// to 3/4 at least. And no more than so many at a time, each of which reads the build rows again.
constexpr uint64_t kRangesPerPiece = 4;
constexpr uint64_t kCutsMax = 4096;

// Rows of a range whose lone rows are counted by a warp.
constexpr uint64_t kLoneRangeRows = 4096;

// Chunks that warps leave open may take room beyond the rows of a piece: one row for so many of the piece.
constexpr uint64_t kPieceSlackShare = 8;

}}  // namespace spillway::cuda::hash_join
