// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/row/nested_codec.hpp"
#include "memory/batch_memory.hpp"
#include "memory/memory_budget.hpp"
#include "model/output_batch.hpp"
#include "model/row_layout.hpp"

namespace spillway {

// Rows -> one Arrow column: gathers one field of many rows, given by their addresses.
class ColumnBuilder {
  public:
    // reserve_rows: rows for which fixed buffers are allocated at once (they grow when exceeded).
    ColumnBuilder(TypePtr type, MemoryBudget& budget, int64_t reserve_rows);
    // The same from now on.
    void expect(int64_t rows) { first_reserve_ = rows; }
    // What the rows that are expected take of the memory of their batch, with room for NULLs; nothing is known of
    // nested values and of the bytes of others whose length varies.
    uint64_t expected_bytes() const;
    // The next column begins in this memory, which must live until finish().
    void use(BatchMemory& memory) { memory_ = &memory; }
    // Room for further rows and the bytes of their values, as appending makes it (nested values: what they take is not
    // known before). Throws kBudgetTooSmall; the builder is as it was, but for room.
    void reserve(int64_t rows, uint64_t value_bytes);
    // rows[i] == nullptr (only when absent_rows): a NULL row (outer join).
    void append(const RowField& field, const RowLayout& layout, const uint8_t* const* rows, int64_t count,
                bool absent_rows);
    // Values of a column of that type, or of a view column where it holds strings; not nested ones.
    void append_view(const ColumnView& view, int64_t begin, int64_t count);
    // For states and other values that are not rows: kFixed / kBool / kDictionary values of byte_width (bool: 1 byte).
    void append_fixed(const void* values, const uint8_t* valid_bytes /* 1 = valid; nullptr = all */, int64_t count);
    void append_bytes(const uint8_t* bytes, uint64_t length);
    void append_null();
    int64_t length() const { return length_; }
    uint64_t bytes() const;  // data gathered so far
    OutputColumn finish();   // the builder is empty and usable again

  private:
    int64_t next_capacity(int64_t rows) const;
    void reserve_rows(int64_t rows);
    void reserve_bytes(uint64_t bytes);
    void grow(Buffer& buffer, uint64_t bytes);
    void mark_null(int64_t row);
    void mark_nulls(const RowField& field, const RowLayout& layout, const uint8_t* const* rows, int64_t count,
                    bool absent_rows);
    void append_fixed_field(const RowField& field, const uint8_t* const* rows, int64_t count, bool absent_rows);
    void append_bytes_field(const RowField& field, const RowLayout& layout, const uint8_t* const* rows, int64_t count);
    void append_inline_field(const RowField& field, const uint8_t* const* rows, int64_t count);
    void append_nested_field(const RowField& field, const RowLayout& layout, const uint8_t* const* rows, int64_t count);
    void append_strings(const ColumnView& view, int64_t begin, int64_t count);
    void write_offset(int64_t row, uint64_t offset);

    TypePtr type_;
    MemoryBudget& budget_;
    BatchMemory* memory_ = nullptr;
    int64_t first_reserve_;
    uint32_t width_ = 0;         // bytes per value; kBool: 0
    uint32_t offset_width_ = 0;  // kBinary
    int64_t length_ = 0;
    int64_t capacity_ = 0;
    int64_t null_count_ = 0;
    Buffer validity_;
    Buffer offsets_;
    Buffer data_;
    std::unique_ptr<NestedBuilder> nested_;
};

// One block of memory for the next batch of these builders, and that batch.
std::unique_ptr<BatchMemory> begin_batch(std::vector<ColumnBuilder>& builders, MemoryBudget& budget);
OutputBatch finish_batch(std::vector<ColumnBuilder>& builders, std::unique_ptr<BatchMemory> memory, int64_t rows);

// Is field NULL in this row?
inline bool field_is_null(const RowField& field, const RowLayout& layout, const uint8_t* row) {
    return field.null_bit >= 0 && ((row[layout.null_offset + (field.null_bit >> 3)] >> (field.null_bit & 7)) & 1);
}
inline VarRef var_ref(const uint8_t* row, uint32_t offset) {
    VarRef ref;
    __builtin_memcpy(&ref, row + offset, sizeof ref);
    return ref;
}
inline const uint8_t* var_bytes(const uint8_t* row, uint32_t offset) {
    return row + offset + var_ref(row, offset).distance;
}
// Bytes of one field's strings or encoded values; nullptr is a row without any. Of strings that lie in rows what they
// take there at most.
uint64_t string_bytes(const RowField& field, const uint8_t* const* rows, int64_t count);
// Bytes of the strings of these rows, without those of NULLs.
uint64_t string_bytes(const ColumnView& view, int64_t begin, int64_t count);
// Are the keys of two rows of layouts with the same key area equal? Only for rows whose first words are equal.
bool wide_keys_equal(const RowLayout& a_layout, const uint8_t* a, const RowLayout& b_layout, const uint8_t* b);

}  // namespace spillway
