// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "model/batch_sink.hpp"
#include "model/output_batch.hpp"

// Small owned Arrow columns and sinks for tests.
namespace spillway::test::batches {

inline TypePtr column_type(Layout layout, int32_t width, const std::string& name = "c") {
    auto type = std::make_shared<ColumnType>();
    type->layout = layout;
    type->byte_width = width;
    type->name = name;
    return type;
}

inline Buffer buffer_of(MemoryBudget& budget, const void* bytes, uint64_t length) {
    Buffer buffer = Buffer::allocate(budget, length, "test");
    if (length > 0) std::memcpy(buffer.data(), bytes, length);
    return buffer;
}

template <class Value>
OutputColumn fixed_column(MemoryBudget& budget, const std::vector<Value>& values) {
    OutputColumn column;
    column.type = column_type(Layout::kFixed, sizeof(Value));
    column.length = static_cast<int64_t>(values.size());
    column.data = buffer_of(budget, values.data(), values.size() * sizeof(Value));
    return column;
}

inline OutputColumn text_column(MemoryBudget& budget, const std::vector<std::string>& values) {
    std::string bytes;
    std::vector<int32_t> offsets = {0};
    for (const auto& value : values) {
        bytes += value;
        offsets.push_back(static_cast<int32_t>(bytes.size()));
    }
    OutputColumn column;
    column.type = column_type(Layout::kBinary, 4);
    column.length = static_cast<int64_t>(values.size());
    column.offsets = buffer_of(budget, offsets.data(), offsets.size() * 4);
    column.data = buffer_of(budget, bytes.data(), bytes.size());
    return column;
}

inline void set_nulls(MemoryBudget& budget, OutputColumn& column, const std::vector<int64_t>& null_rows) {
    column.validity = Buffer::allocate(budget, static_cast<uint64_t>(bitmap_bytes(column.length)), "test");
    std::memset(column.validity.data(), 0xff, column.validity.size());
    for (const int64_t row : null_rows) clear_bit(column.validity.data(), row);
    column.null_count = static_cast<int64_t>(null_rows.size());
}

template <class... Columns>
OutputBatch batch_of(Columns&&... columns) {
    OutputBatch batch;
    (batch.columns.push_back(std::move(columns)), ...);
    batch.rows = batch.columns.empty() ? 0 : batch.columns.front().length;
    return batch;
}

template <class Value>
Value value_at(const OutputColumn& column, int64_t row) {
    Value value;
    std::memcpy(&value, column.data.data() + row * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
}

inline std::string text_at(const OutputColumn& column, int64_t row) {
    int32_t range[2];
    std::memcpy(range, column.offsets.data() + row * 4, 8);
    return {reinterpret_cast<const char*>(column.data.data()) + range[0], static_cast<size_t>(range[1] - range[0])};
}

// Keeps what is pushed, in order.
class BatchCollector final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&& batch) override {
        std::lock_guard<std::mutex> lock(mutex_);
        batches.push_back(std::move(batch));
    }
    BatchSize batch_size() const override { return size; }

    template <class Value>
    std::vector<Value> values(size_t column) const {
        std::vector<Value> all;
        for (const auto& batch : batches) {
            for (int64_t row = 0; row < batch.rows; ++row) all.push_back(value_at<Value>(batch.columns[column], row));
        }
        return all;
    }
    std::vector<std::string> texts(size_t column) const {
        std::vector<std::string> all;
        for (const auto& batch : batches) {
            for (int64_t row = 0; row < batch.rows; ++row) all.push_back(text_at(batch.columns[column], row));
        }
        return all;
    }

    std::vector<OutputBatch> batches;
    BatchSize size = {.rows = 1024};

  private:
    std::mutex mutex_;
};

}  // namespace spillway::test::batches
