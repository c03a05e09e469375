// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune kSortedColumns and kDictionarySorted. None is measured yet: each says by what arithmetic it was
// chosen. A policy never changes results but for the order of groups.
namespace spillway::cuda { inline namespace grouping {

// Threads of a block that works on sorted rows, and neighbouring rows of each: two loads of 16 bytes per 4-byte column.
// A group that crosses the edge of a tile costs an atomic operation per tile: one group of 2^28 rows has 2^16 of them,
// which at about one per ns on one address are 0.07 ms, where reading a 4-byte column takes 0.27.
constexpr int kRunThreads = 512;
constexpr int kRunItems = 8;
constexpr uint64_t kRunTileRows = static_cast<uint64_t>(kRunThreads) * kRunItems;

// Threads of a block of kernels that go over rows or runs one by one.
constexpr unsigned kSortedThreads = 256;

// Bits of a pass of CUB's radix sort: for the bytes that it moves, not for its speed.
constexpr int kGroupSortPassBits = 8;

// Slots of a dictionary per key: linear probing at 0.5 looks at (1 + 1 / (1 - 0.5)) / 2 = 1.5 slots (Knuth).
constexpr uint64_t kDictionarySlotsPerKey = 2;
// Rows of a thread that look theirs up at the same time: the latency of a random access is shared by as many.
constexpr int kEncodeRows = 4;
constexpr unsigned kEncodeThreads = 256;
// With more keys their numbers have as many bits as 4-byte keys and save no pass of the sort.
constexpr uint64_t kDictionaryKeysMax = 1ULL << 31;

}}  // namespace spillway::cuda::grouping
