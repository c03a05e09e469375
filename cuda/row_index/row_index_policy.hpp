// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune indexes of build rows and lookups in them. None changes results but for the order of rows.
namespace spillway::cuda { inline namespace row_index {

// Build rows per bucket of an index: more than kBucketRows / 2, at most kBucketRows (or twice that where keys have no
// more bits). A probe reads one sector of bucket offsets and 16 bytes per row of its bucket; an offset is 4 bytes, so
// that an index adds 1 to 2 bytes to a row. Not measured against others yet.
constexpr uint64_t kBucketRows = 4;

// Rows of a bucket that a probe asks for before it looks at the first: one after the other, a warp waited for memory as
// often as the longest of its lanes' buckets has rows, some ten times. As many as a bucket has in the mean; with these
// the kernel that sums takes 64 registers, so that a multiprocessor has four blocks of it, as with one.
constexpr uint32_t kRowsAtOnce = 4;

// Partitions that are sorted into an index together; threads and shared memory of a block that sorts a part of one, two
// of them per multiprocessor, one of which works while the other waits; its counters take 32 KiB of that at most.
constexpr uint32_t kSortPartitions = 64;
constexpr uint32_t kSortThreads = 512;
constexpr uint64_t kSortSharedBytes = 110 << 10;
constexpr uint64_t kSortStaticBytes = 1024;  // more than the kernel's own variables in shared memory
constexpr uint32_t kSortBitsMax = 13;

// Buckets with more rows are searched by all lanes of a warp together, the lanes' buckets one after the other.
constexpr uint32_t kLongBucketRows = 64;

// Long buckets of a region that are looked at for whether all their keys are equal: 512 bytes of shared memory.
constexpr uint32_t kMarkedBucketsMax = 128;

// Where a batch has more result rows than this per probe row, so many blocks share each window of the result, since
// few tiles may have all its rows. The others find nothing to do and end.
constexpr uint64_t kManyPartners = 2;
constexpr uint32_t kWindowBlocks = 16;

}}  // namespace spillway::cuda::row_index
