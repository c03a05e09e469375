// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "base/decimal_fits.hpp"
#include "base/nearest_mean.hpp"
#include "cpu/group_by/aggregate_state.hpp"
#include "cpu/group_by/group_writer.hpp"

namespace spillway {

namespace {

constexpr uint32_t kBlockWidthMax = 64;  // of values that are copied to a block first
constexpr int64_t kBlock = 256;

std::string decimal_text(__int128 value) {
    const bool negative = value < 0;
    auto magnitude = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
    std::string text;
    do {
        text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(magnitude % 10)));
        magnitude /= 10;
    } while (magnitude != 0);
    return negative ? "-" + text : text;
}

[[noreturn]] void overflow(const AggregatePlan& aggregate, const std::string& what, const std::string& type) {
    throw Error(ErrorCode::kIntegerOverflow,
                "the sum of column '" + aggregate.column + "' " + what + " does not fit " + type +
                    "; cast the column to float64 or to a wider decimal before grouping",
                {{"column", aggregate.column}});
}

// Produces the results of up to kBlock records at a time: value_of(record, out) writes one result of `width` bytes and
// returns whether it is not NULL.
template <class ValueOf>
void append_values(const uint8_t* const* records, int64_t count, uint32_t width, ColumnBuilder& column,
                   ValueOf value_of) {
    std::vector<uint8_t> values(kBlock * width);
    uint8_t valid[kBlock];
    for (int64_t done = 0; done < count; done += kBlock) {
        const int64_t block = std::min(kBlock, count - done);
        bool all_valid = true;
        for (int64_t i = 0; i < block; ++i) {
            uint8_t* out = values.data() + i * width;
            valid[i] = value_of(records[done + i], out) ? 1 : 0;
            if (valid[i] == 0) {
                std::memset(out, 0, width);
                all_valid = false;
            }
        }
        column.append_fixed(values.data(), all_valid ? nullptr : valid, block);
    }
}

template <class T>
T load_state(const uint8_t* record, const AggregatePlan& aggregate) {
    T state;
    std::memcpy(&state, record + aggregate.offset, sizeof state);
    return state;
}

void store_integer_sum(const AggregatePlan& aggregate, __int128 sum, uint8_t* out) {
    const ColumnType& type = *aggregate.result_type;
    if (type.order == Order::kFloat) {
        const auto value = static_cast<double>(sum);
        std::memcpy(out, &value, sizeof value);
        return;
    }
    if (type.byte_width == 16) {  // decimals of 32 and 64 bits: no number of rows brings their sum to 38 digits
        std::memcpy(out, &sum, sizeof sum);
        return;
    }
    __int128 low = std::numeric_limits<int64_t>::min();
    __int128 high = std::numeric_limits<int64_t>::max();
    std::string name = "int64";
    if (type.order == Order::kUnsigned) {
        low = 0;
        high = std::numeric_limits<uint64_t>::max();
        name = "uint64";
    }
    if (sum < low || sum > high) overflow(aggregate, "is " + decimal_text(sum) + " for one group, which", name);
    const auto bits = static_cast<uint64_t>(sum);
    std::memcpy(out, &bits, sizeof bits);
}

void append_integer_sum(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                        ColumnBuilder& column) {
    const bool mean = aggregate.kind == AggregateKind::kMean;
    const auto width = static_cast<uint32_t>(aggregate.result_type->byte_width);
    append_values(records, count, width, column, [&](const uint8_t* record, uint8_t* out) {
        const auto sum = load_state<IntegerSum>(record, aggregate);
        if (sum.count == 0) return false;
        if (mean) {
            const double value = nearest_mean(sum.value(), sum.count, aggregate.decimal_scale);
            std::memcpy(out, &value, sizeof value);
        } else {
            store_integer_sum(aggregate, sum.value(), out);
        }
        return true;
    });
}

void append_float_sum(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                      ColumnBuilder& column) {
    const bool mean = aggregate.kind == AggregateKind::kMean;
    append_values(records, count, sizeof(double), column, [&](const uint8_t* record, uint8_t* out) {
        const auto sum = load_state<FloatSum>(record, aggregate);
        const double value = mean ? sum.value() / static_cast<double>(sum.count) : sum.value();
        std::memcpy(out, &value, sizeof value);
        return sum.count != 0;
    });
}

double mean_of_decimals(const uint64_t* sum, uint32_t value_words, uint64_t rows, int32_t scale) {
    uint64_t words[5];
    std::memcpy(words, sum, (value_words + 1) * sizeof(uint64_t));
    if (value_words == 4) return nearest_decimal_mean(words, rows, scale);
    const uint64_t narrow[3] = {words[0], words[1], words[2]};
    return nearest_decimal_mean(narrow, rows, scale);
}

