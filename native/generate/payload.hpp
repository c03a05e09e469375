// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "generate/random.hpp"
#include "generate/text_pool.hpp"

namespace spillway {

// Payload values of generated relations. They depend on (key value, column number) for a primary relation and on
// (row number, column number) for a foreign one, and on nothing else, not even the seed: whoever sees a joined row can
// say what its payload must be. The key value enters as its sign-extended 64 bits.

inline uint64_t payload_word(uint64_t identity, int32_t column) {
    return random64(random_stream(0x7061796c6f6164ULL, static_cast<uint64_t>(column)), identity);
}

// Non-negative; 8-byte values have 32 random bits, so that sums over 2^31 rows stay inside 64 bits.
inline int64_t payload_int(uint64_t word, int32_t width) {
    return static_cast<int64_t>(word >> (width == 8 ? 32 : 65 - 8 * width));
}

// Multiples of 1/256 below 65536: exact in both widths, and double sums over 2^29 rows are exact in any order.
inline double payload_float(uint64_t word) {
    return static_cast<double>(word >> 40) * 0x1p-8;
}

inline uint32_t payload_text_length_max(int32_t width) {
    return static_cast<uint32_t>(width) + static_cast<uint32_t>(width) / 4;
}

// Lengths uniform in [width - width / 4, width + width / 4].
inline std::string_view payload_text(uint64_t word, int32_t width) {
    const uint32_t spread = static_cast<uint32_t>(width) / 4;
    const auto length =
        static_cast<uint32_t>(static_cast<uint32_t>(width) - spread + random_below(word << 32, 2 * spread + 1));
    return {TextPool::instance().piece(word, length), length};
}

}  // namespace spillway
