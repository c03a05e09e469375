// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the coherent join; none changes results but for the order of rows. None is measured yet where
// no measurement is named.
namespace spillway::cuda { inline namespace coherent_join {

// A page of rows, in powers of two between these. A partition of a chunk leaves half a page empty on average, no more
// than one row in so many of what it has. Larger pages are opened less often, and a page of another tier follows after
// it at the latest: over NVLink 4 a first pass of 2^29 rows of 16 bytes in 2^8 partitions took 25.2, 24.7, 24.4 and
// 24.2 ms with pages of 64, 128, 256 and 512 KiB, and the rest of the join 39.1 to 39.5 with any.
constexpr uint64_t kCoherentPageBytesMin = 64 << 10;
constexpr uint64_t kCoherentPageBytesMax = 512 << 10;
constexpr uint64_t kCoherentPageShare = 32;

// Where pages are mapped, stripes are large ones if there are so many of them: rounding up takes a 64th at most then.
constexpr uint64_t kMappedStripesLeast = 64;

// Build rows that are gathered and indexed at once: with rows of 16 bytes 128 MiB, which take 0.35 ms at the 376 GB/s
// of NVLink 4, against some 0.05 ms to launch what sorts them. No more than this part of the memory limit, unless the
// mean partition is larger than that.
constexpr uint64_t kCoherentGroupRows = 1ULL << 23;
constexpr uint64_t kGroupShare = 32;
constexpr uint64_t kPartitionShare = 8;

// With a second pass of both sides: rows of a side that are partitioned and joined together, with rows of 16 bytes 128
// MiB, no more than this part of the memory limit: there are two such groups of both sides. If the mean partition is
// larger than that, up to the second part of the limit. Over NVLink 4, 2^29 rows of each side at 4 GiB, second pass and
// join took 39.1 ms with groups of 2^23 rows, 42.2 with 2^22 and 39.5 with 2^23.6, which leave less memory to pages.
constexpr uint64_t kSecondPassRows = 1ULL << 23;
constexpr uint64_t kSecondPassShare = 24;
constexpr uint64_t kSecondPassLargeShare = 12;
constexpr uint32_t kSecondPassSlots = 2;
// Lists of their pages: those of the groups on their way, and the one that is made.
constexpr uint32_t kSecondPassLists = kSecondPassSlots + 1;
// Blocks of the second pass, where the others join (CoherentOptions::gather_alone). Two of them would fit a
// multiprocessor, but the device spreads blocks: up to half of all leaves the other half free.
// A block has a tile of 32 KiB under way while it sorts the one before. The same join took 58, 44, 39.2, 39.1, 39.3,
// 39.4, 41.3 ms with 33, 44, 55, 66, 77, 88, 99 of 132, where the link takes 36; 46 where both mixed. With all pages in
// GPU memory 66 took 30.1 ms, 88 27.6.
constexpr uint32_t kSecondPassMultiprocessorShare = 2;
constexpr uint32_t kPlaceThreads = 256;
// Partitions of a group: each has up to 2^8 regions of its own.
constexpr uint64_t kSecondPassPartitions = 64;

// A region of the second pass whose build rows a block has no room for is joined in pieces, each with all probe rows of
// the region. With more pieces than this a third pass splits it first, by this many bits at most: regions of one
// partition then take as much room for their alignment as those of a whole group. Both are not measured yet.
constexpr uint64_t kThirdPassPieces = 4;
constexpr int kThirdPassBitsMax = 6;
static_assert(1ULL << kThirdPassBitsMax <= kSecondPassPartitions);

// Probe rows that are gathered at once where results are rows: they are read twice, once to count and once to write.
constexpr uint64_t kStagedRows = 1ULL << 22;
constexpr uint64_t kStagedShare = 64;

// Probe rows that are marked at once, a byte each, where a build partition comes in parts: a partition with more of
// them is joined with one slice of them after the other. No more than this part of the memory limit.
constexpr uint64_t kMarkedRows = 1ULL << 26;
constexpr uint64_t kMarkedShare = 64;

// Blocks per multiprocessor that look for rows without a key in the bitmap of a chunk, 128 bytes of it by a warp: eight
// warps of each ask for 1 KiB at once, so that bitmaps come as fast as the first pass reads the chunk.
constexpr uint32_t kKeylessBlocks = 4;
constexpr uint32_t kKeylessThreads = 256;

// Gathered groups and batches that wait for their turn; one more is being joined.
constexpr uint32_t kUnitsAhead = 3;

// Tiles of a probe of far pages at once: 16 blocks for each place where one can run on an H200.
constexpr uint64_t kFarProbeTiles = 1ULL << 14;

// Blocks that gather: a quarter of the multiprocessors, each for itself (CoherentOptions::gather_alone). A block has
// 64 KiB of loads under way, all of an H200 2 MiB, where 376 GB/s at a latency of some 2 us take 0.75. Over NVLink 4 33
// blocks of 512 threads were as fast as 66 and 132 (45 ms for 15.6 GB).
constexpr uint32_t kGatherThreads = 1024;
constexpr uint32_t kGatherLoads = 4;
constexpr uint32_t kGatherMultiprocessorShare = 4;

// GPU memory that the cache of pages leaves free: lists on their way, scratch of prefix sums, rounding.
constexpr uint64_t kCoherentReserveBytes = 32 << 20;
constexpr uint64_t kCoherentReserveShare = 64;

}}  // namespace spillway::cuda::coherent_join
