// SPDX-License-Identifier: Apache-2.0
#include "hash_join/co_partition_join.cuh"
#include "hash_join/join_pass.hpp"

namespace spillway::cuda { inline namespace hash_join {

// Keys of 8 bytes, with a list.
JoinKernel join_list_kernel_8(uint32_t probe_words) {
    switch (probe_words) {
        case 2:
            return co_partition_join_kernel<2, 2, MatchUse::kList>;
        case 3:
            return co_partition_join_kernel<2, 3, MatchUse::kList>;
        case 4:
            return co_partition_join_kernel<2, 4, MatchUse::kList>;
        case 5:
            return co_partition_join_kernel<2, 5, MatchUse::kList>;
        case 6:
            return co_partition_join_kernel<2, 6, MatchUse::kList>;
        case 7:
            return co_partition_join_kernel<2, 7, MatchUse::kList>;
        default:
            return co_partition_join_kernel<2, 8, MatchUse::kList>;
    }
}

}}  // namespace spillway::cuda::hash_join
