// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>

#include "memory/buffer.hpp"

namespace spillway {

// The memory of one result batch: a block that the buffers of its columns are slices of. JavaScript then has one
// ArrayBuffer for each batch instead of one for each buffer, which cost 5 us each, and columns of less than 2 MiB get
// huge pages, too. Whatever has no room gets a block of its own. Several threads may take at a time.
class BatchMemory {
  public:
    // Bytes of the block that a buffer of so many takes.
    static uint64_t padded(uint64_t bytes);

    // bytes: the sum of padded() over all buffers that are known beforehand. The block is made with the first of them.
    BatchMemory(MemoryBudget& budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}

    // Begins at a multiple of 64 bytes and has room for `bytes` and the padding behind them; size() is 0. Throws
    // kBudgetTooSmall / kOutOfMemory.
    Buffer take(uint64_t bytes);
    // The same with size() set, and zeros in the padding.
    Buffer take_padded(uint64_t bytes);
    bool has_block() const { return !block_.empty(); }
    // For OutputBatch::memory, after the last buffer was taken. Empty where none of them is a slice.
    Buffer take_block();

  private:
    // A batch is one ArrayBuffer, and Node has none of 4 GiB and more that is external.
    static constexpr uint64_t kBlockBytesMax = uint64_t{1} << 32;

    MemoryBudget& budget_;
    const uint64_t bytes_;
    std::mutex mutex_;
    Buffer block_;  // size(): what was taken
};

}  // namespace spillway
