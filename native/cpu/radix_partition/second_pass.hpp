// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/radix_partition/partitioned_rows.hpp"

namespace spillway {

// Second partition pass, in memory, over the rows of one first-pass partition: histogram, prefix sum, scatter into one
// block, by the radix bits below those of the first pass. For co-partitions that the first pass, limited by TLB reach
// or by the memory that its open pages take, left larger than the cache. Fixed-width rows only (VarRefs are
// self-relative). The fan-out is small and the block is about to be read, so rows are written directly.
// Algorithm: parallel radix join, second pass; Balkesen et al. (ICDE 2013), section 4.
class SecondPass {
  public:
    // ignore_bits: radix bits of the first pass.
    SecondPass(const std::vector<RowSpan>& spans, uint32_t row_bytes, int32_t ignore_bits, int32_t radix_bits,
               uint64_t hash_mask, MemoryBudget& budget);
    RowSpan sub_partition(int32_t p) const;

  private:
    uint32_t row_bytes_;
    Buffer rows_;
    std::vector<uint64_t> offsets_;  // rows; 2^radix_bits + 1 entries
};

}  // namespace spillway
