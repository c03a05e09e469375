// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the co-partition join; nothing else in cuda/hash_join has any.
namespace spillway::cuda { inline namespace hash_join {

// One block per multiprocessor, with all of its shared memory: partitions of 8,192 rows (14 radix bits for 2^27 rows)
// then leave room for uneven ones. With the warp that fetches units 20 warps, 5 per scheduler, have 96 registers per
// thread, which hold two batches of wide probe rows; one more and all had 80. H200, whole joins of wide rows, 608
// threads against 512: 2^27 x 2^27 6.55 ms and 6.57, 2^26 x 2^26 of 2^25 keys 6.03 and 6.32, of 2^23 keys 10.89 and
// 11.55. 1,024 threads of 64 registers took 7.1, 5.1 and 9.8 with the kernel before this one.
constexpr int kJoinThreads = 608;

// Buckets of the hash table per build row that a block has room for: as many as fit, between these.
constexpr double kBucketsPerRowMin = 1;
constexpr double kBucketsPerRowMax = 2.5;
// Mean rows of a partition, at most: longer chains cost more than the radix bit that empties them.
constexpr uint64_t kPartitionRowsMax = 8192;

// Share of a block's capacity that the mean partition may fill. Sizes of partitions of n rows scatter by sqrt(n), 1 %
// of 8,192; a partition that does not fit is joined in several units, each of which reads the probe rows again.
constexpr double kPartitionFill = 0.97;
// Probe rows of one unit of work, at most. A block builds the hash table again for every unit of its partition, which
// costs what a few thousand probe rows do; without units, one hot foreign key would keep a single multiprocessor busy.
constexpr uint32_t kProbeUnitRowsMax = 1U << 16;  // rows of a unit have numbers of 16 bits
// Where partitions are fewer than half of the multiprocessors, units are smaller, so that more of these work: the table
// is built side by side, which takes no longer than once. At least so many rows, a multiple of kRegionAlignRows. H200,
// rows of 12 bytes, units of 65,536 rows against these: 16,000 x 16,000 of 16 keys 8.31 and 1.18 ms, 2^16 x 2^22 0.28
// and 0.23, 2^18 x 2^18 0.18 and 0.15, 1,000 x 2^22 0.27 and 0.24.
constexpr uint32_t kProbeUnitRowsMin = 512;
// Units may be this much larger than an even share, so that an uneven partition does not have one too many.
constexpr double kProbeUnitSlack = 1.1;
// Where partitions are enough for all multiprocessors, units of a partition that has more rows than others, as those of
// a hot key do, have no more than so many times the mean partition's.
constexpr double kProbeUnitUneven = 2;
// Where probe rows have several matches each, a unit has as many rows as have its share of the pairs: so many units
// for each multiprocessor, but none of fewer pairs than these, which take some twenty times as long as the table, and
// none of fewer rows (a multiple of kRegionAlignRows).
constexpr uint64_t kPairUnitsPerMultiprocessor = 8;
constexpr double kUnitPairsMin = 1 << 16;
constexpr uint32_t kProbeUnitRowsOfPairsMin = 32;

// Probe rows that match at least so many build rows of one key are left to a kernel of its own, which shares their
// pairs out in pieces of so many at most: few probe rows with thousands of matches each are never even among the warps
// of a block, nor among blocks. A piece costs its warp what a few writes of 32 rows do. H200, ms without and with it:
// 1 % of 2^20 probe rows match 20,000 rows each, Zipf 1, 13.1 and 4.3; 6 % of 1.4 M match 1,000 each, Zipf 0.75, 15.7
// and 12.9; 2^19 x 2^19, 1,000 rows per key, Zipf 1.25, 25 % match, 9.0 and 8.6, from 512 rows on 8.4. 300 rows per key
// and all match: 3.3 and 3.3 in one run, 3.3 and 3.5 in another, so that such rows are not listed.
constexpr uint32_t kLongMatchRows = 512;
constexpr uint32_t kLongPieceRows = 1024;
// Where so many pairs are expected, and so many for each probe row and each build row: others are not worth another
// kernel, nor the columns of listed build rows that they write and read. 2^25 x 185,364 rows, 1,000 per key, 5.5 pairs
// per build row: 3.1 ms without and 3.3 with it. Without such columns 2.4 and 2.1, and 109 M x 20.5 M, 1.9 pairs per
// build row, 7.5 and 5.0.
constexpr uint64_t kLongPairsMin = 1ULL << 19;
constexpr uint64_t kLongPairsPerProbeRow = 4;
constexpr uint64_t kLongPairsPerBuildRow = 8;
constexpr uint64_t kLongPairsPerBareBuildRow = 1;  // build rows without a column, of which a list copies nothing
// Room for build rows that units list: so many for each row of the build side, and one for so many pairs.
constexpr uint64_t kLongListsPerRow = 2;
constexpr uint64_t kLongPairsPerListed = 16;
// And the list takes at most this part of the memory that is free, which plans do not know of.
constexpr uint64_t kLongListMemoryPart = 4;
constexpr int kLongMatchThreads = 256;
constexpr int kLongMatchBlocks = 4;  // per multiprocessor

// Probe rows per thread whose loads are under way together, by row words: what registers hold twice, for these rows and
// for the next. 0 words: keys alone.
constexpr int probe_unroll(int row_words) {
    return row_words <= 4 ? 4 : 2;
}

// At most this much of the next unit's build rows is brought into the L2 cache while a block joins a unit. More of
// them, and probe rows, left the cache again before they were used: for 5.4 GB in rows of 20 bytes, 10.0 GB were read.
// The join kernel took, on an H200 for 2^27 x 2^27 rows of 12, 20 and 24 bytes: with all build rows and 128 KiB of
// probe rows 2.36, 4.01 and 5.09 ms, with all build rows 2.16, 3.68 and 4.94, with 64 KiB of them 2.19, 3.48 and 4.95,
// with nothing 2.25, 3.48 and 5.08.
constexpr uint32_t kPrefetchBytesMax = 64 * 1024;

// Build rows per thread that are inserted together.
constexpr int kInsertRows = 4;

// Matches that a warp has together from which they are written at once; fewer wait until there are 32 of them. A write
// takes as many instructions for one row as for 32.
constexpr uint32_t kDirectLanesMin = 16;

// Rows of a bucket that are compared with one of it to see whether keys still repeat.
constexpr uint32_t kRepeatLooksMax = 8;

// Rows of both sides for which another block is worth its start.
constexpr uint64_t kRowsPerBlockMin = 1024;

// Output rows that a warp reserves at once, at most: 2^27 matches reserve 2^17 times. What a warp has left at the end
// is a hole that other rows are moved to.
constexpr uint32_t kOutputChunkRows = 1024;

// Perfect hashing: threads of a block, rows that each has under way at once, and shared memory for the kernel's own
// variables. Where keys of a partition lie in a range of several arrays, all its rows are read once for each; of more
// than so many, perfect hashing is the wrong way. Not measured yet.
constexpr uint32_t kPerfectThreads = 1024;
constexpr uint32_t kPerfectRows = 4;
constexpr uint64_t kPerfectReservedBytes = 1024;
constexpr uint64_t kPerfectWindowsMax = 64;
// Build rows of a unit at most, for numbers of 32 bits.
constexpr uint32_t kPerfectBuildRows = 1U << 27;

// Rows that are written once each (outer, semi and anti joins): a stream of marks and rows, not measured yet.
constexpr int kLoneThreads = 256;
constexpr int kLoneBlocksPerMultiprocessor = 8;
constexpr uint64_t kLoneTileRows = 4096;

}}  // namespace spillway::cuda::hash_join
