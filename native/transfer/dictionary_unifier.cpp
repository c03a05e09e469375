// SPDX-License-Identifier: Apache-2.0
#include "transfer/dictionary_unifier.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/load.hpp"
#include "cpu/row/nested_codec.hpp"

namespace spillway {

namespace {

constexpr const char* kPurpose = "dictionaries";
constexpr uint64_t kFirstSlots = 1024;

uint64_t padded(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

// One bit pattern for all NaNs and one for both zeros. A NaN has all exponent bits and at least one fraction bit set,
// so without its sign it is above infinity as an unsigned integer.
template <class Bits>
void canonicalize(const uint8_t* value, Bits infinity, uint8_t* out) {
    auto bits = load<Bits>(value, 0);
    const auto sign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~sign));
    if (magnitude == 0) bits = 0;
    if (magnitude > infinity) bits = static_cast<Bits>(infinity | (infinity >> 1));
    std::memcpy(out, &bits, sizeof bits);
}

void canonicalize_float(const uint8_t* value, uint64_t width, uint8_t* out) {
    if (width == 2) return canonicalize<uint16_t>(value, 0x7c00, out);
    if (width == 4) return canonicalize<uint32_t>(value, 0x7f800000, out);
    canonicalize<uint64_t>(value, 0x7ff0000000000000ULL, out);
}

}  // namespace

DictionaryUnifier::DictionaryUnifier(TypePtr value_type, std::string column, MemoryBudget& budget)
    : type_(materialized_type(value_type)), column_(std::move(column)), budget_(budget) {
    fixed_ = type_->is_fixed_value();
    width_ = type_->layout == Layout::kBool ? 1 : static_cast<uint64_t>(type_->byte_width);
    is_float_ = type_->layout == Layout::kFixed && type_->order == Order::kFloat && width_ <= sizeof canonical_;
}

void DictionaryUnifier::ensure(Buffer& buffer, uint64_t used, uint64_t wanted) {
    if (wanted <= buffer.capacity()) return;
    buffer.set_size(std::min(used, buffer.capacity()));
    buffer.grow(budget_, padded(wanted), kPurpose);
}

uint64_t DictionaryUnifier::begin_of(int64_t index) const {
    if (fixed_) return static_cast<uint64_t>(index) * width_;
    return index == 0 ? 0 : load<uint64_t>(ends_.data(), index - 1);
}

void DictionaryUnifier::read_value(const ColumnView& values, int64_t row) {
    const ColumnType& type = *values.type;
    switch (type.layout) {
        case Layout::kBool:
            canonical_[0] = get_bit(values.data, values.data_bit + row);
            value_ = canonical_;
            value_bytes_ = 1;
            return;
        case Layout::kFixed:
            value_ = values.data + row * type.byte_width;
            value_bytes_ = width_;
            return;
        case Layout::kBinary: {
            const bool wide = type.byte_width == 8;
            const int64_t begin = wide ? load<int64_t>(values.offsets, row) : load<int32_t>(values.offsets, row);
            const int64_t end = wide ? load<int64_t>(values.offsets, row + 1) : load<int32_t>(values.offsets, row + 1);
            value_ = values.data + (begin - values.offset_base);
            value_bytes_ = static_cast<uint64_t>(end - begin);
            return;
        }
        case Layout::kView: {
            const uint8_t* view = values.data + row * 16;
            value_bytes_ = load<uint32_t>(view, 0);
            value_ =
                value_bytes_ <= 12 ? view + 4 : values.view_buffers[load<uint32_t>(view, 2)] + load<uint32_t>(view, 3);
            return;
        }
        default:
            value_bytes_ = encoded_bytes(values, row, budget_);
            scratch_.renew(budget_, std::max<uint64_t>(value_bytes_, 1), kPurpose);
            encode_value(values, row, scratch_.data());
            value_ = scratch_.data();
    }
}

bool DictionaryUnifier::equals_stored(int64_t index) const {
    const uint64_t begin = begin_of(index);
    const uint8_t* stored = bytes_.data() + begin;
    if (is_float_) {
        uint8_t canonical[sizeof canonical_];
        canonicalize_float(stored, width_, canonical);
        return std::memcmp(canonical, canonical_, width_) == 0;
    }
    const uint64_t bytes = fixed_ ? width_ : load<uint64_t>(ends_.data(), index) - begin;
    return bytes == value_bytes_ && (bytes == 0 || std::memcmp(stored, value_, bytes) == 0);
}

void DictionaryUnifier::store() {
    const uint64_t begin = count_ == 0 ? 0 : begin_of(count_);
    const uint64_t end = begin + value_bytes_;
    ensure(bytes_, begin, std::max<uint64_t>(end, 1));
    if (value_bytes_ > 0) std::memcpy(bytes_.data() + begin, value_, value_bytes_);
    if (!fixed_) {
        const auto used = static_cast<uint64_t>(count_) * 8;
        ensure(ends_, used, used + 8);
        std::memcpy(ends_.data() + used, &end, 8);
    }
    ++count_;
}

