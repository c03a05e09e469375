// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/batch_sink.hpp"
#include "model/column_view.hpp"

// Small tables in memory for the engine tests: each value is kept as an optional string (the oracle's view) and in
// Arrow layout (the engine's view).
namespace spillway::test {

using Value = std::optional<std::string>;

enum class Kind { kInt64, kInt32, kInt8, kFloat64, kBool, kText, kFixed16 };

struct Column {
    Kind kind;
    std::vector<Value> values;
    TypePtr type;
    std::vector<uint8_t> data;
    std::vector<uint8_t> validity;
    std::vector<int32_t> offsets;

    ColumnView view() const {
        ColumnView view;
        view.type = type.get();
        view.length = static_cast<int64_t>(values.size());
        view.validity = type->nullable ? validity.data() : nullptr;
        view.data = data.data();
        if (kind == Kind::kText) view.offsets = reinterpret_cast<const uint8_t*>(offsets.data());
        return view;
    }
};

inline std::string bytes_of(const void* value, size_t size) {
    return std::string(static_cast<const char*>(value), size);
}

inline size_t width_of(Kind kind) {
    switch (kind) {
        case Kind::kInt64:
        case Kind::kFloat64:
            return 8;
        case Kind::kInt32:
            return 4;
        case Kind::kFixed16:
            return 16;
        default:
            return 1;
    }
}

inline TypePtr type_of(Kind kind, bool nullable) {
    auto type = std::make_shared<ColumnType>();
    type->nullable = nullable;
    type->name = "c";
    type->byte_width = static_cast<int32_t>(width_of(kind));
    if (kind == Kind::kFloat64) type->order = Order::kFloat;
    if (kind == Kind::kFixed16) type->order = Order::kBytes;
    if (kind == Kind::kBool) type->layout = Layout::kBool;
    if (kind == Kind::kText) {
        type->layout = Layout::kBinary;
        type->byte_width = 4;
    }
    return type;
}

// `distinct` values, spread over the whole domain of the type (negative, large, strided, long strings).
inline Value make_value(Kind kind, uint64_t i) {
    const int64_t spread = static_cast<int64_t>(i * 0x9e3779b97f4a7c15ULL);
    switch (kind) {
        case Kind::kInt64:
            return bytes_of(&spread, 8);
        case Kind::kInt32: {
            const auto value = static_cast<int32_t>(i * 65536 - 7);
            return bytes_of(&value, 4);
        }
        case Kind::kInt8: {
            const auto value = static_cast<int8_t>(i);
            return bytes_of(&value, 1);
        }
        case Kind::kFloat64: {
            const double value = static_cast<double>(spread) / 3;
            return bytes_of(&value, 8);
        }
        case Kind::kBool:
            return std::string(1, static_cast<char>(i & 1));
        case Kind::kText:
            return (i % 5 == 0 ? std::string() : "key-" + std::to_string(i) + std::string(i % 40, 'x'));
        case Kind::kFixed16:
            return bytes_of(&spread, 8) + bytes_of(&i, 8);
    }
    return std::nullopt;
}

inline Column make_column(Kind kind, bool nullable, std::vector<Value> values) {
    Column column{kind, std::move(values), type_of(kind, nullable), {}, {}, {0}};
    const size_t rows = column.values.size();
    column.validity.assign(rows / 8 + 1, 0);
    if (kind == Kind::kBool) column.data.assign(rows / 8 + 1, 0);
    for (size_t i = 0; i < rows; ++i) {
        const Value& value = column.values[i];
        if (value) set_bit(column.validity.data(), static_cast<int64_t>(i));
        if (kind == Kind::kBool) {
            assign_bit(column.data.data(), static_cast<int64_t>(i), value && (*value)[0] != 0);
            continue;
        }
        const std::string bytes = value ? *value : kind == Kind::kText ? "" : std::string(width_of(kind), '\x5a');
        column.data.insert(column.data.end(), bytes.begin(), bytes.end());
        if (kind == Kind::kText) column.offsets.push_back(static_cast<int32_t>(column.data.size()));
    }
    column.data.push_back(0);
    return column;
}

inline Column random_column(Kind kind, size_t rows, uint64_t distinct, double null_share, std::mt19937_64& random) {
    std::vector<Value> values;
    for (size_t i = 0; i < rows; ++i) {
        const bool null = std::uniform_real_distribution<double>(0, 1)(random) < null_share;
        values.push_back(null ? Value() : make_value(kind, random() % distinct));
    }
    return make_column(kind, null_share > 0, std::move(values));
}

using Rows = std::map<std::vector<Value>, int64_t>;  // multiset of rows

inline Value read_value(const OutputColumn& column, int64_t row) {
    if (!column.validity.empty() && !get_bit(column.validity.data(), row)) return std::nullopt;
    if (column.type->layout == Layout::kBool) {
        return std::string(1, static_cast<char>(get_bit(column.data.data(), row)));
    }
    if (column.type->layout == Layout::kBinary) {
        int32_t bounds[2];
        std::memcpy(bounds, column.offsets.data() + row * 4, 8);
        return std::string(reinterpret_cast<const char*>(column.data.data()) + bounds[0],
                           static_cast<size_t>(bounds[1] - bounds[0]));
    }
    const auto width = static_cast<size_t>(column.type->byte_width);
    return bytes_of(column.data.data() + static_cast<size_t>(row) * width, width);
}

// Collects batches as a multiset of rows.
class CollectSink final : public BatchSink {
  public:
    explicit CollectSink(int64_t batch_rows, bool columns = true)
        : CollectSink(BatchSize{.rows = batch_rows}, columns) {}
    explicit CollectSink(BatchSize batch_size, bool columns = true) : batch_size_(batch_size), columns_(columns) {}
    bool wants_columns() const override { return columns_; }
    void add_rows(int, uint64_t rows) override {
        std::lock_guard<std::mutex> lock(mutex_);
        row_count += rows;
    }
    void push(int, OutputBatch&& batch) override {
        std::lock_guard<std::mutex> lock(mutex_);
        row_count += static_cast<uint64_t>(batch.rows);
        for (int64_t row = 0; row < batch.rows; ++row) {
            std::vector<Value> values;
            for (const OutputColumn& column : batch.columns) values.push_back(read_value(column, row));
            ++rows[values];
        }
    }
    BatchSize batch_size() const override { return batch_size_; }

    Rows rows;
    uint64_t row_count = 0;

  private:
    std::mutex mutex_;
    const BatchSize batch_size_;
    const bool columns_;
};

}  // namespace spillway::test
