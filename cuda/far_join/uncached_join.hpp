// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "far_join/far_join.hpp"

namespace spillway::cuda {

// The two-pass radix join of Lutz, Breß, Zeuch, Rabl and Markl ("Triton Join", SIGMOD 2022) as it is without the cache
// of their section 5.3, the left end of their figure 19: both sides are partitioned and leave device memory whole, as
// rows of all their bytes, and come back partition by partition. Every row passes the link three times. It is
// OutOfCoreJoin with no resident partition and nothing packed, so that the difference is what residency and packing
// gain, and no other.
std::unique_ptr<FarJoin> open_uncached_join(Device& device, const FarJoinSpec& spec);

// OutOfCoreJoin with all that it has.
std::unique_ptr<FarJoin> open_triton_join(Device& device, const FarJoinSpec& spec);

}  // namespace spillway::cuda
