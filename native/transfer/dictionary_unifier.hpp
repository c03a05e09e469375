// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "memory/buffer.hpp"
#include "model/column_view.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Gives equal values of any number of dictionaries one index, in order of first appearance. Equal means: the same
// bytes; for floats every NaN is the same and -0 equals +0 (the first seen is kept); for nested values the same
// encoding. NULL values get index -1.
class DictionaryUnifier {
  public:
    // column: its name, for errors.
    DictionaryUnifier(TypePtr value_type, std::string column, MemoryBudget& budget);
    // indices: one per row of `values`.
    void add(const ColumnView& values, int32_t* indices);
    // Moves the distinct values into `out`.
    void finish(Dictionary& out);

  private:
    struct Slot {
        uint32_t hash;
        uint32_t index_plus_1;  // 0 = free
    };
    void read_value(const ColumnView& values, int64_t row);
    int32_t find_or_insert();
    bool equals_stored(int64_t index) const;
    void store();
    void double_table();
    void ensure(Buffer& buffer, uint64_t used, uint64_t wanted);
    uint64_t begin_of(int64_t index) const;
    OutputColumn take_values();
    OutputColumn take_binary();
    OutputColumn take_nested();

    TypePtr type_;
    std::string column_;
    MemoryBudget& budget_;
    bool fixed_ = false;     // values of `width_` bytes without offsets
    bool is_float_ = false;  // compared by canonical value
    uint64_t width_ = 0;
    int64_t count_ = 0;
    Buffer bytes_;  // distinct values, one behind the other
    Buffer ends_;   // not fixed_: uint64 end of each value in bytes_
    Buffer slots_;  // open addressing, a power of two, at most half full
    uint64_t slot_mask_ = 0;
    Buffer scratch_;  // encoding of a nested value
    // The value at hand.
    const uint8_t* value_ = nullptr;
    uint64_t value_bytes_ = 0;
    uint8_t canonical_[8] = {};
};

}  // namespace spillway
