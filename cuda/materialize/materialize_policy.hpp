// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune how results are put together from row numbers; nothing measured yet.
namespace spillway::cuda { inline namespace materialize {

// Full multiprocessors (8 blocks of 256 threads) with kGatherUnroll independent accesses per thread keep a million
// under way; 30,000 keep the memory of an H200 busy, and clustered gathers are bound by bandwidth.
constexpr int kMaterializeThreads = 256;
constexpr int kMaterializeBlocksPerMultiprocessor = 8;
constexpr int kGatherUnroll = 4;

}}  // namespace spillway::cuda::materialize
