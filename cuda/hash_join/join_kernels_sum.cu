// SPDX-License-Identifier: Apache-2.0
#include "hash_join/co_partition_join.cuh"
#include "hash_join/join_pass.hpp"

namespace spillway::cuda { inline namespace hash_join {

JoinKernel join_kernel_sum(uint32_t key_words) {
    return key_words == 1 ? co_partition_join_kernel<1, 2, MatchUse::kSum>
                          : co_partition_join_kernel<2, 4, MatchUse::kSum>;
}

}}  // namespace spillway::cuda::hash_join
