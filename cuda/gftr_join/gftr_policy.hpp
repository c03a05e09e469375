// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The numbers that tune the join by gathers from transformed relations; nothing else in cuda/gftr_join has any. None is
// measured yet. Radix bits are those of the other joins of pairs (pair_policy.hpp): as many as let a partition of the
// build side fit a block's shared memory, which are the 15 and 16 bits of the paper for 2^26 to 2^28 rows.
namespace spillway::cuda { inline namespace gftr_joins {

// Threads of the kernels that go over keys without looking at others.
constexpr int kGftrThreads = 256;
constexpr int kGftrBlocksPerMultiprocessor = 8;

}}  // namespace spillway::cuda::gftr_joins
