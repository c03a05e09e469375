// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/row/row_encoder.hpp"
#include "memory/buffer.hpp"

namespace spillway {

// Encoded rows that can be written out as they are. Rows with byte strings need a page first, since VarRefs must point
// at bytes; others stay where the encoder put them.
class PlacedRows {
  public:
    // Rows from `begin` on, all or as many as have room; returns where the next ones begin.
    int64_t place(const EncodedRows& encoded, int64_t begin, MemoryBudget& budget);
    const uint8_t* row(int64_t i) const { return rows_ + i * row_bytes_; }  // i: from 0 at `begin`

  private:
    Buffer page_;
    const uint8_t* rows_ = nullptr;
    uint32_t row_bytes_ = 0;
};

}  // namespace spillway
