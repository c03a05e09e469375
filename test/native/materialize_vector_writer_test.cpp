// SPDX-License-Identifier: Apache-2.0
// Vectors of rows -> batches: values of every layout, of source rows in any order and of build rows that may be absent.
#include "cpu/materialize/vector_writer.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr size_t kRows = 500;
const std::vector<Kind> kKinds = {Kind::kInt64, Kind::kInt32, Kind::kInt8,   Kind::kFloat64,
                                  Kind::kBool,  Kind::kText,  Kind::kFixed16};

std::vector<Column> columns_of(bool nullable) {
    std::vector<Column> columns;
    for (const Kind kind : kKinds) {
        std::vector<Value> values;
        for (size_t i = 0; i < kRows; ++i) {
            values.push_back(nullable && i % 3 == 0 ? Value() : make_value(kind, i * 7));
        }
        columns.push_back(make_column(kind, nullable, values));
    }
    return columns;
}

std::vector<TypePtr> types_of(const std::vector<Column>& columns) {
    std::vector<TypePtr> types;
    for (const Column& column : columns) types.push_back(column.type);
    return types;
}

std::vector<ColumnView> views_of(const std::vector<Column>& columns) {
    std::vector<ColumnView> views;
    for (const Column& column : columns) views.push_back(column.view());
    return views;
}

std::vector<int32_t> numbers(size_t count) {
    std::vector<int32_t> all;
    for (size_t i = 0; i < count; ++i) all.push_back(static_cast<int32_t>(i));
    return all;
}

// Encoded and placed rows of those columns, the first one their key.
struct BuildSide {
    std::vector<Column> columns;
    RowLayout layout;
    std::vector<uint8_t> bytes;
    std::vector<const uint8_t*> addresses;

    explicit BuildSide(bool nullable) : columns(columns_of(nullable)) {
        layout = RowLayout::make(types_of(columns), {KeySpec{}}, numbers(kKinds.size()), NullKeys::kKeep);
        MemoryBudget budget(16 << 20);
        RowEncoder encoder(layout, numbers(kKinds.size()), budget);
        const EncodedRows& encoded = encoder.encode(views_of(columns), 0, kRows, 0);
        uint64_t heap = kRows * layout.row_bytes;
        for (size_t i = 0; i < kRows; ++i) heap += encoded.heap_bytes[i];
        bytes.resize(heap);
        uint8_t* row = bytes.data();
        uint8_t* strings = row + kRows * layout.row_bytes;
        for (size_t i = 0; i < kRows; ++i, row += layout.row_bytes) {
            place_row(encoded, static_cast<int64_t>(i), row, strings);
            strings += encoded.heap_bytes[i];
            addresses.push_back(row);
        }
    }
};

std::vector<VectorColumn> outputs_of(const std::vector<Column>& source, const BuildSide& build) {
    std::vector<VectorColumn> outputs;
    for (size_t c = 0; c < source.size(); ++c) outputs.push_back({source[c].type, -1, c, nullptr, nullptr, false});
    for (const RowField& field : build.layout.fields) {
        outputs.push_back({field.type, 0, 0, &field, &build.layout, true});
    }
    return outputs;
}

// Row i of the vector: source row at[i], with the build row of the same number or none.
void check(bool nullable, const std::vector<int64_t>& at, BatchSize batch_size) {
    const std::vector<Column> source = columns_of(nullable);
    const BuildSide build(nullable);
    std::vector<const uint8_t*> rows;
    std::map<std::vector<Value>, int> expected;
    for (size_t i = 0; i < at.size(); ++i) {
        const bool is_absent = i % 5 == 4;
        const size_t of_build = (i * 3) % kRows;
        rows.push_back(is_absent ? nullptr : build.addresses[of_build]);
        std::vector<Value> row;
        for (const Column& column : source) row.push_back(column.values[static_cast<size_t>(at[i])]);
        for (const Column& column : build.columns) row.push_back(is_absent ? Value() : column.values[of_build]);
        ++expected[row];
    }
    bool together = true;
    for (size_t i = 0; i < at.size(); ++i) together = together && at[i] == at[0] + static_cast<int64_t>(i);
    RowVector vector;
    vector.rows = static_cast<int64_t>(at.size());
    vector.first_row = at[0];
    vector.source_rows = together ? nullptr : at.data();
    vector.build_rows = {rows.data()};
    MemoryBudget budget(64 << 20);
    {
        CollectSink sink(batch_size);
        VectorWriter writer(outputs_of(source, build), budget, sink, 0, 1000);
        writer.append(vector, views_of(source));
        EXPECT_EQ(writer.finish(), at.size());
        EXPECT_EQ(sink.row_count, at.size());
        for (const auto& [row, count] : expected) EXPECT_EQ(sink.rows[row], count);
    }
    EXPECT_EQ(budget.used(), 0u);
}

}  // namespace

TEST(vector_writer_takes_values_from_source_rows_and_build_rows) {
    std::vector<int64_t> together, scattered;
    for (int64_t i = 0; i < 300; ++i) {
        together.push_back(i + 13);
        scattered.push_back((i * 37) % static_cast<int64_t>(kRows));
    }
    for (const bool nullable : {false, true}) {
        for (const int64_t batch_rows : {1, 7, 1000}) {
            for (const uint64_t bytes : {uint64_t{1}, uint64_t{2000}, UINT64_MAX}) {
                check(nullable, together, {batch_rows, bytes});
                check(nullable, scattered, {batch_rows, bytes});
                check(nullable, {static_cast<int64_t>(kRows) - 1}, {batch_rows, bytes});
            }
        }
    }
}

TEST(vector_writer_counts_where_no_column_is_wanted) {
    const std::vector<Column> source = columns_of(false);
    const BuildSide build(false);
    MemoryBudget budget(1 << 20);
    CollectSink sink(10, false);
    VectorWriter writer(outputs_of(source, build), budget, sink, 0, 1000);
    RowVector vector;
    vector.rows = 77;
    vector.build_rows = {build.addresses.data()};
    writer.append(vector, views_of(source));
    writer.count(3);
    EXPECT_EQ(writer.finish(), 80u);
    EXPECT_EQ(sink.row_count, 80u);
}

}  // namespace spillway::test
