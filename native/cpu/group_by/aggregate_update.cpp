// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/hash.hpp"
#include "cpu/group_by/aggregate.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/row/inline_text.hpp"
#include "cpu/row/key_normalizer.hpp"
#include "cpu/row/nested_codec.hpp"

namespace spillway {

namespace {

// Runs add(state, i) for every selected row; when all rows are of one group, on a copy in registers.
template <class State, class Add>
void fold(const AggregatePlan& aggregate, uint8_t* const* records, int32_t count, bool one_group, Add add) {
    if (count == 0) return;
    if (one_group) {
        State* state = state_at<State>(records[0], aggregate);
        State local = *state;
        for (int32_t i = 0; i < count; ++i) add(local, i);
        *state = local;
    } else {
        for (int32_t i = 0; i < count; ++i) add(*state_at<State>(records[i], aggregate), i);
    }
}

class BlockUpdate {
  public:
    BlockUpdate(const GroupPlan& plan, const RowBlock& block, FieldGather& gather, ByteArena& arena)
        : plan_(plan), block_(block), gather_(gather), arena_(arena) {}

    void run(const AggregatePlan& aggregate) {
        switch (aggregate.state) {
            case StateKind::kCountRows:
                return count(aggregate, block_.records, block_.count);
            case StateKind::kFirstFixed:
            case StateKind::kFirstBytes:
                return first(aggregate);
            case StateKind::kCountDistinct:
            case StateKind::kNull:
                return;
            default:
                break;
        }
        gather_.select(aggregate);
        if (gather_.count() == 0) return;
        switch (aggregate.state) {
            case StateKind::kCountValues:
                return count(aggregate, gather_.records(), gather_.count());
            case StateKind::kSumInteger:
                return sum_integers(aggregate);
            case StateKind::kSumFloat:
                return sum_floats(aggregate);
            case StateKind::kSumDecimal:
                return aggregate.value_bytes == 16 ? sum_decimals<2>(aggregate) : sum_decimals<4>(aggregate);
            case StateKind::kMinWord:
            case StateKind::kMaxWord:
                return choose_word(aggregate);
            case StateKind::kMinFixed:
            case StateKind::kMaxFixed:
                return choose_fixed(aggregate);
            case StateKind::kMinBytes:
            case StateKind::kMaxBytes:
                return choose_bytes(aggregate);
            case StateKind::kAnyFixed:
                return any_fixed(aggregate);
            default:
                return any_bytes(aggregate);
        }
    }

  private:
    void count(const AggregatePlan& aggregate, uint8_t* const* records, int32_t rows) {
        if (rows == 0) return;
        if (block_.one_group) {
            *state_at<uint64_t>(records[0], aggregate) += static_cast<uint64_t>(rows);
            return;
        }
        for (int32_t i = 0; i < rows; ++i) ++*state_at<uint64_t>(records[i], aggregate);
    }

    void sum_integers(const AggregatePlan& aggregate) {
        const uint64_t* numbers = gather_.numbers(aggregate.number);
        if (is_signed_integer(aggregate.number)) {
            fold<IntegerSum>(aggregate, gather_.records(), gather_.count(), block_.one_group,
                             [numbers](IntegerSum& sum, int32_t i) {
                                 sum.set(sum.value() + static_cast<int64_t>(numbers[i]));
                                 ++sum.count;
                             });
        } else {
            fold<IntegerSum>(aggregate, gather_.records(), gather_.count(), block_.one_group,
                             [numbers](IntegerSum& sum, int32_t i) {
                                 sum.set(sum.value() + static_cast<__int128>(numbers[i]));
                                 ++sum.count;
                             });
        }
    }

    void sum_floats(const AggregatePlan& aggregate) {
        const uint64_t* numbers = gather_.numbers(aggregate.number);
        fold<FloatSum>(aggregate, gather_.records(), gather_.count(), block_.one_group,
                       [numbers](FloatSum& sum, int32_t i) {
                           sum.add(std::bit_cast<double>(numbers[i]));
                           ++sum.count;
                       });
    }

    template <uint32_t kWords>
    void sum_decimals(const AggregatePlan& aggregate) {
        struct DecimalSum {
            uint64_t words[kWords + 1];
            uint64_t count;
        };
        fold<DecimalSum>(aggregate, gather_.records(), gather_.count(), block_.one_group,
                         [this](DecimalSum& sum, int32_t i) {
                             add_decimal<kWords>(sum.words, gather_.address(i));
                             ++sum.count;
                         });
    }

