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

// Probe rows whose key lies out of the build side's range are left out before they are partitioned, where of a sample
// of so many keys (also the threads of its block) at least this share does. Both sides' keys are read for it, 0.3 ms
// for 2^27 rows each, which passes over rows of 12 bytes take for 12 % of them. Joins of fewer rows are not asked, nor
// those of many more build rows than probe rows. H200, 2^27 x 2^27 rows of 12 bytes, without and with: 25 % within the
// range 6.20 and 5.13 ms, 6.25 % 5.82 and 4.65. Asked in vain: 2^22 x 2^22 0.414 and 0.428, 2^24 x 2^24 0.958 and
// 0.989.
constexpr uint32_t kSampleRows = 1024;
constexpr double kRangeFilterShareMin = 0.25;
constexpr uint64_t kRangeFilterRowsMin = 1ULL << 22;
constexpr uint64_t kRangeFilterBuildMax = 2;
// Few of enough probe rows, by that sample, are gathered column by column before they are partitioned, as passes read
// all rows of a tile, whichever stay. A wait for the device and a kernel per column more: 2^22 x 2^22 with 6.25 % 0.41
// and 0.49. Then build rows whose key none of them has are left out as well, where so few stay of them too, and the
// range has no more keys than the L2 cache has bits for. How many are few depends on the bytes that passes move of a
// row, and on whether the build side gets smaller too. H200, without and with, 2^27 x 2^27 rows of so many bytes, both
// sides: 12, 10 % within the range 4.78 and 3.56 ms, 20 % 5.08 and 4.82, 25 % 5.17 and 5.31; 16, 20 % 6.00 and 5.50,
// 25 % 6.10 and 6.15; with 8-byte keys 6.77 and 6.29; 20, 25 % 7.36 and 6.91, 35 % 7.87 and 8.36; 24, 9.30 and 7.76,
// 9.79 and 9.40; 2^26 x 2^26 rows of 52 bytes, 25 % 7.21 and 6.79, 35 % 8.09 and 8.51. The probe side alone: 2^27 x
// 2^27 rows of 12 bytes, 10 % 4.78 and 4.53, 2^25 x 2^27 of 28 bytes, 25 % 6.14 and 5.89, 35 % 6.84 and 6.90; packs of
// 52 bytes, 2^26 x 2^26, 6.25 % 5.79 and 5.45, 2^25 x 2^26, 20 % 3.43 and 3.96.
constexpr double kGatheredShareMax = 0.125;     // of any row
constexpr double kGatheredWideShareMax = 0.29;  // of rows of so many bytes
constexpr uint64_t kGatheredWideRowBytes = 20;
// If both sides get smaller: of any row, and of rows of so many bytes.
constexpr double kGatheredBothShareMax = 0.22;
constexpr uint64_t kGatheredBothWideRowBytes = 16;
constexpr double gathered_share_max(uint64_t row_bytes, bool both_sides) {
    if (both_sides) return row_bytes >= kGatheredBothWideRowBytes ? kGatheredWideShareMax : kGatheredBothShareMax;
    const bool packed = row_bytes > kWholeRowWordsMax * sizeof(uint32_t);
    return row_bytes >= kGatheredWideRowBytes && !packed ? kGatheredWideShareMax : kGatheredShareMax;
}
constexpr double kGatheredShareSlack = 2;  // where so many times that share stay after all, they are not gathered
constexpr uint64_t kGatheredRowsMin = 1ULL << 25;
constexpr uint64_t kPartnerKeysMax = 1ULL << 28;  // of the range
constexpr int kRangeFilterThreads = 256;
constexpr int kRangeFilterBlocks = 8;  // per multiprocessor
constexpr int kRangeFilterRows = 8;    // of a thread, under way together

}}  // namespace spillway::cuda::equi_joins
