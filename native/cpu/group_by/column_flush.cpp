// SPDX-License-Identifier: Apache-2.0
// ColumnAccumulators: what the arrays hold moves to the records of the groups.
#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/column_accumulators.hpp"

namespace spillway {

namespace {

// A decimal made of its low word, where that holds all of the value.
struct WholeDecimal {
    uint64_t words[2];
    explicit WholeDecimal(uint64_t low) : words{low, static_cast<uint64_t>(static_cast<int64_t>(low) >> 63)} {}
    const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(words); }
};

}  // namespace

void ColumnAccumulators::choose_decimal(const uint8_t* decimal, bool min, uint8_t* record,
                                        const AggregatePlan& target) {
    uint8_t* state = record + target.offset;
    uint8_t& has_value = record[target.flag_offset];
    if (has_value != 0) {
        const int order = compare_decimals(decimal, state, 2);
        if (min ? order >= 0 : order <= 0) return;
    }
    std::memcpy(state, decimal, 16);
    has_value = 1;
}

uint64_t ColumnAccumulators::count_of(uint32_t group, int32_t nulls) const {
    const uint64_t first = uint64_t{group} << copy_bits_;
    uint64_t count = 0;
    for (uint64_t place = first; place < first + copies(); ++place) {
        count += rows_[place];
        if (nulls >= 0) count -= nulls_[static_cast<size_t>(nulls)].rows[place];
    }
    return count;
}

void ColumnAccumulators::keep_word(const Accumulator& accumulator, const uint64_t* place, uint8_t* record,
                                   const AggregatePlan& target) {
    const uint64_t word = *place ^ flip_of(accumulator.fold);
    switch (accumulator.fold) {
        case Fold::kSumFloat: {
            auto& state = *state_at<FloatSum>(record, target);
            state.add(std::bit_cast<double>(word));
            state.compensation += std::bit_cast<double>(place[accumulator.stride / 2]);
            return;
        }
        case Fold::kSumDecimal:
            add_decimal<2>(state_at<uint64_t>(record, target), WholeDecimal(word).bytes());
            return;
        case Fold::kMinDecimal:
        case Fold::kMaxDecimal: {
            const bool min = accumulator.fold == Fold::kMinDecimal;
            if (word != neutral_of(accumulator.fold)) choose_decimal(WholeDecimal(word).bytes(), min, record, target);
            return;
        }
        case Fold::kMinSigned:
        case Fold::kMinUnsigned: {
            auto& state = *state_at<uint64_t>(record, target);
            state = std::min(state, accumulator.fold == Fold::kMinSigned ? word ^ kSignBit : word);
            return;
        }
        case Fold::kMaxSigned:
        case Fold::kMaxUnsigned: {
            auto& state = *state_at<uint64_t>(record, target);
            state = std::max(state, accumulator.fold == Fold::kMaxSigned ? word ^ kSignBit : word);
            return;
        }
        default: {
            auto& state = *state_at<IntegerSum>(record, target);
            state.set(state.value() + static_cast<int64_t>(word));
            return;
        }
    }
}

// The values only: their counts go to the records at the very end.
void ColumnAccumulators::flush(Accumulator& accumulator, const Groups& groups) {
    const uint64_t* place = accumulator.words;
    for (uint32_t group = 0; group < groups.count; ++group) {
        for (uint32_t copy = 0; copy < copies(); ++copy, place += accumulator.stride) {
            for (const AggregatePlan* target : accumulator.targets) {
                keep_word(accumulator, place, groups.records[group], *target);
            }
        }
    }
    clear(accumulator, places());
}

void ColumnAccumulators::flush_counts(const Accumulator& accumulator, const Groups& groups) {
    for (uint32_t group = 0; group < groups.count; ++group) {
        const uint64_t count = count_of(group, accumulator.nulls);
        for (const AggregatePlan* target : accumulator.targets) {
            uint8_t* record = groups.records[group];
            switch (accumulator.fold) {
                case Fold::kSumSigned:
                case Fold::kSumUnsigned:
                    state_at<IntegerSum>(record, *target)->count += count;
                    break;
                case Fold::kSumDecimal:
                    state_at<uint64_t>(record, *target)[3] += count;
                    break;
                case Fold::kSumFloat:
                    state_at<FloatSum>(record, *target)->count += count;
                    break;
                case Fold::kMinDecimal:
                case Fold::kMaxDecimal:
                    break;  // choose_decimal()
                default:
                    if (count > 0) record[target->flag_offset] = 1;
                    break;
            }
        }
    }
}

void ColumnAccumulators::flush(const Groups& groups) {
    if (room_ == 0) return;
    for (Accumulator& accumulator : accumulators_) {
        flush(accumulator, groups);
        flush_counts(accumulator, groups);
    }
    for (const RowCount& rows : row_counts_) {
        for (uint32_t group = 0; group < groups.count; ++group) {
            *state_at<uint64_t>(groups.records[group], *rows.aggregate) += count_of(group, rows.nulls);
        }
    }
    std::memset(rows_, 0, (1 + nulls_.size()) * places() * sizeof(uint64_t));
}

}  // namespace spillway
