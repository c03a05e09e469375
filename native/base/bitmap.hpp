// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

// Arrow bitmaps: least significant bit first, 1 = valid / true.
inline bool get_bit(const uint8_t* bits, int64_t i) {
    return (bits[i >> 3] >> (i & 7)) & 1;
}
inline void set_bit(uint8_t* bits, int64_t i) {
    bits[i >> 3] |= static_cast<uint8_t>(1u << (i & 7));
}
inline void clear_bit(uint8_t* bits, int64_t i) {
    bits[i >> 3] &= static_cast<uint8_t>(~(1u << (i & 7)));
}
inline void assign_bit(uint8_t* bits, int64_t i, bool value) {
    value ? set_bit(bits, i) : clear_bit(bits, i);
}
inline int64_t bitmap_bytes(int64_t bits) {
    return (bits + 7) / 8;
}

}  // namespace spillway
