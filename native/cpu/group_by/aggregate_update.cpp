// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/hash.hpp"
#include "cpu/group_by/aggregate.hpp"
#include "cpu/group_by/aggregate_state.hpp"

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

    // Keeps a copy; a slot of the arena is used again when the value fits, and grows by half otherwise, so that
    // replaced values waste at most three times the last.
    void keep_bytes(BytesState& state, const uint8_t* bytes, uint64_t length) {
        if (length > state.capacity) {
            const uint64_t capacity = state.capacity == 0 ? length : std::max(length, state.capacity * 3 / 2);
            state.bytes = arena_.allocate(capacity);
            state.capacity = capacity;
        }
        if (length > 0) std::memcpy(state.bytes, bytes, length);
        state.length = length;
    }

    void choose_bytes(const AggregatePlan& aggregate) {
        const bool min = aggregate.state == StateKind::kMinBytes;
        const RowBlock::Var var = block_.var(aggregate.field->offset);
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            auto& state = *state_at<BytesState>(record, aggregate);
            uint8_t& has_value = record[aggregate.flag_offset];
            const uint8_t* bytes = block_.bytes(var, gather_.row(i));
            const uint64_t length = block_.length(var, gather_.row(i));
            if (has_value != 0) {
                const int order = compare_bytes(bytes, length, state.bytes, state.length);
                if (min ? order >= 0 : order <= 0) continue;
            }
            keep_bytes(state, bytes, length);
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
        const RowBlock::Var var = block_.var(aggregate.field->offset);
        for (int32_t i = 0; i < gather_.count(); ++i) {
            uint8_t* record = gather_.records()[i];
            if (record[aggregate.flag_offset] != 0) continue;
            const int32_t row = gather_.row(i);
            keep_bytes(*state_at<BytesState>(record, aggregate), block_.bytes(var, row), block_.length(var, row));
            record[aggregate.flag_offset] = 1;
        }
    }

    // The value of the smallest row number, NULL included: the same whatever the workers' order.
    void first(const AggregatePlan& aggregate) {
        const RowField& field = *aggregate.field;
        const bool bytes = aggregate.state == StateKind::kFirstBytes;
        const RowBlock::Var var = bytes ? block_.var(field.offset) : RowBlock::Var{};
        for (int32_t i = 0; i < block_.count; ++i) {
            const uint8_t* row = block_.rows[i];
            uint8_t* record = block_.records[i];
            uint64_t& first_row = *state_at<uint64_t>(record, aggregate);
            const uint64_t row_number = load_word(row + plan_.row_number_offset);
            if (row_number >= first_row) continue;
            first_row = row_number;
            const bool valid = !field_is_null(field, plan_.layout, row);
            record[aggregate.flag_offset] = valid ? 1 : 0;
            if (!valid) continue;
            if (bytes) {
                keep_bytes(state_at<FirstBytesState>(record, aggregate)->value, block_.bytes(var, i),
                           block_.length(var, i));
            } else if (field.in_key_word) {
                const uint64_t value = unmix64(load_word(row)) >> field.key_shift;
                std::memcpy(&first_row + 1, &value, aggregate.value_bytes);
            } else {
                std::memcpy(&first_row + 1, row + field.offset, aggregate.value_bytes);
            }
        }
    }

    const GroupPlan& plan_;
    const RowBlock& block_;
    FieldGather& gather_;
    ByteArena& arena_;
};

}  // namespace

void update_states(const GroupPlan& plan, const RowBlock& block, FieldGather& gather, ByteArena& arena) {
    gather.start(block);
    BlockUpdate update(plan, block, gather, arena);
    for (const AggregatePlan& aggregate : plan.aggregates) update.run(aggregate);
}

}  // namespace spillway
