// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hash_join/join_pass.hpp"

namespace spillway::cuda { inline namespace hash_join {

using JoinKernel = void (*)(JoinPass);

// probe_words: of a probe row; only kWrite has a kernel for each. One file per key width, to compile side by side.
JoinKernel join_kernel_4(MatchUse use, uint32_t probe_words);
JoinKernel join_kernel_8(MatchUse use, uint32_t probe_words);
// Both sides must have rows that are a key and a payload of its width (SumTargets).
JoinKernel join_kernel_sum(uint32_t key_words);

}}  // namespace spillway::cuda::hash_join
