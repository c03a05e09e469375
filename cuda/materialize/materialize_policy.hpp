// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune how results are put together from row numbers.
namespace spillway::cuda { inline namespace materialize {

// Full multiprocessors (8 blocks of 256 threads) with kGatherUnroll independent accesses per thread keep a million
// under way; 30,000 keep the memory of an H200 busy, and clustered gathers are bound by bandwidth. Not measured yet.
constexpr int kMaterializeThreads = 256;
constexpr int kMaterializeBlocksPerMultiprocessor = 8;
constexpr int kGatherUnroll = 4;
// Rows of a pack whose places a lane reads together, and blocks of a multiprocessor: few, so that rows which share a
// line of memory are read before it leaves the L2 cache. H200, 2^26 rows of 32, 16, 8 and 4 bytes in the order that
// joins give (8 + 7 radix bits): 1.28, 0.81, 0.61 and 0.50 ms; with four blocks 1.99, 1.05, 0.62 and 0.49; of 16 bytes
// with one row per lane and four blocks 0.78.
constexpr int kPackGatherRows = 2;
constexpr int kPackGatherBlocks = 2;
// Packs of which each row is asked for so many times come from the caches, whatever is under way, and so many blocks
// hide the time of those better. H200, whole joins before and now, ms: 235 M rows of 27 bytes in six widths, 28 times
// each, 10.9 and 8.6 (with 3 blocks 8.4, with 8 9.6), six packs of 32 bytes, 64 times each, 9.9 and 9.4 (9.6); two
// packs of 8 columns, 32 times each, 3.1 and 2.8; 8 times each, by two lanes per row 3.5, this way 3.4.
constexpr uint64_t kPackRepeatsMin = 6;
constexpr int kPackRepeatedBlocks = 4;

}}  // namespace spillway::cuda::materialize
