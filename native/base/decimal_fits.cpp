// SPDX-License-Identifier: Apache-2.0
#include "base/decimal_fits.hpp"

namespace spillway {

bool decimal_fits_exactly(const uint64_t* sum, uint32_t value_words) {
    constexpr uint32_t kWordsMax = 5;
    const uint32_t words = value_words + 1;
    const bool negative = static_cast<int64_t>(sum[words - 1]) < 0;
    uint64_t magnitude[kWordsMax];
    uint64_t limit[kWordsMax] = {1};
    unsigned carry = negative ? 1 : 0;
    for (uint32_t i = 0; i < words; ++i) {
        magnitude[i] = negative ? ~sum[i] + carry : sum[i];
        if (negative) carry = carry != 0 && magnitude[i] == 0 ? 1 : 0;
    }
    const int digits = value_words == 2 ? 38 : 76;
    for (int digit = 0; digit < digits; ++digit) {
        uint64_t over = 0;
        for (uint32_t i = 0; i < words; ++i) {
            const unsigned __int128 product = static_cast<unsigned __int128>(limit[i]) * 10 + over;
            limit[i] = static_cast<uint64_t>(product);
            over = static_cast<uint64_t>(product >> 64);
        }
    }
    for (uint32_t i = words; i-- > 0;) {
        if (magnitude[i] != limit[i]) return magnitude[i] < limit[i];
    }
    return false;
}

}  // namespace spillway
