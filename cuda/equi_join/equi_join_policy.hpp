// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune which way rows take through a join; nothing else in cuda/equi_join has any.
namespace spillway::cuda { inline namespace equi_joins {

// Words of key and columns up to which the radix hash join moves whole rows. By the bytes in radix_hash_join.hpp packs
// are the shorter way from 16 bytes of columns on, but rates of packs are lower. H200, 2^26 x 2^26 rows, columns of 4
// bytes, whole and by packs: 2+2 3.28 and 5.71 ms, 4+4 5.13 and 6.69, 6+6 7.82 and 7.89, 7+7 8.27 and 8.19.
// 8+8 takes 8.41 by packs.
constexpr uint32_t kWholeRowWordsMax = 8;

// Joins of packed relations have partitions of this many build rows, and their warps reserve result rows in chunks of
// so many, so that what all multiprocessors write at a time comes from few first partitions: packs are gathered in that
// order, from the L2 cache. H200, 2^26 rows of 32 bytes gathered in it: 1.28 ms on either side with 2,048 rows and
// chunks of 128, 1.36 and 1.79 with 4,096, 1.85 and 2.05 with 8,192 and chunks of 1,024.
constexpr uint64_t kPackedPartitionRows = 2048;
constexpr uint32_t kPackedChunkRows = 128;
// But no more radix bits than two passes take.
constexpr int kPackedRadixBitsMax = 16;

}}  // namespace spillway::cuda::equi_joins
