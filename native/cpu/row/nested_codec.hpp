// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "memory/memory_budget.hpp"
#include "model/column_view.hpp"
#include "model/output_batch.hpp"

namespace spillway {

// Nested values (list, struct, map, union, fixed list) travel inside rows as one byte string each, so that partitions
// and spill files know fixed fields and byte strings only. The encoding is private to this file and never leaves the
// process: NULL flags, counts and child values in pre-order; nested dictionary values as int32 indices.

// The most that one value takes: a VarRef holds its length.
inline constexpr uint64_t kEncodedBytesMax = uint64_t{1} << 31;

// Bytes that encode_value will write for a valid row. Views and dense unions may point to the same bytes any number of
// times, so this may be far more than the column has. The walk over the value ends where it is larger than
// kEncodedBytesMax (throws kUnsupportedType) or than the whole budget (kBudgetTooSmall), naming the column.
uint64_t encoded_bytes(const ColumnView& column, int64_t row, const MemoryBudget& budget);
void encode_value(const ColumnView& column, int64_t row, uint8_t* out);

// The type a column has when it leaves the engine: views become binary with 32-bit offsets, at any depth. The same
// pointer when nothing changes.
TypePtr materialized_type(const TypePtr& type);

// Rebuilds an Arrow column from encoded values, of materialized_type(type). A NULL union row becomes a NULL of its
// first nullable member, since unions have no validity of their own.
class NestedBuilder {
  public:
    NestedBuilder(TypePtr type, MemoryBudget& budget);
    ~NestedBuilder();
    void append_null();
    void append(const uint8_t* bytes, uint64_t size);
    int64_t length() const;
    uint64_t bytes() const;  // buffered so far
    OutputColumn finish();   // leaves the builder empty and usable again

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace spillway
