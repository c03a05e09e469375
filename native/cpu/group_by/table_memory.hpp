// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "memory/buffer.hpp"

namespace spillway {

// Thrown inside the group-by when a table reaches its share of the memory, and always caught there: the caller works
// on a smaller hash range, or reports kBudgetTooSmall when there is none.
struct TableFull {};

// One table's share of GroupBySpec::table_bytes. Owned and used by one worker. Blocks are counted here as well as in
// the budget of the runtime; if that has less left than the plan promised, the share ends there.
class TableMemory {
  public:
    TableMemory(MemoryBudget& budget, uint64_t limit) : budget_(&budget), limit_(limit) {}
    TableMemory(const TableMemory&) = delete;
    TableMemory& operator=(const TableMemory&) = delete;

    const MemoryBudget& budget() const { return *budget_; }
    uint64_t limit() const { return limit_; }
    uint64_t used() const { return used_; }
    uint64_t left() const { return limit_ > used_ ? limit_ - used_ : 0; }
    // What numbers of groups, and arrays of their states, may take of it: the rest is for records.
    uint64_t left_for_arrays() const { return left() / 2; }
    uint64_t wanted() const { return wanted_; }  // bytes that would have been in use when TableFull was thrown
    // Counts bytes that a later step will need, so that it cannot fail then.
    void charge(uint64_t bytes);
    void give_back(uint64_t bytes) { used_ -= bytes; }

  private:
    friend class TableBlock;
    MemoryBudget* budget_;
    uint64_t limit_;
    uint64_t used_ = 0;
    uint64_t wanted_ = 0;
};

// A block counted in a TableMemory.
class TableBlock {
  public:
    TableBlock() = default;
    TableBlock(TableMemory& memory, uint64_t bytes);  // throws TableFull
    TableBlock(TableBlock&& other) noexcept;
    TableBlock& operator=(TableBlock&& other) noexcept;
    ~TableBlock() { release(); }
    uint8_t* data() { return buffer_.data(); }
    const uint8_t* data() const { return buffer_.data(); }
    uint64_t bytes() const { return bytes_; }
    void release();

  private:
    TableMemory* memory_ = nullptr;
    uint64_t bytes_ = 0;
    Buffer buffer_;
};

// Byte strings of a table: bump allocation, freed all at once.
class ByteArena {
  public:
    explicit ByteArena(TableMemory& memory);
    uint8_t* allocate(uint64_t bytes) {  // 8-byte aligned; throws TableFull
        bytes = (bytes + 7) & ~uint64_t{7};
        if (bytes > static_cast<uint64_t>(end_ - next_)) add_chunk(bytes);
        uint8_t* result = next_;
        next_ += bytes;
        return result;
    }
    void clear();
    uint64_t bytes() const { return bytes_; }
    uint64_t bytes_for(uint64_t bytes) const { return std::max(bytes, chunk_bytes_); }  // at most, of memory
    const MemoryBudget& budget() const { return memory_.budget(); }

  private:
    void add_chunk(uint64_t bytes);
    TableMemory& memory_;
    uint64_t chunk_bytes_;
    uint64_t bytes_ = 0;
    std::vector<TableBlock> chunks_;
    uint8_t* next_ = nullptr;
    uint8_t* end_ = nullptr;
};

}  // namespace spillway
