// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/row_encoder.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/mix_kernels.hpp"
#include "base/short_copy.hpp"
#include "cpu/row/inline_text.hpp"
#include "cpu/row/nested_codec.hpp"
#include "cpu/row/strided_copy.hpp"

namespace spillway {

namespace {

constexpr const char* kScratchPurpose = "encoded rows";
constexpr uint64_t kScratchBytesMax = 256 << 10;  // of the L2 cache, unless a single row has more

}  // namespace

RowEncoder::RowEncoder(const RowLayout& layout, std::vector<int32_t> columns, MemoryBudget& budget)
    : layout_(layout), budget_(budget) {
    for (size_t i = 0; i < columns.size(); ++i) {
        if (columns[i] < 0) continue;
        if (static_cast<size_t>(columns[i]) >= view_of_column_.size()) view_of_column_.resize(columns[i] + 1, -1);
        view_of_column_[columns[i]] = static_cast<int32_t>(i);
    }
    for (const KeyPart& part : layout_.keys) {
        const KeyKind stored = part.spec.kind == KeyKind::kDictionaryValue ? part.spec.kind_of_value : part.spec.kind;
        if (stored == KeyKind::kBytes) var_slots_.push_back({part.offset, part.spec.column, &part, false});
    }
    const size_t key_slots = var_slots_.size();
    for (const RowField& field : layout_.fields) {
        if (field.kind != FieldKind::kBytes && field.kind != FieldKind::kNested) continue;
        const bool in_key = std::any_of(var_slots_.begin(), var_slots_.begin() + static_cast<int64_t>(key_slots),
                                        [&](const VarSlot& slot) { return slot.offset == field.offset; });
        if (!in_key) var_slots_.push_back({field.offset, field.column, nullptr, field.kind == FieldKind::kNested});
    }
    for (const VarSlot& slot : var_slots_) var_offsets_.push_back(slot.offset);
    allocate_rows();
    words_.resize(kRowsMax);
    part_words_.resize(kRowsMax);
    heap_bytes_.resize(var_slots_.empty() ? 0 : kRowsMax);
    nested_lengths_.resize(layout_.has_var ? kRowsMax : 0);
    nested_scratch_.resize(var_slots_.size());
    out_.row_bytes = layout_.row_bytes;
    out_.data = rows_;
    out_.var_fields = static_cast<uint32_t>(var_slots_.size());
    out_.var_offsets = var_offsets_.data();
    out_.var_pointers = var_pointers_;
    out_.var_stride = rows_max_;
    out_.heap_bytes = var_slots_.empty() ? nullptr : heap_bytes_.data();
}

// Wide rows in smaller blocks, and so where the budget has room for no more: a block of a row costs a little time.
void RowEncoder::allocate_rows() {
    const uint64_t per_row = layout_.row_bytes + var_slots_.size() * sizeof(const uint8_t*);
    rows_max_ = std::clamp<int64_t>(static_cast<int64_t>(kScratchBytesMax / per_row), 1, kRowsMax);
    while (memory_.empty()) {
        try {
            const uint64_t bytes = static_cast<uint64_t>(rows_max_) * per_row;
            memory_ = Buffer::allocate(budget_, bytes, kScratchPurpose, true);  // nothing else writes the padding
        } catch (const Error& error) {
            if (error.code() != ErrorCode::kBudgetTooSmall || rows_max_ == 1) throw;
            rows_max_ /= 2;
        }
    }
    rows_ = memory_.data();
    var_pointers_ = reinterpret_cast<const uint8_t**>(rows_ + static_cast<uint64_t>(rows_max_) * layout_.row_bytes);
}

const ColumnView& RowEncoder::view(const std::vector<ColumnView>& views, int32_t column) const {
    return views[static_cast<size_t>(view_of_column_[static_cast<size_t>(column)])];
}

const EncodedRows& RowEncoder::encode(const std::vector<ColumnView>& views, int64_t begin, int64_t rows,
                                      uint64_t row_number) {
    SPILLWAY_CHECK(rows <= rows_max_);
    select(views, begin, rows);
    if (interval_) select_interval(views);
    out_.rows = selection_.count;
    if (layout_.mode == KeyMode::kWord) {
        encode_word_keys(views);
    } else {
        encode_wide_keys(views);
    }
    encode_fields(views, row_number);
    encode_null_bits(views);
    if (!var_slots_.empty()) encode_var(views);
    if (layout_.mode != KeyMode::kWord) hash_wide_keys();
    return out_;
}

// Which rows go on: all, or (kDrop) those without a NULL key; kKeep marks the NULL ones instead.
void RowEncoder::select(const std::vector<ColumnView>& views, int64_t begin, int64_t rows) {
    selection_ = {begin, nullptr, rows};
    out_.null_key = nullptr;
    if (layout_.null_keys == NullKeys::kEqual) return;
    bool any = false;
    for (const KeyPart& part : layout_.keys) {
        const ColumnView& column = view(views, part.spec.column);
        if (column.validity == nullptr && column.type->layout != Layout::kNull) continue;
        if (!any) null_key_.assign(static_cast<size_t>(rows), 0);
        any = true;
        for (int64_t i = 0; i < rows; ++i) {
            null_key_[i] |= static_cast<uint8_t>(column.validity == nullptr || !column.is_valid(begin + i));
        }
    }
    if (!any) return;
    if (layout_.null_keys == NullKeys::kKeep) {
        out_.null_key = null_key_.data();
        return;
    }
    selected_.clear();
    for (int64_t i = 0; i < rows; ++i) {
        if (null_key_[i] == 0) selected_.push_back(begin + i);
    }
    selection_ = {begin, selected_.data(), static_cast<int64_t>(selected_.size())};
}

void RowEncoder::keep_only(const KeyInterval& interval) {
    SPILLWAY_CHECK(is_one_integer(layout_) && layout_.null_keys != NullKeys::kKeep);
    interval_ = interval;
    selected_.reserve(kRowsMax);  // never moved: selection_ may point to what it holds
}

void RowEncoder::select_interval(const std::vector<ColumnView>& views) {
    const KeyPart& key = layout_.keys[0];
    normalize_words(key, view(views, key.spec.column), selection_, words_.data());
    // It may be the list that is read: what is kept of it moves to the front.
    selected_.resize(kRowsMax);
    int64_t kept = 0;
    for (int64_t i = 0; i < selection_.count; ++i) {
        const int64_t value = integer_key(words_[static_cast<size_t>(i)], key.spec.width);
        selected_[static_cast<size_t>(kept)] = selection_[i];
        kept += value >= interval_->first && value <= interval_->last ? 1 : 0;
    }
    if (kept == selection_.count) return;
    selection_ = {selection_.begin, selected_.data(), kept};
}

// One 8-byte integer key without NULLs, by far the commonest: mixed on the way from the column to the row.
bool RowEncoder::encode_plain_keys(const std::vector<ColumnView>& views) {
    if (layout_.keys.size() != 1 || layout_.has_mask || selection_.rows != nullptr) return false;
    const ColumnView& column = view(views, layout_.keys[0].spec.column);
    if (!are_own_words(layout_.keys[0]) || column.validity != nullptr) return false;
    // Values need not be aligned: a copy that stays in L1, and at 8 bytes a row the rows themselves.
    const auto count = static_cast<uint64_t>(selection_.count);
    uint64_t* words = words_.data();
    std::memcpy(words, column.data + selection_.begin * 8, count * 8);
    mix_words(words, count, words);
    scatter_words(words);
    return true;
}

void RowEncoder::scatter_words(const uint64_t* words) {
    uint8_t* row = rows_;
    if (layout_.row_bytes == 8) {
        std::memcpy(row, words, static_cast<size_t>(selection_.count) * 8);
        return;
    }
    for (int64_t i = 0; i < selection_.count; ++i, row += layout_.row_bytes) std::memcpy(row, &words[i], 8);
}

void RowEncoder::encode_word_keys(const std::vector<ColumnView>& views) {
    if (encode_plain_keys(views)) return;
    const int64_t rows = selection_.count;
    uint64_t* words = words_.data();
    if (layout_.keys.size() == 1 && !layout_.has_mask) {
        normalize_words(layout_.keys[0], view(views, layout_.keys[0].spec.column), selection_, words);
    } else {
        std::fill_n(words, rows, 0);
        for (const KeyPart& part : layout_.keys) {
            const ColumnView& column = view(views, part.spec.column);
            normalize_words(part, column, selection_, part_words_.data());
            for (int64_t i = 0; i < rows; ++i) words[i] |= part_words_[i] << part.offset;
            if (!layout_.has_mask || column.validity == nullptr) continue;
            for (int64_t i = 0; i < rows; ++i) {
                const auto null = static_cast<uint64_t>(!column.is_valid(selection_[i]));
                words[i] |= null << (layout_.mask_offset + part.equal_mask_bit);
            }
        }
    }
    mix_words(words, static_cast<uint64_t>(rows), words);
    scatter_words(words);
}

void RowEncoder::encode_wide_keys(const std::vector<ColumnView>& views) {
    for (const KeyPart& part : layout_.keys) {
        const bool var =
            std::find(layout_.var_keys.begin(), layout_.var_keys.end(), part.offset) != layout_.var_keys.end();
        if (var) continue;
        normalize_bytes(part, view(views, part.spec.column), selection_, rows_ + part.offset, layout_.row_bytes);
    }
    if (layout_.has_mask) encode_null_mask(views);
}

void RowEncoder::encode_null_mask(const std::vector<ColumnView>& views) {
    const size_t mask_bytes = (layout_.keys.size() + 7) / 8;
    for (int64_t i = 0; i < selection_.count; ++i) {
        std::memset(rows_ + i * layout_.row_bytes + layout_.mask_offset, 0, mask_bytes);
    }
    for (const KeyPart& part : layout_.keys) {
        const ColumnView& column = view(views, part.spec.column);
        if (column.validity == nullptr) continue;
        const uint32_t byte = layout_.mask_offset + part.equal_mask_bit / 8;
        for (int64_t i = 0; i < selection_.count; ++i) {
            if (column.is_valid(selection_[i])) continue;
            rows_[i * layout_.row_bytes + byte] |= static_cast<uint8_t>(1u << (part.equal_mask_bit % 8));
        }
    }
}

void RowEncoder::hash_wide_keys() {
    const size_t key_bytes = layout_.key_end - layout_.key_begin;
    for (int64_t i = 0; i < selection_.count; ++i) {
        uint8_t* row = rows_ + i * layout_.row_bytes;
        uint64_t hash = hash_bytes(row + layout_.key_begin, key_bytes);
        for (size_t k = 0; k < layout_.var_keys.size(); ++k) {  // key slots come first in var_slots_
            VarRef ref;
            std::memcpy(&ref, row + layout_.var_keys[k], sizeof ref);
            hash = hash_bytes(var_pointers_[k * static_cast<size_t>(rows_max_) + static_cast<size_t>(i)], ref.length,
                              hash);
        }
        std::memcpy(row, &hash, 8);
    }
}

void RowEncoder::encode_fields(const std::vector<ColumnView>& views, uint64_t row_number) {
    const int64_t rows = selection_.count;
    for (const RowField& field : layout_.fields) {
        const bool is_text = field.kind == FieldKind::kInlineBytes;
        if ((field.kind != FieldKind::kFixed && !is_text) || field.in_key_word) continue;
        uint8_t* out = rows_ + field.offset;
        const uint32_t stride = layout_.row_bytes;
        if (field.column == kRowNumberColumn) {
            for (int64_t i = 0; i < rows; ++i, out += stride) {
                const uint64_t number = row_number + static_cast<uint64_t>(selection_[i] - selection_.begin);
                std::memcpy(out, &number, 8);
            }
            continue;
        }
        if (field.offset < layout_.key_end) continue;  // stored once, as part of the key
        const ColumnView& column = view(views, field.column);
        if (is_text) {
            inline_bytes(column, selection_, field.width, out, stride);
            continue;
        }
        if (column.type->layout == Layout::kBool) {
            for (int64_t i = 0; i < rows; ++i, out += stride) {
                *out = static_cast<uint8_t>(get_bit(column.data, column.data_bit + selection_[i]));
            }
            continue;
        }
        const bool known = with_width(field.width, [&]<uint32_t W>() {
            if (selection_.rows == nullptr) {
                const uint8_t* in = column.data + selection_.begin * W;
                for (int64_t i = 0; i < rows; ++i) std::memcpy(out + i * stride, in + i * W, W);
            } else {
                for (int64_t i = 0; i < rows; ++i) {
                    std::memcpy(out + i * stride, column.data + selection_.rows[i] * W, W);
                }
            }
        });
        if (known) continue;
        for (int64_t i = 0; i < rows; ++i, out += stride) {
            std::memcpy(out, column.data + selection_[i] * field.width, field.width);
        }
    }
}

void RowEncoder::encode_null_bits(const std::vector<ColumnView>& views) {
    if (layout_.null_bytes == 0) return;
    for (int64_t i = 0; i < selection_.count; ++i) {
        std::memset(rows_ + i * layout_.row_bytes + layout_.null_offset, 0, layout_.null_bytes);
    }
    for (const RowField& field : layout_.fields) {
        if (field.null_bit < 0) continue;
        const ColumnView& column = view(views, field.column);
        if (column.validity == nullptr) continue;
        uint8_t* byte = rows_ + layout_.null_offset + field.null_bit / 8;
        const int shift = field.null_bit % 8;
        for (int64_t i = 0; i < selection_.count; ++i, byte += layout_.row_bytes) {
            *byte |= static_cast<uint8_t>(!column.is_valid(selection_[i])) << shift;
        }
    }
}

void RowEncoder::set_var(const VarSlot& slot, const ColumnView& column, int64_t i, const uint8_t** pointers,
                         ByteString value) {
    const uint64_t heap = add_or_max<uint64_t>(heap_bytes_[i], value.length);
    if (heap > kEncodedBytesMax) {
        throw Error(ErrorCode::kUnsupportedType,
                    "a row with more than 2 GiB of strings, binary or nested values (" + std::to_string(heap) +
                        " bytes with those of column '" + column.type->name +
                        "') cannot be joined or grouped; drop the column with 'select' or split its values",
                    {{"column", column.type->name}, {"wantedBytes", std::to_string(heap)}});
    }
    heap_bytes_[i] = static_cast<uint32_t>(heap);
    const VarRef ref{0, static_cast<uint32_t>(value.length)};
    std::memcpy(rows_ + i * layout_.row_bytes + slot.offset, &ref, sizeof ref);
    pointers[i] = value.bytes;
}

void RowEncoder::encode_var(const std::vector<ColumnView>& views) {
    std::fill_n(heap_bytes_.begin(), selection_.count, 0);
    for (size_t s = 0; s < var_slots_.size(); ++s) {
        const VarSlot& slot = var_slots_[s];
        const ColumnView& column = view(views, slot.column);
        const uint8_t** pointers = var_pointers_ + s * static_cast<size_t>(rows_max_);
        if (slot.nested) {
            encode_nested(slot, column, pointers);
            continue;
        }
        for (int64_t i = 0; i < selection_.count; ++i) {
            const int64_t row = selection_[i];
            ByteString value{nullptr, 0};
            if (slot.key != nullptr) {
                value = key_byte_string(*slot.key, column, row);
            } else if (column.is_valid(row)) {
                value = byte_string(column, row);
            }
            set_var(slot, column, i, pointers, value);
        }
    }
}

void RowEncoder::encode_nested(const VarSlot& slot, const ColumnView& column, const uint8_t** pointers) {
    Buffer& scratch = nested_scratch_[static_cast<size_t>(&slot - var_slots_.data())];
    // Unions carry NULL in their children and have no validity of their own: encode every row.
    uint64_t total = 0;
    for (int64_t i = 0; i < selection_.count; ++i) {
        const int64_t row = selection_[i];
        nested_lengths_[i] = column.is_valid(row) ? encoded_bytes(column, row, budget_) : 0;
        total += nested_lengths_[i];
    }
    const std::string purpose = "nested values of column '" + column.type->name + "'";
    scratch.renew(budget_, total, purpose.c_str());
    uint8_t* at = scratch.data();
    for (int64_t i = 0; i < selection_.count; ++i) {
        const int64_t row = selection_[i];
        const uint64_t length = nested_lengths_[i];
        if (length > 0) encode_value(column, row, at);
        set_var(slot, column, i, pointers, {at, length});
        at += length;
    }
}

void place_row(const EncodedRows& encoded, int64_t i, uint8_t* row, uint8_t* heap) {
    std::memcpy(row, encoded.data + i * encoded.row_bytes, encoded.row_bytes);
    for (uint32_t f = 0; f < encoded.var_fields; ++f) {
        uint8_t* slot = row + encoded.var_offsets[f];
        VarRef ref;
        std::memcpy(&ref, slot, sizeof ref);
        if (ref.length == 0) continue;
        copy_short(heap, encoded.var_pointers[f * encoded.var_stride + i], ref.length);
        ref.distance = static_cast<uint32_t>(heap - slot);
        std::memcpy(slot, &ref, sizeof ref);
        heap += ref.length;
    }
}

}  // namespace spillway
