// SPDX-License-Identifier: Apache-2.0
#include "cpu/row/column_builder.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked_size.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/load.hpp"
#include "base/mix_kernels.hpp"
#include "base/short_copy.hpp"
#include "cpu/row/inline_text.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "cpu/row/strided_copy.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "result batches";
constexpr uint32_t kWideBytes = 1024;

TypePtr output_type(TypePtr type) {
    if (type->layout != Layout::kView) return type;
    auto binary = std::make_shared<ColumnType>(*type);
    binary->layout = Layout::kBinary;
    binary->byte_width = 4;
    return binary;
}

uint64_t padded(uint64_t bytes) {
    return BatchMemory::padded(bytes);
}

// Do the strings lie one behind the other, with nothing in between?
bool lie_together(const ColumnView& view) {
    return view.type->layout == Layout::kBinary && view.validity == nullptr;
}

// Arrow asks for 64-byte padding; zeroed so that files never carry stale memory.
void pad(Buffer& buffer, uint64_t bytes) {
    if (buffer.empty()) return;
    const uint64_t end = std::min(padded(bytes), buffer.capacity());
    std::memset(buffer.data() + bytes, 0, end - bytes);
    buffer.set_size(bytes);
}

}  // namespace

ColumnBuilder::ColumnBuilder(TypePtr type, MemoryBudget& budget, int64_t reserve_rows)
    : type_(output_type(std::move(type))), budget_(budget), first_reserve_(reserve_rows) {
    if (type_->layout == Layout::kFixed) width_ = static_cast<uint32_t>(type_->byte_width);
    if (type_->layout == Layout::kDictionary) width_ = sizeof(int32_t);
    if (type_->layout == Layout::kBinary) offset_width_ = static_cast<uint32_t>(type_->byte_width);
    if (type_->is_nested()) nested_ = std::make_unique<NestedBuilder>(type_, budget);
}

void ColumnBuilder::reserve(int64_t rows, uint64_t value_bytes) {
    if (nested_ != nullptr) return;
    reserve_rows(length_ + rows);
    if (offset_width_ > 0) reserve_bytes(value_bytes);
}

// Wide values: memory for no more than asked for, which Buffer::grow doubles where the budget has room.
int64_t ColumnBuilder::next_capacity(int64_t rows) const {
    const int64_t roomy = width_ > kWideBytes ? 0 : std::max<int64_t>(capacity_ * 2, 64);
    return std::max({rows, roomy, first_reserve_});
}

uint64_t ColumnBuilder::expected_bytes() const {
    return expected_column_bytes(*type_, static_cast<uint64_t>(next_capacity(0)));
}

void ColumnBuilder::grow(Buffer& buffer, uint64_t bytes) {
    if (buffer.empty() && memory_ != nullptr) {
        buffer = memory_->take(bytes);
    } else {
        buffer.grow(budget_, bytes, kPurpose);
    }
}

void ColumnBuilder::reserve_rows(int64_t rows) {
    if (rows <= capacity_) return;
    const int64_t capacity = next_capacity(rows);
    if (type_->layout == Layout::kBool) {
        data_.set_size(static_cast<uint64_t>(bitmap_bytes(length_)));
        grow(data_, padded(static_cast<uint64_t>(bitmap_bytes(capacity))));
        const auto used = static_cast<uint64_t>(bitmap_bytes(length_));
        std::memset(data_.data() + used, 0, data_.capacity() - used);
    } else if (width_ > 0) {
        data_.set_size(static_cast<uint64_t>(length_) * width_);
        grow(data_, padded(multiply_or_max<uint64_t>(static_cast<uint64_t>(capacity), width_)));
    } else if (offset_width_ > 0) {
        const bool first = offsets_.empty();
        offsets_.set_size(first ? 0 : static_cast<uint64_t>(length_ + 1) * offset_width_);
        grow(offsets_, padded(multiply_or_max<uint64_t>(static_cast<uint64_t>(capacity) + 1, offset_width_)));
        if (first) write_offset(0, 0);
    }
    if (!validity_.empty()) {
        const auto used = static_cast<uint64_t>(bitmap_bytes(length_));
        validity_.set_size(used);
        validity_.grow(budget_, padded(static_cast<uint64_t>(bitmap_bytes(capacity))), kPurpose);
        std::memset(validity_.data() + used, 0xff, validity_.capacity() - used);
    }
    capacity_ = capacity;
}

