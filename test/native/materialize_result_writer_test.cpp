// SPDX-License-Identifier: Apache-2.0
#include "cpu/materialize/result_writer.hpp"
#include "cpu/row/row_encoder.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

// Encoded rows of (int64 key, int32 value) and their addresses.
struct Rows64 {
    Column key;
    Column value;
    RowLayout layout;
    std::vector<uint8_t> bytes;
    std::vector<const uint8_t*> addresses;

    explicit Rows64(size_t rows, bool nullable)
        : key(column(Kind::kInt64, rows, false)), value(column(Kind::kInt32, rows, nullable)) {
        KeySpec spec;
        layout = RowLayout::make({key.type, value.type}, {spec}, {0, 1}, NullKeys::kDrop);
        MemoryBudget budget(1 << 20);
        RowEncoder encoder(layout, {0, 1}, budget);
        const EncodedRows& encoded = encoder.encode({key.view(), value.view()}, 0, static_cast<int64_t>(rows), 0);
        bytes.assign(encoded.data, encoded.data + rows * layout.row_bytes);
        for (size_t i = 0; i < rows; ++i) addresses.push_back(bytes.data() + i * layout.row_bytes);
    }

    static Column column(Kind kind, size_t rows, bool nullable) {
        std::vector<Value> values;
        for (size_t i = 0; i < rows; ++i) values.push_back(nullable && i % 3 == 0 ? Value() : make_value(kind, i));
        return make_column(kind, nullable, values);
    }
};

const std::vector<JoinOutput> kOutputs = {
    {OutputSide::kEither, 0, 0}, {OutputSide::kBuild, 1, -1}, {OutputSide::kProbe, -1, 1}};

}  // namespace

TEST(result_writer_cuts_batches_and_counts_rows) {
    const Rows64 build(1000, true);
    const Rows64 probe(1000, false);
    for (int64_t batch_rows : {1, 7, 999, 1000, 5000}) {
        MemoryBudget budget(64 << 20);
        CollectSink sink(batch_rows);
        ResultWriter writer(kOutputs, build.layout, probe.layout, budget, sink, 0, 1000);
        writer.pairs(build.addresses.data(), probe.addresses.data(), 1000);
        EXPECT_EQ(writer.finish(), 1000u);
        EXPECT_EQ(sink.row_count, 1000u);
        for (size_t i = 0; i < 1000; ++i) {
            const std::vector<Value> row = {build.key.values[i], build.value.values[i], probe.value.values[i]};
            EXPECT_EQ(sink.rows[row], 1);
        }
    }
}

TEST(result_writer_fills_absent_sides_with_nulls_and_takes_the_key_from_the_other) {
    const Rows64 build(5, false);
    const Rows64 probe(5, true);
    MemoryBudget budget(64 << 20);
    CollectSink sink(100);
    ResultWriter writer(kOutputs, build.layout, probe.layout, budget, sink, 0, 10);
    writer.build_only(build.addresses.data(), 5);
    writer.probe_only(probe.addresses.data(), 5);
    EXPECT_EQ(writer.finish(), 10u);
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(sink.rows.at({build.key.values[i], build.value.values[i], std::nullopt}), 1);
        EXPECT_EQ(sink.rows.at({probe.key.values[i], std::nullopt, probe.value.values[i]}), 1);
    }
}

TEST(result_writer_gives_its_memory_back_and_reports_a_full_budget) {
    const Rows64 rows(1000, false);
    MemoryBudget budget(16 << 10);
    CollectSink sink(100000);
    EXPECT_ERROR(kBudgetTooSmall, {
        ResultWriter writer(kOutputs, rows.layout, rows.layout, budget, sink, 0, 100000);
        writer.pairs(rows.addresses.data(), rows.addresses.data(), 1000);
    });
    EXPECT_EQ(budget.used(), 0u);
}

}  // namespace spillway::test