void append_decimal_sum(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                        ColumnBuilder& column) {
    const uint32_t value_words = aggregate.value_bytes / 8;
    const bool mean = aggregate.kind == AggregateKind::kMean;
    const uint32_t width = mean ? sizeof(double) : aggregate.value_bytes;
    append_values(records, count, width, column, [&](const uint8_t* record, uint8_t* out) {
        uint64_t words[6];
        std::memcpy(words, record + aggregate.offset, (value_words + 2) * sizeof(uint64_t));
        const uint64_t rows = words[value_words + 1];
        if (rows == 0) return false;
        if (mean) {
            const double value = mean_of_decimals(words, value_words, rows, aggregate.decimal_scale);
            std::memcpy(out, &value, sizeof value);
        } else {
            const bool fits = decimal_fits(words, value_words);
            if (!fits)
                overflow(aggregate, "of one group", value_words == 2 ? "38 decimal digits" : "76 decimal digits");
            std::memcpy(out, words, aggregate.value_bytes);
        }
        return true;
    });
}

void append_chosen_word(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                        ColumnBuilder& column) {
    append_values(records, count, aggregate.value_bytes, column, [&](const uint8_t* record, uint8_t* out) {
        if (record[aggregate.flag_offset] == 0) return false;
        const auto word = load_state<uint64_t>(record, aggregate);
        if (aggregate.order != nullptr) {
            const int32_t index = aggregate.order->index(word);
            std::memcpy(out, &index, sizeof index);
        } else {
            store_order_word(aggregate.number, word, out, aggregate.value_bytes);
        }
        return true;
    });
}

// Wide values go straight from their record: those of a block are no memory to take beside the budget.
void append_wide(const AggregatePlan& aggregate, uint32_t offset, const uint8_t* const* records, int64_t count,
                 ColumnBuilder& column) {
    for (int64_t i = 0; i < count; ++i) {
        if (records[i][aggregate.flag_offset] == 0) {
            column.append_null();
        } else {
            column.append_fixed(records[i] + offset, nullptr, 1);
        }
    }
}

void append_chosen_bytes(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                         ColumnBuilder& column) {
    const uint32_t offset = aggregate.offset + (aggregate.state == StateKind::kFirstBytes ? 8 : 0);
    for (int64_t i = 0; i < count; ++i) {
        if (records[i][aggregate.flag_offset] == 0) {
            column.append_null();
            continue;
        }
        BytesState state;
        std::memcpy(&state, records[i] + offset, sizeof state);
        column.append_bytes(state.bytes, state.length);
    }
}

}  // namespace

void append_aggregate(const AggregatePlan& aggregate, const uint8_t* const* records, int64_t count,
                      ColumnBuilder& column) {
    switch (aggregate.state) {
        case StateKind::kCountRows:
        case StateKind::kCountValues:
        case StateKind::kCountDistinct:
            return append_values(records, count, sizeof(int64_t), column, [&](const uint8_t* record, uint8_t* out) {
                std::memcpy(out, record + aggregate.offset, sizeof(int64_t));
                return true;
            });
        case StateKind::kSumInteger:
            return append_integer_sum(aggregate, records, count, column);
        case StateKind::kSumFloat:
            return append_float_sum(aggregate, records, count, column);
        case StateKind::kSumDecimal:
            return append_decimal_sum(aggregate, records, count, column);
        case StateKind::kMinWord:
        case StateKind::kMaxWord:
            return append_chosen_word(aggregate, records, count, column);
        case StateKind::kMinFixed:
        case StateKind::kMaxFixed:
        case StateKind::kAnyFixed:
        case StateKind::kFirstFixed: {
            const uint32_t offset = aggregate.offset + (aggregate.state == StateKind::kFirstFixed ? 8 : 0);
            if (aggregate.value_bytes > kBlockWidthMax) return append_wide(aggregate, offset, records, count, column);
            return append_values(records, count, aggregate.value_bytes, column,
                                 [&](const uint8_t* record, uint8_t* out) {
                                     std::memcpy(out, record + offset, aggregate.value_bytes);
                                     return record[aggregate.flag_offset] != 0;
                                 });
        }
        case StateKind::kMinBytes:
        case StateKind::kMaxBytes:
        case StateKind::kFirstBytes:
        case StateKind::kAnyBytes:
            return append_chosen_bytes(aggregate, records, count, column);
        case StateKind::kNull: {
            const bool counts =
                aggregate.kind == AggregateKind::kCount || aggregate.kind == AggregateKind::kCountDistinct;
            const int64_t zero = 0;
            for (int64_t i = 0; i < count; ++i) counts ? column.append_fixed(&zero, nullptr, 1) : column.append_null();
            return;
        }
    }
}

}  // namespace spillway
