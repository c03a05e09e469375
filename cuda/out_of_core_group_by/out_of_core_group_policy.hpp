// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune group-bys beyond GPU memory; nothing else in cuda/out_of_core_group_by has any but the sizes
// that a plan brings. None changes results but for the order of rows. None is measured yet.
namespace spillway::cuda {

// Chunks are aggregated on their own while at most this share of their rows is left: what is saved is a pass over the
// rows for their partitioning, room in pages, and bytes on the link when they are spilled.
constexpr uint64_t kGroupedShare = 2;  // a half
// Chunks that are partitioned as they are after one that had more groups than that, before the next is looked at: that
// one costs some passes over the rows in device memory, a tenth of what they take on the link, once in so many chunks.
constexpr uint32_t kUngroupedChunks = 7;

// A partition that has all pages is aggregated again when so much of what they hold came since: a part of eight, which
// makes eight passes in device memory of each row, where a row that is left out passes the link once more.
constexpr uint64_t kCompactedShare = 8;

// Partial rows of keyless rows, one per chunk, before they are aggregated.
constexpr uint64_t kKeylessRows = 1024;

// Rows of device memory that a group-by takes for a while per row that it gets: packed rows before and behind a second
// pass, groups, and tables of groups in memory.
constexpr uint64_t kGroupByRowsPerRow = 4;

constexpr uint32_t kGroupColumnsThreads = 256;
// Blocks per multiprocessor of kernels that go over columns.
constexpr uint32_t kGroupColumnsBlocks = 8;

}  // namespace spillway::cuda
