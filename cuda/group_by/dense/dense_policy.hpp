// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune kHashGlobal. A policy never changes results but for the order of groups.
namespace spillway::cuda { inline namespace grouping {

// Threads of a block that numbers groups, and rows of each that are looked up at the same time: the latency of a random
// access is shared by as many.
constexpr unsigned kNumberThreads = 256;
constexpr int kNumberRows = 4;
// After so many slots of other keys a search asks whether the attempt has failed already.
constexpr uint32_t kNumberWalkCheck = 64;
// The slot of a row's key has 4 bytes, of which the largest number marks a row without a key. The place behind the last
// slot is a slot, too.
constexpr uint64_t kNumberedSlotsMax = 0xfffffffeULL;

// Threads of a block that aggregates rows by the numbers of their groups. It has a multiprocessor for itself, with all
// of its shared memory, and 64 registers per thread, as aggregate_tiles_kernel has.
constexpr int kDenseThreads = 1024;
// What the runtime keeps of a block's shared memory, at most.
constexpr uint64_t kDenseReservedBytes = 1024;

}}  // namespace spillway::cuda::grouping
