// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/field_gather.hpp"

#include "base/hash.hpp"
#include "base/load.hpp"

namespace spillway {

namespace {

bool wants_addresses(const AggregatePlan& aggregate) {
    switch (aggregate.state) {
        case StateKind::kSumInteger:
        case StateKind::kSumFloat:
        case StateKind::kMinWord:
        case StateKind::kMaxWord:
        case StateKind::kCountValues:
            return aggregate.decode != nullptr;
        default:
            return true;
    }
}

}  // namespace

void FieldGather::select(const AggregatePlan& aggregate) {
    const RowField& field = *aggregate.field;
    const bool same = field_ == &field && decode_ == aggregate.decode;
    if (same && (first_ == nullptr || located_ || !wants_addresses(aggregate))) return;
    field_ = &field;
    decode_ = aggregate.decode;
    loaded_ = false;
    first_ = nullptr;
    count_ = block_->count;
    records_ = block_->records;
    block_->columns == nullptr ? select_of_rows(aggregate) : select_of_column(aggregate);
    if (decode_ != nullptr) decode(aggregate);
}

void FieldGather::select_of_rows(const AggregatePlan& aggregate) {
    const RowField& field = *aggregate.field;
    bases_ = block_->rows;
    displacement_ = field.offset;
    compacted_ = field.null_bit >= 0;
    if (compacted_) compact(field);
    if (field.in_key_word) extract_from_key_word(field);
}

// Addresses of the values, as if they lay in rows, where numbers() does not serve. Byte strings and nested values have
// none.
void FieldGather::select_of_column(const AggregatePlan& aggregate) {
    const RowField& field = *aggregate.field;
    const ColumnView& view = (*block_->columns->views)[static_cast<size_t>(aggregate.view)];
    const int64_t begin = block_->columns->begin;
    compacted_ = view.validity != nullptr;
    if (compacted_) compact(view, begin);
    if (field.kind != FieldKind::kFixed) return;
    if (view.type->layout == Layout::kBool) {
        for (int32_t i = 0; i < count_; ++i) {
            key_values_[i] = get_bit(view.data, view.data_bit + begin + row(i));
            addresses_[i] = reinterpret_cast<const uint8_t*>(&key_values_[i]);  // little-endian
        }
    } else {
        first_ = view.data + begin * field.width;
        located_ = wants_addresses(aggregate);
        for (int32_t i = 0; located_ && i < count_; ++i) addresses_[i] = first_ + int64_t{row(i)} * field.width;
    }
    bases_ = addresses_;
    displacement_ = 0;
}

void FieldGather::compact(const ColumnView& view, int64_t begin) {
    int32_t kept = 0;
    for (int32_t i = 0; i < block_->count; ++i) {
        kept_records_[kept] = block_->records[i];
        row_numbers_[kept] = i;
        kept += get_bit(view.validity, view.validity_bit + begin + i) ? 1 : 0;
    }
    count_ = kept;
    records_ = kept_records_;
}

// Branch-free: every row is written, the place moves on for those that stay.
void FieldGather::compact(const RowField& field) {
    const uint32_t byte = block_->layout_null_offset + static_cast<uint32_t>(field.null_bit >> 3);
    const int shift = field.null_bit & 7;
    int32_t kept = 0;
    for (int32_t i = 0; i < block_->count; ++i) {
        const uint8_t* row = block_->rows[i];
        kept_rows_[kept] = row;
        kept_records_[kept] = block_->records[i];
        row_numbers_[kept] = i;
        kept += ((row[byte] >> shift) & 1) ^ 1;
    }
    count_ = kept;
    records_ = kept_records_;
    bases_ = kept_rows_;
}

void FieldGather::extract_from_key_word(const RowField& field) {
    for (int32_t i = 0; i < count_; ++i) {
        uint64_t word;
        std::memcpy(&word, bases_[i], 8);
        key_values_[i] = unmix64(word) >> field.key_shift;
    }
    for (int32_t i = 0; i < count_; ++i) addresses_[i] = reinterpret_cast<const uint8_t*>(&key_values_[i]);
    bases_ = addresses_;
    displacement_ = 0;
}

void FieldGather::decode(const AggregatePlan& aggregate) {
    for (int32_t i = 0; i < count_; ++i) {
        int32_t index;
        std::memcpy(&index, address(i), 4);
        addresses_[i] = aggregate.decode + static_cast<uint64_t>(index) * aggregate.value_bytes;
    }
    bases_ = addresses_;
    displacement_ = 0;
}

template <class T, class To>
void FieldGather::load_all(To to) {
    if (first_ != nullptr && decode_ == nullptr) {
        if (compacted_) {
            for (int32_t i = 0; i < count_; ++i) numbers_[i] = to(load<T>(first_, row_numbers_[i]));
        } else {
            for (int32_t i = 0; i < count_; ++i) numbers_[i] = to(load<T>(first_, i));
        }
        return;
    }
    for (int32_t i = 0; i < count_; ++i) {
        T value;
        std::memcpy(&value, bases_[i] + displacement_, sizeof value);
        numbers_[i] = to(value);
    }
}

const uint64_t* FieldGather::numbers(NumberKind kind) {
    if (loaded_) return loaded_numbers_;
    loaded_ = true;
    loaded_numbers_ = numbers_;
    const bool words = kind == NumberKind::kI64 || kind == NumberKind::kU64 || kind == NumberKind::kF64;
    if (words && first_ != nullptr && decode_ == nullptr && !compacted_ &&
        reinterpret_cast<uintptr_t>(first_) % alignof(uint64_t) == 0) {
        loaded_numbers_ = reinterpret_cast<const uint64_t*>(first_);  // they lie side by side in the column
        return loaded_numbers_;
    }
    const auto extend = [](auto value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); };
    switch (kind) {
        case NumberKind::kI8:
            load_all<int8_t>(extend);
            break;
        case NumberKind::kI16:
            load_all<int16_t>(extend);
            break;
        case NumberKind::kI32:
            load_all<int32_t>(extend);
            break;
        case NumberKind::kU8:
            load_all<uint8_t>(extend);
            break;
        case NumberKind::kU16:
            load_all<uint16_t>(extend);
            break;
        case NumberKind::kU32:
            load_all<uint32_t>(extend);
            break;
        case NumberKind::kF16:
            load_all<uint16_t>([](uint16_t v) { return std::bit_cast<uint64_t>(half_to_double(v)); });
            break;
        case NumberKind::kF32:
            load_all<float>([](float v) { return std::bit_cast<uint64_t>(double{v}); });
            break;
        default:
            load_all<uint64_t>([](uint64_t v) { return v; });
            break;
    }
    return numbers_;
}

}  // namespace spillway
