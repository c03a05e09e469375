// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/row_block.hpp"

namespace spillway {

// One field of a block as a column: NULLs dropped, numbers widened. What is gathered is kept while the next aggregate
// asks for the same of the same block.
class FieldGather {
  public:
    void start(const RowBlock& block) {
        block_ = &block;
        field_ = nullptr;
    }
    // Selects the rows where the field is not NULL.
    void select(const AggregatePlan& aggregate);
    int32_t count() const { return count_; }
    uint8_t* const* records() const { return records_; }
    // i-th selected row's number in the block.
    int32_t row(int32_t i) const { return compacted_ ? row_numbers_[i] : i; }
    // Address of the i-th selected value (fixed fields). Dictionaries: of the index, or of the decoded value.
    const uint8_t* address(int32_t i) const { return bases_[i] + displacement_; }
    // Selected values as load_number() gives them.
    const uint64_t* numbers(NumberKind kind);

  private:
    void select_of_rows(const AggregatePlan& aggregate);
    void select_of_column(const AggregatePlan& aggregate);
    void compact(const RowField& field);
    void compact(const ColumnView& view, int64_t begin);
    void extract_from_key_word(const RowField& field);
    void decode(const AggregatePlan& aggregate);
    template <class T, class To>
    void load_all(To to);

    const RowBlock* block_ = nullptr;
    const RowField* field_ = nullptr;
    const uint8_t* decode_ = nullptr;
    const uint8_t* first_ = nullptr;  // value of the block's row 0 where values lie side by side in a column
    bool located_ = false;            // addresses_ are filled although they do
    bool loaded_ = false;
    const uint64_t* loaded_numbers_ = nullptr;
    bool compacted_ = false;
    int32_t count_ = 0;
    uint8_t* const* records_ = nullptr;
    const uint8_t* const* bases_ = nullptr;
    uint32_t displacement_ = 0;
    const uint8_t* kept_rows_[RowBlock::kRowsMax];
    uint8_t* kept_records_[RowBlock::kRowsMax];
    int32_t row_numbers_[RowBlock::kRowsMax];
    const uint8_t* addresses_[RowBlock::kRowsMax];
    uint64_t key_values_[RowBlock::kRowsMax];
    uint64_t numbers_[RowBlock::kRowsMax];
};

}  // namespace spillway
