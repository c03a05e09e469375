// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the staged join. None changes results but for the order of rows.
namespace spillway::cuda { inline namespace staged_join {

// Build rows of spilled partitions that are indexed together, in chunks, if one partition has no more. While they come
// back no results leave, and while they are indexed or results leave no more comes than the ring has room for: with
// some more chunks than that the two directions of the link take turns. H200, groups of 2, 4 and 16 chunks, ms that
// spilled rows took: 2^29 x 2^29, 4 GiB 83, 82, 91; 1 GiB 141, 126, 138; 2^30 x 2^30 with result rows, 16 GiB 108, 111,
// 127.
constexpr uint64_t kGroupChunks = 4;

// Probe rows that are marked at once where a build partition comes in parts, in chunks: a byte each, so that marks take
// as much as a chunk of 16-byte rows. A partition with more of them is joined with one slice of them after the other.
constexpr uint64_t kMarkedChunks = 16;

}}  // namespace spillway::cuda::staged_join
