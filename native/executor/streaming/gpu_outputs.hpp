// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/api/packed_block.hpp"
#include "memory/buffer.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

// An output column of the GPU in pinned memory, as it came over the link.
struct GpuOutput {
    const uint8_t* data = nullptr;              // of its first value, or line 0 of its blocks
    const cuda::PackedBlock* blocks = nullptr;  // nullptr: values lie as they are
    uint32_t width = 0;
};

// One worker's memory for values that it unpacks, by output column.
class UnpackedValues {
  public:
    explicit UnpackedValues(MemoryBudget& budget) : budget_(budget) {}
    uint8_t* room(size_t column, uint64_t bytes);

  private:
    MemoryBudget& budget_;
    std::vector<Buffer> values_;
};

// Result rows of the GPU, for one worker: some that follow each other in its output columns.
class GpuOutputs {
  public:
    // unpacked: nullptr where no column is packed.
    GpuOutputs(const std::vector<GpuOutput>& outputs, uint64_t first, uint64_t rows, UnpackedValues* unpacked);

    // Where the rows begin in the column, as values; they stay until the next rows of the worker.
    const uint8_t* values(size_t column) const;
    std::vector<const uint8_t*> all_values() const;
    // The values, side by side.
    void copy(size_t column, uint8_t* to) const;
    // The rows from `begin` on, which `end` is behind.
    GpuOutputs part(uint64_t begin, uint64_t end) const;
    // What packing has saved of the link. Rows begin with a block.
    uint64_t saved_bytes() const;

  private:
    const std::vector<GpuOutput>* outputs_;
    uint64_t first_;
    uint64_t rows_;
    UnpackedValues* unpacked_;
    mutable std::vector<const uint8_t*> known_;  // by column; nullptr: not unpacked yet
};

}  // namespace spillway
