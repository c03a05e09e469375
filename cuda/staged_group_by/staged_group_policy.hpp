// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune group-bys beyond GPU memory; nothing else in cuda/staged_group_by has any but the sizes
// that a plan brings. None changes results but for the order of rows. Only those that say so were measured against
// others.
namespace spillway::cuda { inline namespace staged_group_by {

// Chunks are aggregated on their own while at most this share of their rows is left: what is saved is a pass over the
// rows for their partitioning, room in pages, and bytes on the link when they are spilled.
constexpr uint64_t kGroupedShare = 2;  // a half
// Chunks that are partitioned as they are after one that had more groups than that, before the next is looked at: that
// one costs some passes over the rows in device memory, a tenth of what they take on the link, once in so many chunks.
constexpr uint32_t kUngroupedChunks = 7;

// A partition that has all pages is aggregated again when so much of what they hold came since: a part of eight, which
// makes eight passes in device memory of each row, where a row that is left out passes the link once more.
constexpr uint64_t kCompactedShare = 8;

// Spilled partial rows that come back before their groups leave, in chunks, if one partition has no more: see
// kGroupChunks of joins. H200, 2^30 groups at 4 GiB: 282 ms with 2 chunks, 289 with 4, 362 with 16.
constexpr uint64_t kReturnedChunks = 2;

// Partial rows of chunks that have few groups, as columns, before they are aggregated; fewer where a chunk is shorter.
constexpr uint64_t kGroupListRows = 1ULL << 16;
// A chunk has few groups if its list has room for so many such chunks: aggregating it, some 20 kernels, costs each of
// them a part of that.
constexpr uint64_t kFewGroupsShare = 8;

// Partial rows of keyless rows, one per chunk, before they are aggregated.
constexpr uint64_t kKeylessRows = 1024;

// Rows of device memory that a group-by takes for a while per row that it gets: packed rows before and behind a second
// pass, groups, and tables of groups in memory.
constexpr uint64_t kGroupByRowsPerRow = 4;

constexpr uint32_t kGroupColumnsThreads = 256;
// Blocks per multiprocessor of kernels that go over columns.
constexpr uint32_t kGroupColumnsBlocks = 8;

}}  // namespace spillway::cuda::staged_group_by