void ColumnBuilder::reserve_bytes(uint64_t bytes) {
    const uint64_t wanted = add_or_max(data_.size(), bytes);
    if (offset_width_ == 4 && wanted > 0x7fffffffULL) {
        throw Error(ErrorCode::kUnsupportedType,
                    "a result batch holds more than 2 GiB of values in column '" + type_->name +
                        "', the most that 32-bit offsets address; lower the option 'batchRows'",
                    {{"column", type_->name}, {"option", "batchRows"}});
    }
    // Doubles while the budget allows it, and takes what is needed when it does not.
    const uint64_t room = add_or_max<uint64_t>(wanted, 64);
    if (room > data_.capacity()) data_.grow(budget_, padded(room), kPurpose);
}

void ColumnBuilder::write_offset(int64_t row, uint64_t offset) {
    if (offset_width_ == 4) {
        const auto value = static_cast<int32_t>(offset);
        std::memcpy(offsets_.data() + row * 4, &value, 4);
    } else {
        std::memcpy(offsets_.data() + row * 8, &offset, 8);
    }
}

void ColumnBuilder::mark_null(int64_t row) {
    if (validity_.empty()) {
        grow(validity_, padded(static_cast<uint64_t>(bitmap_bytes(capacity_))));
        std::memset(validity_.data(), 0xff, validity_.capacity());
    }
    clear_bit(validity_.data(), row);
    ++null_count_;
}

void ColumnBuilder::mark_nulls(const RowField& field, const RowLayout& layout, const uint8_t* const* rows,
                               int64_t count, bool absent_rows) {
    if (field.null_bit < 0 && !absent_rows) return;
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i] == nullptr || field_is_null(field, layout, rows[i])) mark_null(length_ + i);
    }
}

void ColumnBuilder::append(const RowField& field, const RowLayout& layout, const uint8_t* const* rows, int64_t count,
                           bool absent_rows) {
    if (field.kind == FieldKind::kNested) {
        append_nested_field(field, layout, rows, count);
    } else if (field.kind != FieldKind::kNull) {
        reserve_rows(length_ + count);
        mark_nulls(field, layout, rows, count, absent_rows);
        if (field.kind == FieldKind::kBytes) {
            append_bytes_field(field, layout, rows, count);
        } else if (field.kind == FieldKind::kInlineBytes) {
            append_inline_field(field, rows, count);
        } else {
            append_fixed_field(field, rows, count, absent_rows);
        }
    }
    length_ += count;
}

void ColumnBuilder::append_fixed_field(const RowField& field, const uint8_t* const* rows, int64_t count,
                                       bool absent_rows) {
    static constexpr uint8_t kAbsent[64] = {};
    const uint32_t offset = field.in_key_word ? 0 : field.offset;
    const auto at = [&](int64_t i) { return absent_rows && rows[i] == nullptr ? kAbsent : rows[i] + offset; };
    if (type_->layout == Layout::kBool) {
        for (int64_t i = 0; i < count; ++i) {
            uint64_t value = *at(i);
            if (field.in_key_word) {
                std::memcpy(&value, at(i), 8);
                value = (unmix64(value) >> field.key_shift) & 1;
            }
            if (value != 0) set_bit(data_.data(), length_ + i);
        }
        return;
    }
    uint8_t* out = data_.data() + static_cast<uint64_t>(length_) * width_;
    if (field.in_key_word) {
        if (width_ == 8 && field.key_shift == 0) {
            for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * 8, at(i), 8);
            auto* words = reinterpret_cast<uint64_t*>(out);  // blocks are aligned to 64 bytes
            unmix_words(words, static_cast<uint64_t>(count), words);
            return;
        }
        for (int64_t i = 0; i < count; ++i, out += width_) {
            uint64_t word;
            std::memcpy(&word, at(i), 8);
            word = unmix64(word) >> field.key_shift;
            std::memcpy(out, &word, width_);
        }
        return;
    }
    const bool known = width_ <= sizeof kAbsent && with_width(width_, [&]<uint32_t W>() {
                           if (absent_rows) {
                               for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * W, at(i), W);
                           } else {
                               for (int64_t i = 0; i < count; ++i) std::memcpy(out + i * W, rows[i] + offset, W);
                           }
                       });
    if (known) return;
    for (int64_t i = 0; i < count; ++i, out += width_) {
        if (rows[i] == nullptr) {
            std::memset(out, 0, width_);
        } else {
            std::memcpy(out, rows[i] + offset, width_);
        }
    }
}

void ColumnBuilder::append_bytes_field(const RowField& field, const RowLayout& layout, const uint8_t* const* rows,
                                       int64_t count) {
    uint64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i] == nullptr) continue;
        const VarRef ref = var_ref(rows[i], field.offset);
        // Rows are mostly in the cache by now, their strings lie elsewhere.
        __builtin_prefetch(rows[i] + field.offset + ref.distance);
        total += ref.length;
    }
    reserve_bytes(total);
    uint64_t end = data_.size();
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i] != nullptr) {
            const VarRef ref = var_ref(rows[i], field.offset);
            copy_short(data_.data() + end, rows[i] + field.offset + ref.distance, ref.length);
            end += ref.length;
        }
        write_offset(length_ + i + 1, end);
    }
    data_.set_size(end);
}

