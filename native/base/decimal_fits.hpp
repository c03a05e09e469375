// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// What decimal_fits() says, of any sum.
bool decimal_fits_exactly(const uint64_t* sum, uint32_t value_words);

// Is |sum|, in two's complement of a word more than values have, below 10^38 (2-word decimals) or 10^76 (4-word)?
inline bool decimal_fits(const uint64_t* sum, uint32_t value_words) {
    // 10^38 is more than 2^126, and 10^76 more than 2^252: sums in which all bits above those are the sign fit.
    const auto sign = static_cast<int64_t>(sum[value_words]);
    const int64_t above = static_cast<int64_t>(sum[value_words - 1]) >> (value_words == 2 ? 62 : 60);
    if (above == sign && (sign == 0 || sign == -1)) return true;
    return decimal_fits_exactly(sum, value_words);
}

}  // namespace spillway