void DictionaryUnifier::double_table() {
    const uint64_t slots = slots_.empty() ? kFirstSlots : (slot_mask_ + 1) * 2;
    Buffer next = Buffer::allocate(budget_, slots * sizeof(Slot), kPurpose, true);
    auto* to = reinterpret_cast<Slot*>(next.data());
    const auto* from = reinterpret_cast<const Slot*>(slots_.data());
    for (uint64_t i = 0; from != nullptr && i <= slot_mask_; ++i) {
        if (from[i].index_plus_1 == 0) continue;
        uint64_t at = from[i].hash & (slots - 1);
        while (to[at].index_plus_1 != 0) at = (at + 1) & (slots - 1);
        to[at] = from[i];
    }
    slots_ = std::move(next);
    slot_mask_ = slots - 1;
}

int32_t DictionaryUnifier::find_or_insert() {
    if (slots_.empty() || static_cast<uint64_t>(count_) * 2 > slot_mask_) double_table();
    if (is_float_) canonicalize_float(value_, width_, canonical_);
    const auto hash = static_cast<uint32_t>(hash_bytes(is_float_ ? canonical_ : value_, value_bytes_));
    auto* slots = reinterpret_cast<Slot*>(slots_.data());
    for (uint64_t at = hash & slot_mask_;; at = (at + 1) & slot_mask_) {
        if (slots[at].index_plus_1 == 0) {
            if (count_ == std::numeric_limits<int32_t>::max()) {
                throw Error(ErrorCode::kUnsupportedType,
                            "the dictionaries of column '" + column_ +
                                "' together have more than 2147483647 distinct values; write it as a plain column",
                            {{"column", column_}});
            }
            store();
            slots[at] = {hash, static_cast<uint32_t>(count_)};
            return static_cast<int32_t>(count_ - 1);
        }
        const auto index = static_cast<int64_t>(slots[at].index_plus_1) - 1;
        if (slots[at].hash == hash && equals_stored(index)) return static_cast<int32_t>(index);
    }
}

void DictionaryUnifier::add(const ColumnView& values, int32_t* indices) {
    for (int64_t row = 0; row < values.length; ++row) {
        if (values.type->layout == Layout::kNull || !values.is_valid(row)) {
            indices[row] = -1;
            continue;
        }
        read_value(values, row);
        indices[row] = find_or_insert();
    }
}

OutputColumn DictionaryUnifier::take_binary() {
    OutputColumn column;
    const uint64_t bytes = begin_of(count_);
    const auto offset_width = static_cast<uint64_t>(type_->byte_width);
    if (offset_width == 4 && bytes > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
        throw Error(ErrorCode::kUnsupportedType,
                    "the dictionaries of column '" + column_ + "' together hold " + std::to_string(bytes) +
                        " bytes, more than 32-bit offsets address; use large_utf8 or large_binary values",
                    {{"column", column_}, {"wantedBytes", std::to_string(bytes)}});
    }
    const auto rows = static_cast<uint64_t>(count_);
    column.offsets = Buffer::allocate(budget_, padded((rows + 1) * offset_width), kPurpose, true);
    for (int64_t i = 0; i <= count_; ++i) {
        const uint64_t offset = begin_of(i);  // little-endian: the low bytes are the 32-bit offset
        std::memcpy(column.offsets.data() + static_cast<uint64_t>(i) * offset_width, &offset, offset_width);
    }
    column.offsets.set_size((rows + 1) * offset_width);
    bytes_.set_size(bytes);
    column.data = std::move(bytes_);
    return column;
}

OutputColumn DictionaryUnifier::take_nested() {
    NestedBuilder builder(type_, budget_);
    for (int64_t i = 0; i < count_; ++i) {
        const uint64_t begin = begin_of(i);
        builder.append(bytes_.data() + begin, load<uint64_t>(ends_.data(), i) - begin);
    }
    return builder.finish();
}

OutputColumn DictionaryUnifier::take_values() {
    if (type_->layout == Layout::kBinary) return take_binary();
    if (!fixed_) return take_nested();
    OutputColumn column;
    if (type_->layout == Layout::kFixed) {
        bytes_.set_size(static_cast<uint64_t>(count_) * width_);
        column.data = std::move(bytes_);
        return column;
    }
    const auto bits = static_cast<uint64_t>(bitmap_bytes(count_));
    column.data = Buffer::allocate(budget_, padded(std::max<uint64_t>(bits, 1)), kPurpose, true);
    for (int64_t i = 0; i < count_; ++i) assign_bit(column.data.data(), i, bytes_.data()[i] != 0);
    column.data.set_size(bits);
    return column;
}

void DictionaryUnifier::finish(Dictionary& out) {
    slots_ = Buffer();
    scratch_ = Buffer();
    auto column = std::make_shared<OutputColumn>(take_values());
    column->type = type_;
    column->length = count_;
    for (Buffer* buffer : {&column->offsets, &column->data}) {
        if (!buffer->empty()) {
            std::memset(buffer->data() + buffer->size(), 0,
                        std::min(padded(buffer->size()), buffer->capacity()) - buffer->size());
        }
    }
    OutputBatch batch;
    out.type = *type_;
    out.values = view_of(*column);
    out.values.type = &out.type;
    batch.columns.push_back(std::move(*column));
    out.bytes = batch.bytes();
    *column = std::move(batch.columns[0]);
    out.owners.push_back(std::move(column));
}

}  // namespace spillway
