// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/load.hpp"

namespace spillway {

// The word of index n has its lowest n bytes set: what is kept of a word whose other bytes are of somebody else.
constexpr uint64_t kLowBytes[9] = {
    0, 0xff, 0xffff, 0xffffff, 0xffffffff, 0xffffffffff, 0xffffffffffff, 0xffffffffffffff, 0xffffffffffffffff};

// Puts zeros behind up to 8 bytes. It reads nothing else.
inline uint64_t padded_word(const uint8_t* bytes, uint64_t length) {
    if (length == 8) return load<uint64_t>(bytes);
    if (length >= 4) {
        return uint64_t{load<uint32_t>(bytes)} | uint64_t{load<uint32_t>(bytes + length - 4)} << (8 * (length - 4));
    }
    if (length >= 2) {
        return uint64_t{load<uint16_t>(bytes)} | uint64_t{load<uint16_t>(bytes + length - 2)} << (8 * (length - 2));
    }
    return length == 1 ? uint64_t{*bytes} : 0;
}

}  // namespace spillway
