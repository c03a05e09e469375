// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "transfer/source.hpp"

namespace spillway {

// Bits that values of these columns take where they cross the link packed, headers of blocks included: the mean of a
// few blocks that are spread evenly over the source. The columns must have values whose width can be packed, and no
// dictionaries.
std::vector<double> sampled_value_bits(Source& source, const std::vector<int32_t>& columns, MemoryBudget& budget,
                                       JobControl& control);

}  // namespace spillway