    template <class ToWord>
    void choose_word(const AggregatePlan& aggregate, ToWord to_word) {
        uint8_t* const* records = gather_.records();
        const int32_t count = gather_.count();
        if (aggregate.state == StateKind::kMinWord) {
            fold<uint64_t>(aggregate, records, count, block_.one_group,
                           [&](uint64_t& word, int32_t i) { word = std::min(word, to_word(i)); });
        } else {
            fold<uint64_t>(aggregate, records, count, block_.one_group,
                           [&](uint64_t& word, int32_t i) { word = std::max(word, to_word(i)); });
        }
        const int32_t flags = block_.one_group ? 1 : count;
        for (int32_t i = 0; i < flags; ++i) records[i][aggregate.flag_offset] = 1;
    }

    void choose_word(const AggregatePlan& aggregate) {
        const uint64_t* numbers = gather_.numbers(aggregate.number);
        if (aggregate.order != nullptr) {
            const DictionaryOrder& order = *aggregate.order;
            choose_word(aggregate,
                        [&order, numbers](int32_t i) { return order.rank(static_cast<int32_t>(numbers[i])); });
        } else if (is_float(aggregate.number)) {
            choose_word(aggregate, [numbers](int32_t i) { return order_word(std::bit_cast<double>(numbers[i])); });
        } else if (is_signed_integer(aggregate.number)) {
            choose_word(aggregate, [numbers](int32_t i) { return numbers[i] ^ kSignBit; });
        } else {
            choose_word(aggregate, [numbers](int32_t i) { return numbers[i]; });
        }
    }

    void choose_fixed(const AggregatePlan& aggregate) {
        const int wanted = aggregate.state == StateKind::kMinFixed ? -1 : 1;
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            uint8_t* state = record + aggregate.offset;
            uint8_t& has_value = record[aggregate.flag_offset];
            const uint8_t* value = gather_.address(i);
            if (has_value != 0 && compare_fixed(*aggregate.value_type, value, state) * wanted <= 0) continue;
            std::memcpy(state, value, aggregate.value_bytes);
            has_value = 1;
        }
    }

    // Byte strings of one field of the block: of its rows, or of a view.
    struct Bytes {
        RowBlock::Var var{};
        const ColumnView* view = nullptr;
        int64_t begin = 0;
        bool nested = false;
        const RowField* in_row = nullptr;  // the strings lie in the rows themselves
    };
    Bytes bytes_of(const AggregatePlan& aggregate) const {
        if (block_.columns == nullptr) {
            const RowField& field = *aggregate.field;
            if (field.kind == FieldKind::kInlineBytes) return {{}, nullptr, 0, false, &field};
            return {block_.var(field.offset)};
        }
        const ColumnView& view = (*block_.columns->views)[static_cast<size_t>(aggregate.view)];
        return {{}, &view, block_.columns->begin, aggregate.field->kind == FieldKind::kNested, nullptr};
    }
    // Lives until the next call where it is a part of the key word.
    ByteString string_in_row(const RowField& field, int32_t i) {
        const uint8_t* row = block_.rows[i];
        if (!field.in_key_word) return inline_string(row + field.offset, field.width);
        key_value_ = unmix64(load_word(row)) >> field.key_shift;
        return inline_string(reinterpret_cast<const uint8_t*>(&key_value_), field.width);
    }
    ByteString value_at(const Bytes& bytes, int32_t row) {
        if (bytes.view != nullptr) return byte_string(*bytes.view, bytes.begin + row);
        if (bytes.in_row != nullptr) return string_in_row(*bytes.in_row, row);
        return {block_.bytes(bytes.var, row), block_.length(bytes.var, row)};
    }

    // A slot of the arena is used again when the value fits, and grows by half otherwise, so that replaced values
    // waste at most three times the last.
    uint8_t* make_room(BytesState& state, uint64_t length) {
        if (length > state.capacity) {
            const uint64_t capacity = state.capacity == 0 ? length : std::max(length, state.capacity * 3 / 2);
            state.bytes = arena_.allocate(capacity);
            state.capacity = capacity;
        }
        state.length = length;
        return state.bytes;
    }

    void keep_bytes(BytesState& state, ByteString value) {
        uint8_t* room = make_room(state, value.length);
        if (value.length > 0) std::memcpy(room, value.bytes, value.length);
    }

    void keep_value(BytesState& state, const Bytes& bytes, int32_t row) {
        if (!bytes.nested) return keep_bytes(state, value_at(bytes, row));
        const int64_t at = bytes.begin + row;
        const uint64_t length = encoded_bytes(*bytes.view, at, arena_.budget());
        uint8_t* room = make_room(state, length);
        if (length > 0) encode_value(*bytes.view, at, room);
    }

