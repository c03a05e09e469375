// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/api/packed_block.hpp"

namespace spillway {

// Packs values that lie one behind the other, a block at a time, whatever the pieces in which they come.
class ValuePacker {
  public:
    explicit ValuePacker(uint32_t width) : width_(width), waiting_(uint64_t{cuda::kPackedValues} * width) {}
    // words: room for the values in whole blocks, 64-byte aligned, `first_line` lines behind the first of the column;
    // blocks: for all of them.
    void start(uint8_t* words, cuda::PackedBlock* blocks, uint64_t first_line = 0);
    void append(const uint8_t* values, uint64_t count);
    // The last block, if it is not complete.
    void finish();
    uint64_t packed_bytes() const { return packed_bytes_; }

  private:
    void pack(const uint8_t* values, uint64_t count);
    const uint32_t width_;
    std::vector<uint8_t> waiting_;
    uint64_t waiting_count_ = 0;
    uint8_t* words_ = nullptr;
    cuda::PackedBlock* blocks_ = nullptr;
    uint64_t first_line_ = 0;
    uint64_t packed_bytes_ = 0;
};

}  // namespace spillway
