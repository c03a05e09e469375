// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "memory/buffer.hpp"

namespace spillway {

// A buffer of a result batch: padded to 64 bytes, which are 0 behind the last one.
inline Buffer padded_buffer(MemoryBudget& budget, uint64_t bytes) {
    Buffer buffer = Buffer::allocate(budget, (bytes + 63) / 64 * 64, "result batches");
    if (!buffer.empty()) std::memset(buffer.data() + bytes, 0, buffer.size() - bytes);
    buffer.set_size(bytes);
    return buffer;
}

}  // namespace spillway
