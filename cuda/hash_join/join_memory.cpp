// SPDX-License-Identifier: Apache-2.0
#include "hash_join/join_memory.hpp"

#include <algorithm>
#include <cmath>

#include "radix_partition/radix_policy.hpp"
#include "radix_partition/tile_size.hpp"

namespace spillway::cuda { inline namespace hash_join {

// In favour of buckets where rows of a partition of average size leave room for more.
BlockRoom block_room(const GpuFacts& gpu, uint32_t key_words, uint32_t row_words, int radix_bits) {
    const bool holds_keys = chains_hold_keys(key_words, static_cast<uint32_t>(radix_bits));
    const auto shared = static_cast<double>(gpu.shared_bytes_per_block_optin - kJoinReservedBytes);
    const double row_bytes = row_words * 4.0 + (holds_keys ? 0 : 4);
    // Rounded up and not down: the mean that the policy names must fit.
    const double most = std::min<double>(kPartitionRowsMax / kPartitionFill + kRegionAlignRows, kNoBuildRow);
    BlockRoom room;
    const auto rows = static_cast<uint64_t>(std::min(most, shared / (row_bytes + 4 * kBucketsPerRowMin)));
    room.rows = static_cast<uint32_t>(rows / kRegionAlignRows * kRegionAlignRows);
    const double buckets = std::min(kBucketsPerRowMax * room.rows, (shared - room.rows * row_bytes) / 4);
    room.buckets = static_cast<uint32_t>(buckets) / 4 * 4;
    return room;
}

int second_pass_bits(const GpuFacts& gpu, uint32_t key_words, uint32_t row_words, uint64_t partition_rows, int done) {
    const int most = std::min(pass_bits_max(gpu, static_cast<int>(row_words)), 32 - done);
    int bits = 0;
    while (bits < most) {
        const double fits = block_room(gpu, key_words, row_words, done + bits).rows * kPartitionFill;
        if (static_cast<double>(partition_rows) / std::exp2(bits) <= fits) break;
        ++bits;
    }
    return bits;
}

}}  // namespace spillway::cuda::hash_join
