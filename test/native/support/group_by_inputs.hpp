// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/group_by_trial.hpp"

// Random columns of every type for the group-by tests, with every aggregate that the type allows.
namespace spillway::test::grouping {

enum class Make {
    kInt64,
    kInt32,
    kInt8,
    kUint64,
    kUint16,
    kDouble,
    kFloat,
    kBool,
    kText,
    kView,
    kDecimal,
    kBytes5,
    kDictionary,
    kList,
    kNull,
    kDate
};

inline std::shared_ptr<ColumnType> type_of(Make make) {
    switch (make) {
        case Make::kInt32:
            return plain_type(Layout::kFixed, Order::kSigned, 4, "i32");
        case Make::kInt8:
            return plain_type(Layout::kFixed, Order::kSigned, 1, "i8");
        case Make::kUint64:
            return plain_type(Layout::kFixed, Order::kUnsigned, 8, "u64");
        case Make::kUint16:
            return plain_type(Layout::kFixed, Order::kUnsigned, 2, "u16");
        case Make::kDouble:
            return plain_type(Layout::kFixed, Order::kFloat, 8, "f64");
        case Make::kFloat:
            return plain_type(Layout::kFixed, Order::kFloat, 4, "f32");
        case Make::kBool:
            return plain_type(Layout::kBool, Order::kSigned, 1, "bool");
        case Make::kText:
            return plain_type(Layout::kBinary, Order::kBytes, 4, "text");
        case Make::kView:
            return plain_type(Layout::kView, Order::kBytes, 16, "view");
        case Make::kDecimal:
            return plain_type(Layout::kFixed, Order::kDecimal, 16, "decimal");
        case Make::kBytes5:
            return plain_type(Layout::kFixed, Order::kBytes, 5, "bytes5");
        case Make::kNull:
            return plain_type(Layout::kNull, Order::kSigned, 0, "null");
        case Make::kList: {
            auto type = plain_type(Layout::kList, Order::kBytes, 4, "list");
            type->children.push_back(*plain_type(Layout::kFixed, Order::kSigned, 4, "item"));
            type->children[0].nullable = false;
            return type;
        }
        default:
            return plain_type(Layout::kFixed, Order::kSigned, 8, "i64");
    }
}

inline std::string text_value(uint64_t i) {
    return i % 7 == 0 ? "" : "value-" + std::to_string(i) + std::string(i % 23, 'x');
}

inline std::string value_of(Make make, uint64_t i) {
    const uint64_t spread = i * 0x9e3779b97f4a7c15ULL;
    static constexpr double kSpecial[] = {0.0, -0.0, NAN, -NAN, HUGE_VAL, -HUGE_VAL};
    switch (make) {
        case Make::kInt32:
            return raw(static_cast<int32_t>(i * 65536 - 7));
        case Make::kInt8:
            return raw(static_cast<int8_t>(i));
        case Make::kUint64:
            return raw(spread >> 20);
        case Make::kUint16:
            return raw(static_cast<uint16_t>(i * 257));
        case Make::kDouble:
            return raw(i < 6 ? kSpecial[i] : static_cast<double>(static_cast<int64_t>(spread)) / 1e12);
        case Make::kFloat:
            return raw(i < 6 ? static_cast<float>(kSpecial[i]) : static_cast<float>(i) * 0.37f - 20);
        case Make::kBool:
            return std::string(1, static_cast<char>(i & 1));
        case Make::kText:
        case Make::kView:
            return text_value(i);
        case Make::kDecimal:
            return raw(static_cast<__int128>(static_cast<int64_t>(spread)) * (i % 3 == 0 ? 1000000007 : 1));
        case Make::kBytes5:
            return raw(spread).substr(0, 5);
        case Make::kList: {
            std::string items;
            for (uint64_t k = 0; k < i % 4; ++k) items += raw(static_cast<int32_t>(i + k));
            return items;
        }
        default:
            return raw(static_cast<int64_t>(spread) >> 12);
    }
}

inline InputColumn random_column(Make make, size_t rows, uint64_t distinct, double nulls, Random& random) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) {
        const bool null = make == Make::kNull || std::uniform_real_distribution<double>(0, 1)(random) < nulls;
        const uint64_t pick = random() % distinct;
        cells.push_back(null ? Cell() : make == Make::kDictionary ? text_value(pick % 40 + 1) : value_of(make, pick));
    }
    std::shared_ptr<ColumnType> type;
    if (make == Make::kDictionary) {
        std::vector<Cell> values;
        for (uint64_t i = 40; i > 0; --i) {
            if (i % 7 != 0 || i == 7) values.push_back(text_value(i));
        }
        type = dictionary_type(type_of(Make::kText), values, "dictionary");
    } else {
        type = type_of(make);
    }
    type->nullable = nulls > 0 || make == Make::kNull;
    return input_column(type, std::move(cells));
}

inline constexpr AggregateKind kNumeric[] = {
    AggregateKind::kSum,   AggregateKind::kMin,           AggregateKind::kMax,   AggregateKind::kMean,
    AggregateKind::kCount, AggregateKind::kCountDistinct, AggregateKind::kFirst, AggregateKind::kAny};

inline void add_aggregates(Trial& trial, int32_t column, Make make) {
    const bool number = is_number(*trial.columns[static_cast<size_t>(column)].type);
    for (AggregateKind kind : kNumeric) {
        const bool sums = kind == AggregateKind::kSum || kind == AggregateKind::kMean;
        const bool orders = kind == AggregateKind::kMin || kind == AggregateKind::kMax;
        if (sums && !number && make != Make::kNull) continue;
        if (orders && make == Make::kList) continue;
        trial.aggregates.push_back({kind, column});
    }
}

inline Trial make_trial(std::vector<Make> keys, std::vector<Make> values, size_t rows, uint64_t distinct, double nulls,
                        uint64_t seed) {
    Random random(seed);
    Trial trial;
    trial.rows = rows;
    trial.aggregates.push_back({AggregateKind::kCountRows, -1});
    for (Make key : keys) {
        trial.keys.push_back(static_cast<int32_t>(trial.columns.size()));
        trial.columns.push_back(random_column(key, rows, distinct, nulls, random));
    }
    for (Make value : values) {
        const auto column = static_cast<int32_t>(trial.columns.size());
        trial.columns.push_back(random_column(value, rows, 300, nulls, random));
        add_aggregates(trial, column, value);
    }
    return trial;
}

}  // namespace spillway::test::grouping
