// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/job_control.hpp"
#include "memory/memory_budget.hpp"
#include "transfer/source.hpp"

namespace spillway {

// What a few blocks that are spread evenly over a source tell of a column's values.
struct ValueSample {
    double bits = 0;       // that one takes where it crosses the link packed, headers of blocks included: the mean
    double magnitude = 0;  // of an integer, or of a decimal's digits, at most, whatever lies in the place of NULLs too
};

// The columns must have values whose width can be packed, and no dictionaries.
std::vector<ValueSample> sample_values(Source& source, const std::vector<int32_t>& columns, MemoryBudget& budget,
                                       JobControl& control);

}  // namespace spillway
