// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace spillway {

// Copies bytes of which there are mostly a few, as in strings: a call of memcpy takes longer than the moves that it
// ends in. Each length is covered by two moves of half of it or more, which may overlap.
inline void copy_short(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    const auto twice = [=]<uint64_t W>() {
        struct Move {
            uint8_t bytes[W];
        } first, last;
        std::memcpy(&first, from, W);
        std::memcpy(&last, from + bytes - W, W);
        std::memcpy(to, &first, W);
        std::memcpy(to + bytes - W, &last, W);
    };
    if (bytes > 64) {
        std::memcpy(to, from, bytes);
    } else if (bytes >= 32) {
        twice.template operator()<32>();
    } else if (bytes >= 16) {
        twice.template operator()<16>();
    } else if (bytes >= 8) {
        twice.template operator()<8>();
    } else if (bytes >= 4) {
        twice.template operator()<4>();
    } else if (bytes >= 2) {
        twice.template operator()<2>();
    } else if (bytes == 1) {
        *to = *from;
    }
}

}  // namespace spillway
