// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the co-partition join; nothing else in cuda/hash_join has any.
namespace spillway::cuda {

// One block of 1,024 threads per multiprocessor, with all of its shared memory: partitions of 8,192 rows (14 radix bits
// for 2^27 rows) then leave room for uneven ones. Two blocks of 512 threads over partitions of half the size took as
// long, and their fifteenth radix bit 0.1 ms per side.
constexpr int kJoinThreads = 1024;

// Buckets of the chained hash table, by row words: two per row of a partition of 8,192 rows, one where rows are too
// wide for both. H200, 2^27 x 2^27 matches: 2^14 instead of 2^13 buckets 2.33 instead of 2.45 ms (rows of 8 bytes),
// 2.93 instead of 3.01 (12 bytes); rows of 20 bytes would need a radix bit more, 12.6 instead of 11.6 ms in all.
constexpr int join_bucket_bits(int row_words) {
    return row_words <= 4 ? 14 : 13;
}
// Mean rows of a partition, at most: longer chains cost more than the radix bit that shortens them.
constexpr uint64_t kPartitionRowsMax = 8192;

// Share of a block's capacity that the mean partition may fill. Sizes of partitions of n rows scatter by sqrt(n), 1 %
// of 8,192; a partition that does not fit is joined in several units, each of which reads the probe rows again.
constexpr double kPartitionFill = 0.97;

// Probe rows of one unit of work. A block builds the hash table again for every unit of its partition, which costs what
// a few thousand probe rows do; without units, one hot foreign key would keep a single multiprocessor busy.
constexpr uint32_t kProbeUnitRows = 1U << 16;

// Probe rows per thread that are loaded before the first is looked up: in a simpler kernel 1 took 1.96, 2 1.79 and 4
// 1.70 ms for 2^27 x 2^27 rows of 12 bytes.
constexpr int kProbeUnroll = 4;

// Output rows that a warp reserves at once: 2^27 matches reserve 2^17 times. What a warp has left at the end is a hole
// that other rows are moved to.
constexpr uint32_t kOutputChunkRows = 1024;

}  // namespace spillway::cuda
