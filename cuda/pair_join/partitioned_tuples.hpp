// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "device/memory_pool.hpp"

namespace spillway::cuda { inline namespace pair_join {

// Tuples of (mixed key, row number), in 2^radix_bits partitions by the top bits of the mixed key. Keys and row numbers
// are columns: the place of a tuple is the same in both. Rows without a key are left out.
struct PartitionedTuples {
    uint32_t key_width = 4;
    uint32_t row_width = 4;
    int radix_bits = 0;
    uint64_t relation_rows = 0;  // of which these are those with a key
    Allocation keys;
    Allocation rows;
    Allocation sizes;  // uint64_t[partitions()]

    // bucket_tuples = 0: partition p is the tuples [begin[p], begin[p + 1]). Else it is a chain of buckets of so many
    // tuples (a power of two), all full but the last one: those with the numbers bucket_list[begin[p]] and following.
    // Bucket b is the tuples from b * bucket_tuples on.
    Allocation begin;  // uint64_t[partitions() + 1]
    uint32_t bucket_tuples = 0;
    Allocation bucket_list;  // uint32_t

    uint64_t partitions() const { return 1ULL << radix_bits; }
};

}}  // namespace spillway::cuda::pair_join
