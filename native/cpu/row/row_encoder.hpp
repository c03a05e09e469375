// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/row/key_normalizer.hpp"
#include "memory/buffer.hpp"
#include "model/column_view.hpp"
#include "model/row_layout.hpp"
#include "model/stage_spec.hpp"

namespace spillway {

// Rows of one morsel slice in row format, in scratch memory of the encoder. VarRefs hold the length only; the bytes
// are still in the columns (var_pointers) until append_row() copies a row and its bytes into a page.
struct EncodedRows {
    int64_t rows = 0;
    uint32_t row_bytes = 0;
    uint8_t* data = nullptr;               // rows x row_bytes; first 8 bytes of each: key word or hash
    const uint8_t* null_key = nullptr;     // kKeep: 1 = goes to the NULL partition; nullptr = none does
    const uint32_t* heap_bytes = nullptr;  // has_var: bytes all VarRefs of the row need
    uint32_t var_fields = 0;
    const uint32_t* var_offsets = nullptr;         // row offset of each VarRef
    const uint8_t* const* var_pointers = nullptr;  // [field * stride + row]
    int64_t var_stride = 0;

    uint64_t hash(int64_t row) const {
        uint64_t word;
        __builtin_memcpy(&word, data + row * row_bytes, 8);
        return word;
    }
};

// Columns -> rows, at most rows_max() at a time so that the scratch rows stay in the L1/L2 cache. One per worker.
class RowEncoder {
  public:
    static constexpr int64_t kRowsMax = 1024;
    // columns: the view index of each layout column (KeySpec::column, RowField::column) in the spans given to encode.
    // The scratch rows are counted in `budget`. Throws kBudgetTooSmall where it has no room for a single one.
    RowEncoder(const RowLayout& layout, std::vector<int32_t> columns, MemoryBudget& budget);
    // Leaves rows out whose key is not in the interval: of a layout of one integer key, without a NULL mask.
    void keep_only(const KeyInterval& interval);
    // From 1 to kRowsMax: fewer for wide rows.
    int64_t rows_max() const { return rows_max_; }
    // Rows [begin, begin + rows) of the views, rows <= rows_max(). row_number: source row number of `begin`.
    const EncodedRows& encode(const std::vector<ColumnView>& views, int64_t begin, int64_t rows, uint64_t row_number);

  private:
    // One VarRef of the row: a byte-string key, a byte-string field or a nested field.
    struct VarSlot {
        uint32_t offset;
        int32_t column;
        const KeyPart* key;  // nullptr: a carried field
        bool nested;
    };
    const ColumnView& view(const std::vector<ColumnView>& views, int32_t column) const;
    void select(const std::vector<ColumnView>& views, int64_t begin, int64_t rows);
    void select_interval(const std::vector<ColumnView>& views);
    void scatter_words(const uint64_t* words);
    bool encode_plain_keys(const std::vector<ColumnView>& views);
    void encode_word_keys(const std::vector<ColumnView>& views);
    void encode_wide_keys(const std::vector<ColumnView>& views);
    void hash_wide_keys();
    void encode_null_mask(const std::vector<ColumnView>& views);
    void encode_fields(const std::vector<ColumnView>& views, uint64_t row_number);
    void encode_null_bits(const std::vector<ColumnView>& views);
    void encode_var(const std::vector<ColumnView>& views);
    void encode_nested(const VarSlot& slot, const ColumnView& column, const uint8_t** pointers);
    void set_var(const VarSlot& slot, const ColumnView& column, int64_t i, const uint8_t** pointers, ByteString value);

    void allocate_rows();

    const RowLayout& layout_;
    MemoryBudget& budget_;
    int64_t rows_max_ = kRowsMax;
    std::vector<int32_t> view_of_column_;  // indexed by column
    RowSelection selection_;
    std::optional<KeyInterval> interval_;
    EncodedRows out_;
    Buffer memory_;            // rows_max_ rows, then var_pointers_
    uint8_t* rows_ = nullptr;  // in memory_
    std::vector<int64_t> selected_;
    std::vector<uint64_t> words_;
    std::vector<uint64_t> part_words_;
    std::vector<uint8_t> null_key_;
    std::vector<uint32_t> heap_bytes_;
    std::vector<VarSlot> var_slots_;
    std::vector<uint32_t> var_offsets_;
    const uint8_t** var_pointers_ = nullptr;  // in memory_: rows_max_ of each var slot
    std::vector<uint64_t> nested_lengths_;
    std::vector<Buffer> nested_scratch_;  // one per var slot
};

// Copies encoded row i to `row` (row_bytes) and its byte strings to `heap` (heap_bytes[i] bytes, above `row` in
// memory), and makes the VarRefs self-relative.
void place_row(const EncodedRows& encoded, int64_t i, uint8_t* row, uint8_t* heap);

}  // namespace spillway
