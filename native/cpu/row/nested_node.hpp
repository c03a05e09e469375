// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/checked_size.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// One node of the type tree with the rows appended so far.
class NestedNode {
  public:
    NestedNode(TypePtr type, MemoryBudget& budget);  // type: without views, see materialized_type

    // Both read what nested_encoding.hpp calls rows(n) and child(n), and return where they stopped.
    const uint8_t* read_rows(const uint8_t* in, int64_t rows);
    const uint8_t* read_child(const uint8_t* in, int64_t rows);
    void append_nulls(int64_t rows) { append_blank(rows, false); }
    int64_t length() const { return length_; }
    uint64_t bytes() const;
    OutputColumn finish();

  private:
    bool is_union() const { return type_->layout == Layout::kUnionSparse || type_->layout == Layout::kUnionDense; }
    void ensure(Buffer& buffer, uint64_t used, uint64_t wanted);
    // The length with so many rows more, and the items of so many lists of fixed size. They throw when a column of so
    // many rows cannot be: with kRowsMax rows the bytes of offsets and bitmaps are far from 2^64.
    int64_t length_with(int64_t rows) const;
    int64_t fixed_items(int64_t lists) const;
    [[noreturn]] void fail_length() const;
    void mark(int64_t rows, bool valid);
    void append_blank(int64_t rows, bool valid);
    void append_filler(int64_t rows);
    void append_blank_union(int64_t rows);
    // Throws when a 32-bit offset cannot reach `end`.
    void check_offset(int64_t end, bool wide) const;
    template <class Offset>
    void write_offset(int64_t index, int64_t offset);
    template <class Offset>
    void repeat_offset(int64_t rows, int64_t offset);
    template <class Offset>
    const uint8_t* read_lengths(const uint8_t* in, int64_t rows, int64_t end, int64_t* total);
    template <class Offset>
    const uint8_t* read_binary(const uint8_t* in, int64_t rows);
    template <class Offset>
    const uint8_t* read_list(const uint8_t* in, int64_t rows);
    const uint8_t* read_union(const uint8_t* in, int64_t rows);
    uint8_t* extend_data(uint64_t bytes);
    void extend_bits(int64_t rows);

    TypePtr type_;
    MemoryBudget* budget_;
    uint64_t width_ = 0;  // kFixed, kDictionary: bytes of a value
    int64_t length_ = 0;
    int64_t null_count_ = 0;
    Buffer validity_;  // made at the first NULL
    Buffer offsets_;
    Buffer data_;
    std::vector<NestedNode> children_;
};

}  // namespace spillway
