// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// Is |sum|, in two's complement of a word more than values have, below 10^38 (2-word decimals) or 10^76 (4-word)?
bool decimal_fits(const uint64_t* sum, uint32_t value_words);

}  // namespace spillway
