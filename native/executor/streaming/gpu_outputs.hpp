// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cuda/api/packed_block.hpp"

namespace spillway {

// An output column of the GPU in pinned memory, as it came over the link.
struct GpuOutput {
    const uint8_t* data = nullptr;              // of its first value, or line 0 of its blocks
    const cuda::PackedBlock* blocks = nullptr;  // nullptr: values lie as they are
    uint32_t width = 0;
};

// Result rows of the GPU: some that follow each other in its output columns.
class GpuOutputs {
  public:
    // first: begins with a block, where columns are packed. The list must outlive this.
    GpuOutputs(const std::vector<GpuOutput>& outputs, uint64_t first, uint64_t rows)
        : outputs_(&outputs), first_(first), rows_(rows) {}

    // Where the rows begin in a column that is not packed.
    const uint8_t* values(size_t column) const;
    std::vector<const uint8_t*> all_values() const;
    // The values, side by side, whether they are packed or not.
    void copy(size_t column, uint8_t* to) const;
    // Rows [begin, end) of these.
    GpuOutputs part(uint64_t begin, uint64_t end) const { return {*outputs_, first_ + begin, end - begin}; }
    // What packing has saved of the link.
    uint64_t saved_bytes() const;

  private:
    const std::vector<GpuOutput>* outputs_;
    uint64_t first_;
    uint64_t rows_;
};

}  // namespace spillway
