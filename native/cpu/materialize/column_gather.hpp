// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/row/column_builder.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "model/column_view.hpp"

namespace spillway {

// A value in a column of some batch; view nullptr: a NULL (outer joins).
struct ValuePlace {
    const ColumnView* view = nullptr;
    int64_t row = 0;
};

// Values of one result column, taken from wherever they lie in the columns of a relation: late materialization. Every
// value is likely to be a cache miss (strings: one for the offsets and one for the bytes), so the addresses of a block
// of rows are found first and fetched while the others are found.
class ColumnGather {
  public:
    static constexpr int64_t kRowsMax = 1024;  // of a block: its addresses stay in the L1 cache

    // type: of the values, as a SourceReader hands them out.
    ColumnGather(TypePtr type, MemoryBudget& budget);

    // How many rows the result column will have, as far as is known: it takes memory for as many at once.
    void expect(int64_t rows) { builder_.expect(rows); }
    uint64_t expected_bytes() const { return builder_.expected_bytes(); }
    void use(BatchMemory& memory) { builder_.use(memory); }
    // The values of the next block, at most kRowsMax. places: as long as its rows are appended.
    void find(const ValuePlace* places, int64_t count);
    // Is the length of values known only when they were found?
    bool is_variable() const { return kind_ == Kind::kBytes || kind_ == Kind::kNested; }
    // Returns the bytes of the value of row i of the block, where is_variable().
    uint64_t value_bytes(int64_t i) const { return lengths_[static_cast<size_t>(i)]; }
    // Counts the bytes that every value takes, without those that depend on its length.
    uint64_t fixed_bytes() const { return is_variable() ? sizeof(int32_t) : width_; }

    // Room for rows [begin, begin + count) of the block. Throws kBudgetTooSmall; then nothing has changed.
    void reserve(int64_t begin, int64_t count);
    void append(int64_t begin, int64_t count);
    uint64_t bytes() const { return builder_.bytes(); }  // since the last finish()
    OutputColumn finish() { return builder_.finish(); }

  private:
    enum class Kind : uint8_t { kNull, kBool, kFixed, kBytes, kNested };
    static Kind kind_of(const ColumnType& type);
    bool is_null(int64_t i) const {
        const ValuePlace& place = places_[i];
        return place.view == nullptr || !place.view->is_valid(place.row);
    }
    void find_bytes(int64_t count);
    void append_fixed(int64_t begin, int64_t count);
    void append_nested(int64_t i);

    const Kind kind_;
    const uint32_t width_ = 0;       // kBool, kFixed
    const int64_t copied_rows_ = 0;  // kBool, kFixed: rows of values_
    MemoryBudget& budget_;
    ColumnBuilder builder_;
    const ValuePlace* places_ = nullptr;
    std::vector<uint64_t> lengths_;          // kBytes, kNested
    std::vector<const uint8_t*> addresses_;  // kFixed, kBytes; nullptr: NULL
    Buffer values_;                          // kFixed, kBool: of some rows of a block; kNested: of a row
    std::vector<uint8_t> valid_;
};

}  // namespace spillway
