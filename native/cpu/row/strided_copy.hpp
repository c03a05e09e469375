// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace spillway {

// A value of W bytes that may be unaligned.
template <uint32_t W>
struct Bytes {
    uint8_t bytes[W];
};

// Calls body.template operator()<W>() with W = width for the widths that Arrow values have, so that the copy in the
// loop compiles to one or two moves; false for any other width.
template <class Body>
bool with_width(uint32_t width, Body&& body) {
    switch (width) {
        case 1:
            body.template operator()<1>();
            return true;
        case 2:
            body.template operator()<2>();
            return true;
        case 4:
            body.template operator()<4>();
            return true;
        case 8:
            body.template operator()<8>();
            return true;
        case 16:
            body.template operator()<16>();
            return true;
        case 32:
            body.template operator()<32>();
            return true;
        default:
            return false;
    }
}

}  // namespace spillway
