// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "memory/buffer.hpp"

namespace spillway {

// A buffer of a result batch: padded to 64 bytes, which are 0 behind the last one.
inline Buffer padded_buffer(MemoryBudget& budget, uint64_t bytes, const char* purpose = "result batches") {
    Buffer buffer = Buffer::allocate(budget, (bytes + 63) / 64 * 64, purpose);
    if (!buffer.empty()) std::memset(buffer.data() + bytes, 0, buffer.size() - bytes);
    buffer.set_size(bytes);
    return buffer;
}

// An Arrow offset of 4 or 8 bytes.
inline int64_t load_offset(const uint8_t* offsets, int64_t index, int32_t width) {
    int64_t offset = 0;  // little-endian: the low bytes come first
    std::memcpy(&offset, offsets + index * width, static_cast<size_t>(width));
    return offset;
}

}  // namespace spillway
