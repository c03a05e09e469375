// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune what operators beyond GPU memory share; nothing else in cuda/stream has any but the sizes that
// a plan brings (StreamSizes). None changes results but for the order of rows.
namespace spillway::cuda { inline namespace stream {

// Rows of a piece that one block takes: 32 groups of 32 rows, so that eight warps have four each.
constexpr uint32_t kStreamThreads = 256;
constexpr uint32_t kTileRows = 1024;

// Rows that are packed together: the lanes of a warp turn 32 values of b bits into b words.
constexpr uint32_t kGroupRows = 32;
constexpr uint32_t kTileGroups = kTileRows / kGroupRows;
// Fragments begin at these multiples, in 32-bit words: 128 bytes, what one access of a warp covers.
constexpr uint32_t kFragmentAlignWords = 32;

// Blocks that look for the extremes of fields, all together and of one partition at least. 2^22 rows in 32 partitions
// by 128 blocks took 0.15 ms on an H200. A partition's own blocks read so many times the mean of its rows: with
// Zipf 1.5 keys, of which a third are one, the four blocks of that one took 1.15 ms for 2^22 rows in 512 partitions.
constexpr uint32_t kExtremesBlocks = 2048;
constexpr uint32_t kPartitionExtremesBlocks = 4;
constexpr uint64_t kExtremesOwnShare = 4;

// Small arrays on their way from host to kernels at once (parcels.hpp).
constexpr uint32_t kParcelSlots = 16;
constexpr uint64_t kParcelAlignBytes = 16;

// Bits of a key in the Bloom filter's word of 64: with 8 keys to a word two of five bits are set, and 4 % of other keys
// pass; more bits pass as many, for they fill the word. Not measured against others yet.
constexpr int kFilterBits = 4;

// Packed runs on their way to the host at once, one is packed meanwhile.
constexpr uint32_t kRunBuffers = 2;

// Rows of spilled partitions that come back together, in chunks, where what comes back of a run, a copy per group, has
// a call of its own (CopyRing::copies_together()).
constexpr uint64_t kGroupChunksApart = 16;

// Copies of spilled rows that are enqueued by one call, where the driver has one for many. H200 over PCIe 5, pieces of
// pinned memory of 64, 128, 256, 512 KiB and 1 MiB, GB/s: each by a call of its own 16, 25, 34, 42, 47; 16 at once 47,
// 51, 53, 54, 55; 128 at once 54, 55, 55, 55, 55.
constexpr uint64_t kCopiesTogether = 128;

// Copies of spilled rows from pinned memory that are smaller than this in the mean are a kernel's (copy_ring.cu),
// which reads so many at once. H200 over PCIe 5, pieces of 1, 4, 13, 32, 64 KiB, GB/s: 128 at once by copy engines 2,
// 9, 28, 44, 54, 0.45 us each at least; by 132 blocks of 512 threads 50, 51, 51, 51 and 51, by 33 from 4 KiB on as
// many.
constexpr uint64_t kSmallPieceBytes = 32 << 10;
constexpr uint32_t kSmallPiecesTogether = 256;
constexpr uint32_t kPieceBlocks = 32;
constexpr uint32_t kPieceThreads = 256;
constexpr uint32_t kPieceWords = 4;

// Threads that write spilled rows to disk, or read them back, a block each: as many requests as a disk has at once. One
// thread moves 5 to 8 GB/s from and to the system's page cache (native/memory/spill_file.cpp). Not measured on a GPU
// machine yet.
constexpr uint64_t kDiskThreads = 4;

// What is read at once from disk, at least: groups of spilled partitions are enlarged for it. 2^30 rows spilled in 2^8
// runs of 2^22 rows of 12 bytes, in groups of 2^26 rows, come back in pieces of 3 MB; with chunks of 2^20 rows in
// pieces of 196 kB, where NVMe disks need some 128 kB and four requests at once for their full rate.
constexpr uint64_t kDiskReadBytes = 256 << 10;

}}  // namespace spillway::cuda::stream
