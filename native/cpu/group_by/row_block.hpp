// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "cpu/row/column_builder.hpp"
#include "cpu/row/row_encoder.hpp"

namespace spillway {

inline uint64_t load_word(const uint8_t* at) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    return word;
}

// Where the values of a block's rows lie when the rows themselves hold no more than keys.
struct ColumnRows {
    const std::vector<ColumnView>* views = nullptr;
    int64_t begin = 0;              // view row of the block's row 0
    uint64_t first_row_number = 0;  // its row number
};

// Rows of one step of the group-by: first every row's record is found, then each aggregate runs over the block. 1024
// rows keep the addresses (16 KiB) and the columns gathered from them in the L1/L2 caches and pay for one switch per
// aggregate and block.
struct RowBlock {
    static constexpr int32_t kRowsMax = 1024;

    const uint8_t* rows[kRowsMax];
    uint8_t* records[kRowsMax];
    int32_t count = 0;
    uint32_t layout_null_offset = 0;       // RowLayout::null_offset
    bool one_group = false;                // every row has the same record: states can stay in registers
    const EncodedRows* encoded = nullptr;  // rows straight from the encoder: byte strings still lie in the columns
    int64_t encoded_begin = 0;             // encoded row of rows[0]
    const ColumnRows* columns = nullptr;   // GroupPlan::of_columns(): where aggregates find their values

    // Byte strings of one VarRef of each row.
    struct Var {
        uint32_t offset;
        const uint8_t* const* pointers;  // nullptr: self-relative references
    };
    Var var(uint32_t offset) const {
        if (encoded == nullptr) return {offset, nullptr};
        uint32_t field = 0;
        while (encoded->var_offsets[field] != offset) ++field;
        return {offset, encoded->var_pointers + field * encoded->var_stride + encoded_begin};
    }
    const uint8_t* bytes(const Var& var, int32_t i) const {
        return var.pointers != nullptr ? var.pointers[i] : var_bytes(rows[i], var.offset);
    }
    uint64_t length(const Var& var, int32_t i) const { return var_ref(rows[i], var.offset).length; }
};

}  // namespace spillway
