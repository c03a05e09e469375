// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the sort-merge joins; nothing else in cuda/sort_merge_join has any. Nothing measured yet.
namespace spillway::cuda { inline namespace sort_merge_joins {

constexpr int kMergeThreads = 256;
constexpr int kMergeWarps = kMergeThreads / 32;

// Keys of both sides that a block merges at once. With their match counts 28 KiB of shared memory for keys of 4 bytes
// and 36 for 8: six blocks and more of 256 threads per multiprocessor.
constexpr uint32_t kMergeTileRows = 2048;
constexpr int kMergeBlocksPerMultiprocessor = 6;

// Pairs that one block writes of one tile. A tile with more is given to several blocks, each of which reads and merges
// it again: 8 or 16 KB, which the L2 cache has, for at least 128 KB of pairs.
constexpr uint64_t kEmitUnitRows = 16384;

// For the bytes that CUB's sorts move, not for their speed: bits of a pass of its radix sort, and key bytes of the runs
// that its merge sort begins with (256 threads with 17 keys of 4 bytes or 8 of 8 bytes, by its policy since sm_60).
constexpr int kSortPassBits = 8;
constexpr uint64_t kMergeSortTileBytes = 256 * 17 * 4;

// Threads of the kernels that go over rows without looking at others.
constexpr int kRowThreads = 256;
constexpr int kRowBlocksPerMultiprocessor = 8;

}}  // namespace spillway::cuda::sort_merge_joins
