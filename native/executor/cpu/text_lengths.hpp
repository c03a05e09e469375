// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "transfer/source.hpp"

namespace spillway {

// Bytes of the longest value of each of these columns, which have byte strings or dictionaries of such: of all rows, by
// their offsets or views alone, or of all values of the dictionary. What offsets say of NULLs counts.
std::vector<uint64_t> longest_texts(Source& source, const std::vector<int32_t>& columns, int workers,
                                    MemoryBudget& budget, JobControl& control);

}  // namespace spillway
