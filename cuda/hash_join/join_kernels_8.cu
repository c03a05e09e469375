// SPDX-License-Identifier: Apache-2.0
#include "hash_join/co_partition_join.cuh"
#include "hash_join/join_pass.hpp"

namespace spillway::cuda { inline namespace hash_join {

// Keys of 8 bytes.
JoinKernel join_kernel_8(MatchUse use, uint32_t probe_words) {
    if (use == MatchUse::kCount) return co_partition_join_kernel<2, 0, MatchUse::kCount>;
    if (use == MatchUse::kMark) return co_partition_join_kernel<2, 0, MatchUse::kMark>;
    switch (probe_words) {
        case 2:
            return co_partition_join_kernel<2, 2, MatchUse::kWrite>;
        case 3:
            return co_partition_join_kernel<2, 3, MatchUse::kWrite>;
        case 4:
            return co_partition_join_kernel<2, 4, MatchUse::kWrite>;
        case 5:
            return co_partition_join_kernel<2, 5, MatchUse::kWrite>;
        case 6:
            return co_partition_join_kernel<2, 6, MatchUse::kWrite>;
        case 7:
            return co_partition_join_kernel<2, 7, MatchUse::kWrite>;
        default:
            return co_partition_join_kernel<2, 8, MatchUse::kWrite>;
    }
}

}}  // namespace spillway::cuda::hash_join
