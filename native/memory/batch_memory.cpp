// SPDX-License-Identifier: Apache-2.0
#include "memory/batch_memory.hpp"

#include <cstring>
#include <utility>

#include "base/checked_size.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "result batches";
constexpr uint64_t kPadding = 64;  // as Arrow wants it, and the alignment of every block

}  // namespace

uint64_t BatchMemory::padded(uint64_t bytes) {
    return round_up_or_max(bytes, kPadding);
}

Buffer BatchMemory::take(uint64_t bytes) {
    const uint64_t wanted = padded(bytes);
    if (wanted == 0) return {};
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const uint64_t taken = block_.size();
        if (wanted <= bytes_ - taken && bytes_ < kBlockBytesMax) {
            if (block_.empty()) {
                block_ = Buffer::allocate(budget_, bytes_, kPurpose);
                block_.set_size(0);
            }
            block_.set_size(taken + wanted);
            return Buffer::slice(block_.data() + taken, wanted);
        }
    }
    Buffer own = Buffer::allocate(budget_, wanted, kPurpose);
    own.set_size(0);
    return own;
}

Buffer BatchMemory::take_padded(uint64_t bytes) {
    Buffer buffer = take(bytes);
    if (!buffer.empty()) std::memset(buffer.data() + bytes, 0, padded(bytes) - bytes);
    buffer.set_size(bytes);
    return buffer;
}

Buffer BatchMemory::take_block() {
    return std::move(block_);
}

}  // namespace spillway