    void choose_bytes(const AggregatePlan& aggregate) {
        const bool min = aggregate.state == StateKind::kMinBytes;
        const Bytes bytes = bytes_of(aggregate);
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            auto& state = *state_at<BytesState>(record, aggregate);
            uint8_t& has_value = record[aggregate.flag_offset];
            const ByteString value = value_at(bytes, gather_.row(i));
            if (has_value != 0) {
                const int order = compare_bytes(value.bytes, value.length, state.bytes, state.length);
                if (min ? order >= 0 : order <= 0) continue;
            }
            keep_bytes(state, value);
            has_value = 1;
        }
    }

    void any_fixed(const AggregatePlan& aggregate) {
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            if (record[aggregate.flag_offset] != 0) continue;
            std::memcpy(record + aggregate.offset, gather_.address(i), aggregate.value_bytes);
            record[aggregate.flag_offset] = 1;
        }
    }

    void any_bytes(const AggregatePlan& aggregate) {
        const Bytes bytes = bytes_of(aggregate);
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            if (record[aggregate.flag_offset] != 0) continue;
            keep_value(*state_at<BytesState>(record, aggregate), bytes, gather_.row(i));
            record[aggregate.flag_offset] = 1;
        }
    }

    // The value of the smallest row number, NULL included: the same whatever the workers' order.
    void first(const AggregatePlan& aggregate) {
        const bool bytes_state = aggregate.state == StateKind::kFirstBytes;
        const Bytes bytes = bytes_state ? bytes_of(aggregate) : Bytes{};
        for (int32_t i = 0; i < block_.count; ++i) {
            uint8_t* record = block_.records[i];
            uint64_t& first_row = *state_at<uint64_t>(record, aggregate);
            const uint64_t row_number = number_of_row(i);
            if (row_number >= first_row) continue;
            first_row = row_number;
            const bool valid = is_valid(aggregate, i);
            record[aggregate.flag_offset] = valid ? 1 : 0;
            if (!valid) continue;
            if (bytes_state) {
                keep_value(state_at<FirstBytesState>(record, aggregate)->value, bytes, i);
            } else {
                copy_fixed(aggregate, i, &first_row + 1);
            }
        }
    }

    uint64_t number_of_row(int32_t i) const {
        if (block_.columns != nullptr) return block_.columns->first_row_number + static_cast<uint64_t>(i);
        return load_word(block_.rows[i] + plan_.row_number_offset);
    }

    bool is_valid(const AggregatePlan& aggregate, int32_t i) const {
        if (block_.columns == nullptr) return !field_is_null(*aggregate.field, plan_.layout, block_.rows[i]);
        const ColumnView& view = (*block_.columns->views)[static_cast<size_t>(aggregate.view)];
        return view.is_valid(block_.columns->begin + i);
    }

    void copy_fixed(const AggregatePlan& aggregate, int32_t i, void* to) const {
        const RowField& field = *aggregate.field;
        if (block_.columns != nullptr) {
            const ColumnView& view = (*block_.columns->views)[static_cast<size_t>(aggregate.view)];
            const int64_t row = block_.columns->begin + i;
            if (view.type->layout == Layout::kBool) {
                const auto value = static_cast<uint8_t>(get_bit(view.data, view.data_bit + row));
                std::memcpy(to, &value, 1);
            } else {
                std::memcpy(to, view.data + row * aggregate.value_bytes, aggregate.value_bytes);
            }
        } else if (field.in_key_word) {
            const uint64_t value = unmix64(load_word(block_.rows[i])) >> field.key_shift;
            std::memcpy(to, &value, aggregate.value_bytes);
        } else {
            std::memcpy(to, block_.rows[i] + field.offset, aggregate.value_bytes);
        }
    }

    const GroupPlan& plan_;
    const RowBlock& block_;
    FieldGather& gather_;
    ByteArena& arena_;
    uint64_t key_value_ = 0;
};

}  // namespace

void update_states(const GroupPlan& plan, const RowBlock& block, FieldGather& gather, ByteArena& arena) {
    gather.start(block);
    BlockUpdate update(plan, block, gather, arena);
    for (const AggregatePlan& aggregate : plan.aggregates) update.run(aggregate);
}

void update_states(const GroupPlan& plan, const std::vector<const AggregatePlan*>& aggregates, const RowBlock& block,
                   FieldGather& gather, ByteArena& arena) {
    gather.start(block);
    BlockUpdate update(plan, block, gather, arena);
    for (const AggregatePlan* aggregate : aggregates) update.run(*aggregate);
}

}  // namespace spillway
