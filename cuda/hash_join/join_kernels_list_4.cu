// SPDX-License-Identifier: Apache-2.0
#include "hash_join/co_partition_join.cuh"
#include "hash_join/join_pass.hpp"

namespace spillway::cuda { inline namespace hash_join {

// Keys of 4 bytes, with a list.
JoinKernel join_list_kernel_4(uint32_t probe_words) {
    switch (probe_words) {
        case 1:
            return co_partition_join_kernel<1, 1, MatchUse::kList>;
        case 2:
            return co_partition_join_kernel<1, 2, MatchUse::kList>;
        case 3:
            return co_partition_join_kernel<1, 3, MatchUse::kList>;
        case 4:
            return co_partition_join_kernel<1, 4, MatchUse::kList>;
        case 5:
            return co_partition_join_kernel<1, 5, MatchUse::kList>;
        case 6:
            return co_partition_join_kernel<1, 6, MatchUse::kList>;
        case 7:
            return co_partition_join_kernel<1, 7, MatchUse::kList>;
        default:
            return co_partition_join_kernel<1, 8, MatchUse::kList>;
    }
}

}}  // namespace spillway::cuda::hash_join