// The strings are copied with whole words, for which reserve_bytes() leaves room behind the last one.
void ColumnBuilder::append_inline_field(const RowField& field, const uint8_t* const* rows, int64_t count) {
    constexpr int64_t kBlockRows = 256;
    const uint32_t width = field.width;
    const uint32_t offset = field.in_key_word ? 0 : field.offset;
    uint64_t end = data_.size();
    for (int64_t done = 0; done < count; done += kBlockRows) {
        const int64_t block_end = std::min(count, done + kBlockRows);
        reserve_bytes(static_cast<uint64_t>(block_end - done) * (width - 1));
        uint8_t* const data = data_.data();
        for (int64_t i = done; i < block_end; ++i) {
            if (rows[i] != nullptr) {
                const uint8_t* value = rows[i] + offset;
                uint64_t word;
                if (field.in_key_word) {
                    std::memcpy(&word, value, 8);
                    word = unmix64(word) >> field.key_shift;
                    value = reinterpret_cast<const uint8_t*>(&word);
                }
                end += copy_inline(value, width, data + end);
            }
            write_offset(length_ + i + 1, end);
        }
        data_.set_size(end);
    }
}

void ColumnBuilder::append_nested_field(const RowField& field, const RowLayout& layout, const uint8_t* const* rows,
                                        int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        if (rows[i] == nullptr || field_is_null(field, layout, rows[i])) {
            nested_->append_null();
            continue;
        }
        const VarRef ref = var_ref(rows[i], field.offset);
        nested_->append(rows[i] + field.offset + ref.distance, ref.length);
    }
}

void ColumnBuilder::append_fixed(const void* values, const uint8_t* valid_bytes, int64_t count) {
    reserve_rows(length_ + count);
    const auto* bytes = static_cast<const uint8_t*>(values);
    if (type_->layout == Layout::kBool) {
        for (int64_t i = 0; i < count; ++i) {
            if (bytes[i] != 0) set_bit(data_.data(), length_ + i);
        }
    } else {
        std::memcpy(data_.data() + static_cast<uint64_t>(length_) * width_, bytes, static_cast<size_t>(count) * width_);
    }
    for (int64_t i = 0; valid_bytes != nullptr && i < count; ++i) {
        if (valid_bytes[i] == 0) mark_null(length_ + i);
    }
    length_ += count;
}

void ColumnBuilder::append_view(const ColumnView& view, int64_t begin, int64_t count) {
    if (type_->layout != Layout::kNull) {
        reserve_rows(length_ + count);
        for (int64_t i = 0; view.validity != nullptr && i < count; ++i) {
            if (!view.is_valid(begin + i)) mark_null(length_ + i);
        }
    }
    if (type_->layout == Layout::kBool) {
        for (int64_t i = 0; i < count; ++i) {
            if (get_bit(view.data, view.data_bit + begin + i)) set_bit(data_.data(), length_ + i);
        }
    } else if (offset_width_ > 0) {
        append_strings(view, begin, count);
    } else if (width_ > 0) {
        std::memcpy(data_.data() + static_cast<uint64_t>(length_) * width_, view.data + begin * width_,
                    static_cast<size_t>(count) * width_);
    }
    length_ += count;
}

void ColumnBuilder::append_strings(const ColumnView& view, int64_t begin, int64_t count) {
    reserve_bytes(string_bytes(view, begin, count));
    uint64_t end = data_.size();
    if (lie_together(view)) {
        const ByteString first = byte_string(view, begin);
        for (int64_t i = 0; i < count; ++i) {
            const ByteString value = byte_string(view, begin + i);
            const auto past = static_cast<uint64_t>(value.bytes - first.bytes) + value.length;
            write_offset(length_ + i + 1, end + past);
        }
        const uint64_t bytes = string_bytes(view, begin, count);
        if (bytes > 0) std::memcpy(data_.data() + end, first.bytes, bytes);
        data_.set_size(end + bytes);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        if (view.is_valid(begin + i)) {
            const ByteString value = byte_string(view, begin + i);
            copy_short(data_.data() + end, value.bytes, value.length);
            end += value.length;
        }
        write_offset(length_ + i + 1, end);
    }
    data_.set_size(end);
}

