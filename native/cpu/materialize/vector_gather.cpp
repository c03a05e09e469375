// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/vector_gather.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/load.hpp"
#include "cpu/row/column_builder.hpp"
#include "cpu/row/inline_text.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "cpu/row/strided_copy.hpp"
#include "model/type_size.hpp"

namespace spillway {

namespace {

constexpr const char* kVectorPurpose = "vectors of a pipeline";
constexpr int32_t kWidthMax = 64;
constexpr uint64_t kViewBytes = 16;    // of an entry of a view column
constexpr uint32_t kInlineBytes = 12;  // that an entry holds itself

uint64_t value_bytes(const ColumnType& type) {
    return type.is_bytes() ? kViewBytes : fixed_value_bytes(type);
}

// The same column from row `first` on.
ColumnView from_row(const ColumnView& view, int64_t first, int64_t count) {
    ColumnView part = view;
    part.length = count;
    if (part.validity != nullptr) part.validity_bit += first;
    switch (view.type->layout) {
        case Layout::kNull:
            break;
        case Layout::kBool:
            part.data_bit += first;
            break;
        case Layout::kBinary:
            part.offsets += first * view.type->byte_width;
            break;
        default:
            part.data += first * static_cast<int64_t>(value_bytes(*view.type));
            break;
    }
    return part;
}

// An entry of a view column; `to` is cleared.
void put_view(uint8_t* to, const ByteString& text, uint32_t buffer, uint32_t place) {
    const auto length = static_cast<uint32_t>(text.length);
    std::memcpy(to, &length, sizeof length);
    if (length <= kInlineBytes) {
        if (length > 0) std::memcpy(to + 4, text.bytes, length);
        return;
    }
    std::memcpy(to + 4, text.bytes, 4);
    std::memcpy(to + 8, &buffer, sizeof buffer);
    std::memcpy(to + 12, &place, sizeof place);
}

ByteString string_of_row(const RowField& field, const uint8_t* row, uint64_t& key_value) {
    if (field.kind == FieldKind::kBytes) {
        return {var_bytes(row, field.offset), var_ref(row, field.offset).length};
    }
    if (!field.in_key_word) return inline_string(row + field.offset, field.width);
    key_value = unmix64(first_word(row)) >> field.key_shift;
    return inline_string(reinterpret_cast<const uint8_t*>(&key_value), field.width);
}

void set_bits(uint8_t* out, int64_t count, auto&& is_set) {
    std::memset(out, 0, static_cast<size_t>(bitmap_bytes(count)));
    for (int64_t i = 0; i < count; ++i) {
        out[i >> 3] = static_cast<uint8_t>(out[i >> 3] | (static_cast<uint8_t>(is_set(i)) << (i & 7)));
    }
}

void set_validity(ColumnView& to, Buffer& bits, int64_t count, auto&& is_valid) {
    set_bits(bits.data(), count, is_valid);
    to.validity = bits.data();
    to.validity_bit = 0;
}

}  // namespace

bool VectorGather::takes(const ColumnType& type) {
    return !type.is_nested() && !(type.layout == Layout::kFixed && type.byte_width > kWidthMax);
}

uint64_t VectorGather::column_bytes(const ColumnType& type) {
    return static_cast<uint64_t>(RowVector::kRowsMax) * value_bytes(type) + RowVector::kRowsMax / 8;
}

VectorGather::VectorGather(std::vector<VectorColumn> columns, MemoryBudget& budget)
    : columns_(std::move(columns)), scratch_(columns_.size()), views_(columns_.size()) {
    for (size_t c = 0; c < columns_.size(); ++c) {
        const ColumnType& type = *columns_[c].type;
        SPILLWAY_CHECK(takes(type));
        Scratch& scratch = scratch_[c];
        const auto rows = static_cast<uint64_t>(RowVector::kRowsMax);
        scratch.values = Buffer::allocate(budget, std::max<uint64_t>(rows * value_bytes(type), 1), kVectorPurpose);
        scratch.validity = Buffer::allocate(budget, rows / 8, kVectorPurpose);
        if (!type.is_bytes()) continue;
        scratch.text = type;
        scratch.text.layout = Layout::kView;
    }
}

const std::vector<ColumnView>& VectorGather::gather(const RowVector& rows, const std::vector<ColumnView>& source) {
    for (size_t c = 0; c < columns_.size(); ++c) {
        const VectorColumn& column = columns_[c];
        ColumnView& to = views_[c];
        if (column.join >= 0) {
            to = ColumnView{};
            gather_build(column, rows, scratch_[c], to);
        } else if (rows.source_rows == nullptr) {
            to = from_row(source[column.view], rows.first_row, rows.rows);
        } else {
            to = ColumnView{};
            gather_source(column, rows, source[column.view], scratch_[c], to);
        }
    }
    return views_;
}

void VectorGather::gather_source(const VectorColumn& column, const RowVector& rows, const ColumnView& from,
                                 Scratch& scratch, ColumnView& to) {
    const int64_t* at = rows.source_rows;
    to.type = from.type;
    to.length = rows.rows;
    to.data = scratch.values.data();
    if (from.validity != nullptr) {
        set_validity(to, scratch.validity, rows.rows, [&](int64_t i) { return from.is_valid(at[i]); });
    }
    switch (column.type->layout) {
        case Layout::kNull:
            return;
        case Layout::kBool:
            set_bits(scratch.values.data(), rows.rows,
                     [&](int64_t i) { return get_bit(from.data, from.data_bit + at[i]); });
            return;
        case Layout::kBinary:
        case Layout::kView:
            gather_texts(rows, from, scratch, to);
            return;
        default:
            break;
    }
    const auto width = static_cast<uint32_t>(value_bytes(*from.type));
    uint8_t* out = scratch.values.data();
    const bool known = with_width(width, [&]<uint32_t W>() {
        for (int64_t i = 0; i < rows.rows; ++i) std::memcpy(out + i * W, from.data + at[i] * W, W);
    });
    if (known) return;
    for (int64_t i = 0; i < rows.rows; ++i) std::memcpy(out + i * width, from.data + at[i] * width, width);
}

// As entries of a view column: short texts are copied, of long ones only the place.
void VectorGather::gather_texts(const RowVector& rows, const ColumnView& from, Scratch& scratch, ColumnView& to) {
    const int64_t* at = rows.source_rows;
    uint8_t* out = scratch.values.data();
    to.type = &scratch.text;
    if (from.type->layout == Layout::kView) {
        for (int64_t i = 0; i < rows.rows; ++i) std::memcpy(out + i * 16, from.data + at[i] * 16, kViewBytes);
        to.view_buffers = from.view_buffers;
        return;
    }
    // Rows of a piece lie within some MiB, or there is one; so places relative to its first text fit 32 bits.
    const uint8_t* base = byte_string(from, 0).bytes;
    for (int64_t i = 0; i < rows.rows; ++i, out += kViewBytes) {
        const ByteString text = byte_string(from, at[i]);
        std::memset(out, 0, kViewBytes);
        put_view(out, text, 0, static_cast<uint32_t>(text.bytes - base));
    }
    to.view_buffers = {base};
}

void VectorGather::gather_build(const VectorColumn& column, const RowVector& rows, Scratch& scratch, ColumnView& to) {
    static constexpr uint8_t kAbsent[kWidthMax] = {};
    const RowField& field = *column.field;
    const uint8_t* const* from = rows.build_rows[static_cast<size_t>(column.join)];
    const int64_t count = rows.rows;
    to.type = column.type.get();
    to.length = count;
    to.data = scratch.values.data();
    if (column.absent_rows || field.null_bit >= 0) {
        set_validity(to, scratch.validity, count,
                     [&](int64_t i) { return from[i] != nullptr && !field_is_null(field, *column.layout, from[i]); });
    }
    if (field.kind == FieldKind::kNull) return;
    const bool is_text = field.kind == FieldKind::kBytes || field.kind == FieldKind::kInlineBytes;
    if (is_text) return gather_build_texts(column, from, count, scratch, to);
    uint8_t* out = scratch.values.data();
    const uint32_t offset = field.in_key_word ? 0 : field.offset;
    const auto at = [&](int64_t i) { return from[i] == nullptr ? kAbsent : from[i] + offset; };
    if (field.in_key_word) {
        const auto value = [&](int64_t i) { return unmix64(first_word(at(i))) >> field.key_shift; };
        if (column.type->layout == Layout::kBool) {
            set_bits(out, count, [&](int64_t i) { return value(i) & 1; });
            return;
        }
        for (int64_t i = 0; i < count; ++i, out += field.width) {
            const uint64_t word = value(i);
            std::memcpy(out, &word, field.width);
        }
        return;
    }
    if (column.type->layout == Layout::kBool) {
        set_bits(out, count, [&](int64_t i) { return *at(i) & 1; });
        return;
    }
    const bool known = with_width(field.width, [&]<uint32_t W>() {
        for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * W, at(i), W);
    });
    if (known) return;
    for (int64_t i = 0; i < count; ++i, out += field.width) std::memcpy(out, at(i), field.width);
}

// As entries of a view column, each with a buffer of its own: rows lie anywhere.
void VectorGather::gather_build_texts(const VectorColumn& column, const uint8_t* const* rows, int64_t count,
                                      Scratch& scratch, ColumnView& to) {
    const RowField& field = *column.field;
    uint8_t* out = scratch.values.data();
    to.type = &scratch.text;
    to.view_buffers.resize(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i, out += kViewBytes) {
        std::memset(out, 0, kViewBytes);
        if (rows[i] == nullptr) continue;
        uint64_t key_value;  // its text has no more bytes than an entry holds
        const ByteString text = string_of_row(field, rows[i], key_value);
        put_view(out, text, static_cast<uint32_t>(i), 0);
        to.view_buffers[static_cast<size_t>(i)] = text.bytes;
    }
}

}  // namespace spillway
