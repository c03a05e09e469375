// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the first pass over relations that become keys and packs (column_packs.hpp).
namespace spillway::cuda { inline namespace radix_partitioning {

// The first pass of rows that become keys and packs (scatter_packs.cu): threads of a block, blocks per multiprocessor,
// and rows of a tile, whose columns of one pack are in shared memory at a time: 75 KiB, with 30 KiB of keys and order
// beside them. While one block waits for columns the other writes rows. H200, both sides of 2^26 rows of 8 columns of 4
// bytes, partitioned: three blocks of 512 threads and 1,536 rows 4.58 ms, four of 384 and 1,152 4.85, two of 1,024 and
// 2,048 5.16, two of 512 and 2,560 4.28.
constexpr int kPackThreads = 480;
constexpr int kPackBlocks = 2;
constexpr uint32_t kPackTileRows = 2400;
constexpr int kPackPassBitsMax = 8;
constexpr uint64_t kPackFanOutMax = 1ULL << kPackPassBitsMax;
// Rows of 32 bytes that are read in any order while a join goes through the partitions, so that they are read from the
// L2 cache, of which an H200 has 50 MB in two halves. H200, 2^26 rows of 32 bytes gathered in such an order: 1.28 ms
// within 8 MiB, 1.67 to 1.74 within 16.
constexpr uint64_t kPackWindowBytes = 8ULL << 20;

}}  // namespace spillway::cuda::radix_partitioning
