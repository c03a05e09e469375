// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace spillway {

// An Arrow offset of 4 or 8 bytes.
inline int64_t load_offset(const uint8_t* offsets, int64_t index, int32_t width) {
    int64_t offset = 0;  // little-endian: the low bytes come first
    std::memcpy(&offset, offsets + index * width, static_cast<size_t>(width));
    return offset;
}

}  // namespace spillway