void ColumnBuilder::append_bytes(const uint8_t* bytes, uint64_t length) {
    if (nested_) {
        nested_->append(bytes, length);
        ++length_;
        return;
    }
    reserve_rows(length_ + 1);
    reserve_bytes(length);
    if (length > 0) std::memcpy(data_.data() + data_.size(), bytes, length);
    data_.set_size(data_.size() + length);
    write_offset(++length_, data_.size());
}

void ColumnBuilder::append_null() {
    if (nested_) {
        nested_->append_null();
    } else if (type_->layout != Layout::kNull) {
        reserve_rows(length_ + 1);
        mark_null(length_);
        if (offset_width_ > 0) write_offset(length_ + 1, data_.size());
        if (width_ > 0) std::memset(data_.data() + static_cast<uint64_t>(length_) * width_, 0, width_);
    }
    ++length_;
}

uint64_t ColumnBuilder::bytes() const {
    if (nested_) return nested_->bytes();
    const auto rows = static_cast<uint64_t>(length_);
    return offset_width_ > 0 ? data_.size() + rows * offset_width_ : rows * std::max(width_, 1u);
}

OutputColumn ColumnBuilder::finish() {
    const int64_t rows = length_;
    length_ = 0;
    capacity_ = 0;
    if (nested_) return nested_->finish();
    OutputColumn column;
    column.type = type_;
    column.length = rows;
    column.null_count = type_->layout == Layout::kNull ? rows : null_count_;
    null_count_ = 0;
    if (offset_width_ > 0) {
        if (offsets_.empty()) reserve_rows(1), capacity_ = 0;
        pad(offsets_, static_cast<uint64_t>(rows + 1) * offset_width_);
        pad(data_, data_.size());
    } else if (type_->layout == Layout::kBool) {
        pad(data_, static_cast<uint64_t>(bitmap_bytes(rows)));
    } else {
        pad(data_, static_cast<uint64_t>(rows) * width_);
    }
    pad(validity_, static_cast<uint64_t>(bitmap_bytes(rows)));
    memory_ = nullptr;
    column.offsets = std::move(offsets_);
    column.data = std::move(data_);
    column.validity = std::move(validity_);
    return column;
}

std::unique_ptr<BatchMemory> begin_batch(std::vector<ColumnBuilder>& builders, MemoryBudget& budget) {
    uint64_t bytes = 0;
    for (const ColumnBuilder& builder : builders) bytes = add_or_max(bytes, builder.expected_bytes());
    auto memory = std::make_unique<BatchMemory>(budget, bytes);
    for (ColumnBuilder& builder : builders) builder.use(*memory);
    return memory;
}

OutputBatch finish_batch(std::vector<ColumnBuilder>& builders, std::unique_ptr<BatchMemory> memory, int64_t rows) {
    OutputBatch batch;
    batch.rows = rows;
    batch.columns.reserve(builders.size());
    for (ColumnBuilder& builder : builders) batch.columns.push_back(builder.finish());
    batch.memory = memory->take_block();
    return batch;
}

uint64_t string_bytes(const RowField& field, const uint8_t* const* rows, int64_t count) {
    if (field.kind == FieldKind::kInlineBytes) return static_cast<uint64_t>(count) * (field.width - 1);
    uint64_t bytes = 0;
    for (int64_t i = 0; i < count; ++i) bytes += rows[i] == nullptr ? 0 : var_ref(rows[i], field.offset).length;
    return bytes;
}

uint64_t string_bytes(const ColumnView& view, int64_t begin, int64_t count) {
    if (count == 0) return 0;
    if (lie_together(view)) {
        const ByteString last = byte_string(view, begin + count - 1);
        return static_cast<uint64_t>(last.bytes - byte_string(view, begin).bytes) + last.length;
    }
    uint64_t bytes = 0;
    for (int64_t i = begin; i < begin + count; ++i) bytes += view.is_valid(i) ? byte_string(view, i).length : 0;
    return bytes;
}

bool wide_keys_equal(const RowLayout& a_layout, const uint8_t* a, const RowLayout& b_layout, const uint8_t* b) {
    const uint8_t* const a_key = a + a_layout.key_begin;
    const uint8_t* const b_key = b + b_layout.key_begin;
    const uint32_t key_bytes = a_layout.key_end - a_layout.key_begin;
    for (uint32_t at = 0; at < key_bytes; at += 8) {  // padded to whole words
        if (load<uint64_t>(a_key + at) != load<uint64_t>(b_key + at)) return false;
    }
    for (const uint32_t key : a_layout.var_keys) {  // at the same place in both
        const uint32_t length = var_ref(a, key).length;
        if (length != var_ref(b, key).length) return false;
        if (length > 0 && std::memcmp(var_bytes(a, key), var_bytes(b, key), length) != 0) return false;
    }
    return true;
}

}  // namespace spillway
