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
    double bits = 0;       // a value takes so many on the link where it is packed, in the mean and with block headers
    double magnitude = 0;  // greatest absolute value of integers or of digits of decimals; what stands for NULL counts
};

// The columns must have values whose width can be packed, and no dictionaries.
std::vector<ValueSample> sample_values(Source& source, const std::vector<int32_t>& columns, MemoryBudget& budget,
                                       JobControl& control);

}  // namespace spillway
