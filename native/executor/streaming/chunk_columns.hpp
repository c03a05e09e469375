// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cpu/row/key_normalizer.hpp"
#include "cpu/row/row_encoder.hpp"
#include "executor/streaming/chunk_values.hpp"
#include "executor/streaming/join_spec.hpp"
#include "executor/streaming/key_tuples.hpp"
#include "executor/streaming/text_codes.hpp"
#include "executor/streaming/text_extremes.hpp"
#include "executor/streaming/text_numbers.hpp"
#include "model/column_view.hpp"
#include "transfer/source.hpp"

namespace spillway {

// How text becomes numbers; no codes: there is no text.
struct ChunkTexts {
    TextCodes* codes = nullptr;
    // Text, and keys of a row together, that have no number are equal to none that will be looked for. A row with such
    // a text has no key; keys together get TextCodes::kNone, which is no row's number on the other side.
    bool known_only = false;
    // Keys and values that came already, for columns that say so of rows.
    TextCodes* seen = nullptr;
    // The extremes of groups; nullptr where no column has them.
    TextExtremes* extremes = nullptr;
};

// What one worker has of its own while it writes rows to chunks: what keys need that are not packed, and the text that
// it met last.
struct ChunkWriter {
    std::unique_ptr<RowEncoder> encoder;
    std::unique_ptr<TextNumbers> texts;  // nullptr: there is no text
};

// Where rows are written: bits of key validity begin at row `at` of a chunk, values at row 0 of these.
struct ChunkRows {
    uint8_t* key = nullptr;
    uint8_t* validity = nullptr;  // of the chunk
    uint64_t at = 0;
    std::vector<uint8_t*> columns;
};

// Where the columns of one side lie in the memory of a chunk, and how rows of a source get there.
class ChunkColumns {
  public:
    ChunkColumns(const Source& source, const OutOfCoreSide& side, const ChunkKeys& keys, uint64_t chunk_rows,
                 ChunkTexts texts = {});

    // The same for another source of the same columns, whose dictionaries are its own.
    ChunkColumns of(const Source& source) const;

    // Columns of the source to be read, in the order of the views of write().
    const std::vector<int32_t>& read() const { return read_; }
    uint64_t chunk_bytes() const { return chunk_bytes_; }
    bool has_key_validity() const { return nullable_; }

    const void* key(const uint8_t* chunk) const { return chunk; }
    const uint32_t* key_valid(const uint8_t* chunk) const {
        return reinterpret_cast<const uint32_t*>(chunk + validity_at_);
    }
    std::vector<const void*> columns(const uint8_t* chunk) const;
    // The key, then all columns.
    size_t value_columns() const { return 1 + columns_.size(); }
    uint32_t value_width(size_t column) const { return column == 0 ? key_bytes_ : columns_[column - 1].width; }
    uint64_t value_place(size_t column) const { return column == 0 ? 0 : columns_[column - 1].at; }
    // Rows [at, ...) of a chunk.
    ChunkRows rows(uint8_t* chunk, uint64_t at) const;
    // Values of a view that are those of the chunk's column as they are; nullptr: they have to be written.
    const uint8_t* plain_values(size_t column, const std::vector<ColumnView>& views) const;
    bool is_packed() const { return side_.packed; }

    // Clears the bits of rows [at, at + rows), before they are written. at: a multiple of 64.
    void clear_key_validity(uint8_t* chunk, uint64_t at, uint64_t rows) const;
    ChunkWriter writer(MemoryBudget& budget) const;
    // Rows of the views, of which the first has this number in the source, become these rows. Columns whose place is
    // nullptr are left out.
    void write(const std::vector<ColumnView>& views, uint64_t rows, uint64_t first_row, ChunkWriter& writer,
               const ChunkRows& to) const;
    bool all_have_keys(const uint8_t* chunk, uint64_t at, uint64_t rows) const;

  private:
    struct Key {
        KeyPart part;
        size_t view = 0;
        KeyPlace place;
    };
    struct Column {
        size_t view = 0;
        std::optional<KeyTuples> distinct;  // the keys, with the value of such a column
        ChunkColumn from;
        uint32_t width = 1;
        uint64_t at = 0;  // in the chunk
    };
    size_t view_of(int32_t column);
    void add_keys(const Source& source, const std::vector<KeySpec>& keys, const ChunkKeys& as);
    void write_column(const Column& column, const std::vector<ColumnView>& views, uint64_t rows, uint64_t first_row,
                      ChunkWriter& writer, uint8_t* out) const;
    // Numbers of these texts, 4 bytes each; that of a NULL is 0.
    void write_texts(const ColumnView& view, uint64_t first, uint64_t rows, ChunkWriter& writer, uint8_t* out) const;
    void number_keys(const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer, uint8_t* out) const;
    void write_distinct(const Column& column, const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer,
                        uint8_t* out) const;
    void write_extremes(const Column& column, const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer,
                        uint8_t* out) const;
    std::vector<KeyTuples::Key> tuple_parts() const;
    KeyTuples tuples_with(const KeySpec& spec, const TypePtr& type, size_t view) const;
    void encode_keys(const std::vector<ColumnView>& views, uint64_t rows, RowEncoder& encoder, uint8_t* out) const;
    void write_keys(const std::vector<ColumnView>& views, uint64_t rows, ChunkWriter& writer,
                    const ChunkRows& to) const;
    // Adds the key's values to the words of these rows, [word][kKeyRows]. bits: of rows with a key, of which those
    // whose text has no number are cleared; nullptr: there are none such.
    void add_key(size_t key, const ColumnView& view, const RowSelection& selection, ChunkWriter& writer,
                 uint64_t* words, uint8_t* bits, uint64_t at) const;
    void add_text_key(size_t key, const ColumnView& view, const RowSelection& selection, ChunkWriter& writer,
                      uint64_t* words, uint8_t* bits, uint64_t at) const;
    // Sets the bits of keys that are NULL.
    void add_flags(const std::vector<ColumnView>& views, const RowSelection& selection, uint64_t* words) const;
    // `at`: rows behind the first one.
    void store_words(uint64_t* words, int64_t rows, const ChunkRows& to, uint64_t at) const;
    void write_key_validity(const std::vector<ColumnView>& views, uint64_t rows, uint8_t* bits, uint64_t at) const;

    const OutOfCoreSide side_;
    const ChunkKeys as_;
    const uint64_t chunk_rows_;
    const uint32_t key_bytes_;
    const int32_t null_byte_;
    const ChunkTexts texts_;
    std::vector<int32_t> read_;
    std::vector<Key> keys_;
    std::optional<RowLayout> encoded_;  // of the keys, where they are not packed
    std::optional<KeyTuples> tuples_;   // where they are numbered
    std::optional<KeyTuples> groups_;   // where columns have the extremes of groups
    std::vector<Column> columns_;
    uint32_t more_words_ = 0;  // of the key, in the first columns
    uint32_t key_words_ = 1;   // that keys' values take; what is left of the others is 0 but for flags of NULLs
    bool nullable_ = false;    // some key column, where a NULL is no key
    bool plain_ = false;       // the only key's values are the words
    uint64_t validity_at_ = 0;
    uint64_t chunk_bytes_ = 0;
};

}  // namespace spillway
