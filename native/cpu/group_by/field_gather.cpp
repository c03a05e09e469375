// SPDX-License-Identifier: Apache-2.0
#include "cpu/group_by/field_gather.hpp"

#include "base/hash.hpp"

namespace spillway {

void FieldGather::select(const AggregatePlan& aggregate) {
    const RowField& field = *aggregate.field;
    if (field_ == &field && decode_ == aggregate.decode) return;
    field_ = &field;
    decode_ = aggregate.decode;
    loaded_ = false;
    count_ = block_->count;
    records_ = block_->records;
    bases_ = block_->rows;
    displacement_ = field.offset;
    compacted_ = field.null_bit >= 0;
    if (compacted_) compact(field);
    if (field.in_key_word) extract_from_key_word(field);
    if (decode_ != nullptr) decode(aggregate);
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
    for (int32_t i = 0; i < count_; ++i) {
        T value;
        std::memcpy(&value, bases_[i] + displacement_, sizeof value);
        numbers_[i] = to(value);
    }
}

const uint64_t* FieldGather::numbers(NumberKind kind) {
    if (loaded_) return numbers_;
    loaded_ = true;
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
