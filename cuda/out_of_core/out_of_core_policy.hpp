// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune joins beyond GPU memory; nothing else in cuda/out_of_core has any but the sizes that a plan
// brings (OutOfCoreSizes). None changes results but for the order of rows.
namespace spillway::cuda {

// Rows of a piece that one block takes: 32 groups of 32 rows, so that eight warps have four each.
constexpr uint32_t kOutOfCoreThreads = 256;
constexpr uint32_t kTileRows = 1024;

// Rows that are packed together: the lanes of a warp turn 32 values of b bits into b words.
constexpr uint32_t kGroupRows = 32;
// Fragments begin at these multiples, in 32-bit words: 128 bytes, what one access of a warp covers.
constexpr uint32_t kFragmentAlignWords = 32;

// Blocks that look for the extremes of fields, all together and of one partition at least. 2^22 rows in 32 partitions
// by 128 blocks took 0.15 ms on an H200. A partition's own blocks read so many times the mean of its rows: with
// Zipf 1.5 keys, of which a third are one, the four blocks of that one took 1.15 ms for 2^22 rows in 512 partitions.
constexpr uint32_t kExtremesBlocks = 2048;
constexpr uint32_t kPartitionExtremesBlocks = 4;
constexpr uint64_t kExtremesOwnShare = 4;

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
constexpr uint32_t kSortBitsMax = 13;

// Buckets with more rows are searched by all lanes of a warp together, the lanes' buckets one after the other.
constexpr uint32_t kLongBucketRows = 64;

// Long buckets of a region that are looked at for whether all their keys are equal: 512 bytes of shared memory.
constexpr uint32_t kMarkedBucketsMax = 128;

// Where a batch has more result rows than this per probe row, so many blocks share each window of the result, since
// few tiles may have all its rows. The others find nothing to do and end.
constexpr uint64_t kManyPartners = 2;
constexpr uint32_t kWindowBlocks = 16;

// Small arrays on their way from host to kernels at once (parcels.hpp).
constexpr uint32_t kParcelSlots = 16;
constexpr uint64_t kParcelAlignBytes = 16;

// Bits of a key in the Bloom filter's word of 64: with 8 keys to a word two of five bits are set, and 4 % of other keys
// pass; more bits pass as many, for they fill the word. Not measured against others yet.
constexpr int kFilterBits = 4;

// Packed runs on their way to the host at once, one is packed meanwhile.
constexpr uint32_t kRunBuffers = 2;

// Build rows of spilled partitions that are indexed together, in chunks, if one partition has no more. While they come
// back no results leave, and while they are indexed or results leave no more comes than the ring has room for: with
// some more chunks than that the two directions of the link take turns. H200, groups of 2, 4 and 16 chunks, ms that
// spilled rows took: 2^29 x 2^29, 4 GiB 83, 82, 91; 1 GiB 141, 126, 138; 2^30 x 2^30 with result rows, 16 GiB 108, 111,
// 127.
constexpr uint64_t kGroupChunks = 4;
// ... where what comes back of a run, a copy per group, has a call of its own (CopyRing::copies_together()).
constexpr uint64_t kGroupChunksApart = 16;

// Copies of spilled rows that are enqueued by one call, where the driver has one for many. H200 over PCIe 5, pieces of
// pinned memory of 64, 128, 256, 512 KiB and 1 MiB, GB/s: each by a call of its own 16, 25, 34, 42, 47; 16 at once 47,
// 51, 53, 54, 55; 128 at once 54, 55, 55, 55, 55.
constexpr uint64_t kCopiesTogether = 128;

// Copies of spilled rows from pinned memory that are smaller than this in the mean are a kernel's (gather_pieces.hpp),
// which reads so many at once. H200 over PCIe 5, pieces of 1, 4, 13, 32, 64 KiB, GB/s: 128 at once by copy engines 2,
// 9, 28, 44, 54, 0.45 us each at least; by 132 blocks of 512 threads 50, 51, 51, 51 and 51, by 33 from 4 KiB on as
// many.
constexpr uint64_t kSmallPieceBytes = 32 << 10;
constexpr uint32_t kSmallPiecesTogether = 256;
constexpr uint32_t kPieceBlocks = 32;
constexpr uint32_t kPieceThreads = 256;
constexpr uint32_t kPieceWords = 4;

// Probe rows that are marked at once where a build partition comes in parts, in chunks: a byte each, so that marks take
// as much as a chunk of 16-byte rows. A partition with more of them is joined with one slice of them after the other.
constexpr uint64_t kMarkedChunks = 16;

// Threads that write spilled rows to disk, or read them back, a block each: as many requests as a disk has at once. One
// thread moves 5 to 8 GB/s from and to the system's page cache (native/memory/spill_file.cpp). Not measured on a GPU
// machine yet.
constexpr uint64_t kDiskThreads = 4;

// What is read at once from disk, at least: groups of spilled partitions are enlarged for it. 2^30 rows spilled in 2^8
// runs of 2^22 rows of 12 bytes, in groups of 2^26 rows, come back in pieces of 3 MB; with chunks of 2^20 rows in
// pieces of 196 kB, where NVMe disks need some 128 kB and four requests at once for their full rate.
constexpr uint64_t kDiskReadBytes = 256 << 10;

// Sums of one join at most: they are kept in registers.
constexpr uint32_t kSumColumnsMax = 4;

}  // namespace spillway::cuda
