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

}}  // namespace spillway::cuda::materialize
