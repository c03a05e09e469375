// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <thread>

#include "base/parallel.hpp"
#include "executor/sinks/count_sink.hpp"
#include "executor/sinks/queue_sink.hpp"
#include "generate/payload.hpp"
#include "support/generated_relation.hpp"

using namespace spillway;
using namespace spillway::test::batches;

TEST(generate_is_the_same_for_any_workers_and_batches) {
    GenerateSpec spec = foreign(20011, 5000);
    spec.key.zipf = 0.8;
    spec.key.match_ratio = 0.9;
    spec.payload = {{"i", GeneratedKind::kInt, 4}, {"f", GeneratedKind::kFloat, 8}, {"t", GeneratedKind::kUtf8, 12}};
    const Generated one(spec);
    spec.workers = 4;
    const Generated four(spec);
    EXPECT_EQ(one.sink.batches.size(), four.sink.batches.size());
    spec.batch_rows = 777;
    const Generated other(spec);
    for (const Generated* again : {&four, &other}) {
        EXPECT(one.keys() == again->keys());
        EXPECT(one.sink.values<int32_t>(1) == again->sink.values<int32_t>(1));
        EXPECT(one.sink.values<double>(2) == again->sink.values<double>(2));
        EXPECT(one.sink.texts(3) == again->sink.texts(3));
    }
}

TEST(generate_payload_follows_the_key_or_the_row) {
    GenerateSpec spec = primary(3000);
    spec.key.stride = 3;
    spec.payload = {{"a", GeneratedKind::kInt, 1},   {"b", GeneratedKind::kInt, 2},   {"c", GeneratedKind::kInt, 4},
                    {"d", GeneratedKind::kInt, 8},   {"e", GeneratedKind::kFloat, 4}, {"f", GeneratedKind::kFloat, 8},
                    {"g", GeneratedKind::kUtf8, 20}, {"h", GeneratedKind::kUtf8, 1}};
    for (const auto role : {KeyRole::kPrimary, KeyRole::kForeign}) {
        spec.key.role = role;
        spec.key.domain_rows = 500;
        const Generated out(spec);
        int64_t row = 0;
        for (const auto& batch : out.sink.batches) {
            for (int64_t i = 0; i < batch.rows; ++i, ++row) {
                const auto key = value_at<int64_t>(batch.columns[0], i);
                const auto id = static_cast<uint64_t>(role == KeyRole::kPrimary ? key : row);
                EXPECT_EQ(value_at<int8_t>(batch.columns[1], i), payload_int(payload_word(id, 0), 1));
                EXPECT_EQ(value_at<int16_t>(batch.columns[2], i), payload_int(payload_word(id, 1), 2));
                EXPECT_EQ(value_at<int32_t>(batch.columns[3], i), payload_int(payload_word(id, 2), 4));
                EXPECT_EQ(value_at<int64_t>(batch.columns[4], i), payload_int(payload_word(id, 3), 8));
                EXPECT_EQ(value_at<float>(batch.columns[5], i), payload_float(payload_word(id, 4)));
                EXPECT_EQ(value_at<double>(batch.columns[6], i), payload_float(payload_word(id, 5)));
                EXPECT_EQ(text_at(batch.columns[7], i), std::string(payload_text(payload_word(id, 6), 20)));
                const size_t length = text_at(batch.columns[7], i).size();
                EXPECT(length >= 15 && length <= 25);
                EXPECT_EQ(text_at(batch.columns[8], i).size(), size_t{1});
            }
        }
    }
}

TEST(generate_pads_with_zeros) {
    GenerateSpec spec = primary(1001);
    spec.payload = {{"t", GeneratedKind::kUtf8, 5}};
    const Generated out(spec);
    const auto& last = out.sink.batches.back();
    EXPECT_EQ(last.rows, int64_t{1});
    for (const auto& column : last.columns) {
        for (const Buffer* buffer : {&column.offsets, &column.data}) {
            const uint64_t end = std::min<uint64_t>((buffer->size() + 63) / 64 * 64, buffer->capacity());
            for (uint64_t i = buffer->size(); i < end; ++i) EXPECT_EQ(static_cast<int>(buffer->data()[i]), 0);
        }
    }
}

TEST(generate_within_a_budget_of_few_batches) {
    GenerateSpec spec = primary(200000);
    spec.payload = {{"v", GeneratedKind::kInt, 8}};
    spec.workers = 8;
    MemoryBudget budget(40 << 10);  // two batches of 1000 rows and 16 bytes
    JobControl control;
    QueueSink queue({1000}, 4, control);
    int64_t rows = 0;
    const auto run = [&](int worker) {
        if (worker == 1) {
            EXPECT_EQ(generate_relation(spec, budget, control, queue), spec.rows);
            queue.close_producer();
        }
        while (worker == 0 && !queue.finished()) {
            if (auto batch = queue.try_pop()) rows += batch->rows;
        }
    };
    parallel_run(2, run, [&] { queue.abandon(); });
    EXPECT_EQ(rows, spec.rows);
    EXPECT(budget.peak() <= budget.limit());
    MemoryBudget tiny(1 << 10);
    BatchCollector sink;
    EXPECT_ERROR(kBudgetTooSmall, generate_relation(spec, tiny, control, sink));
}

TEST(generate_stops_on_abort_and_on_a_failing_sink) {
    struct Failing final : BatchSink {
        bool wants_columns() const override { return true; }
        void add_rows(int, uint64_t) override {}
        void push(int, OutputBatch&&) override {
            if (++pushes == 3) throw Error(ErrorCode::kDiskFull, "full");
        }
        BatchSize batch_size() const override { return {.rows = 1}; }
        int pushes = 0;
    };
    GenerateSpec spec = primary(1000000);
    spec.workers = 4;
    MemoryBudget budget(uint64_t{64} << 20);
    JobControl control;
    Failing failing;
    EXPECT_ERROR(kDiskFull, generate_relation(spec, budget, control, failing));
    EXPECT_EQ(failing.pushes, 3);
    EXPECT_EQ(budget.used(), uint64_t{0});

    QueueSink queue({1000}, 1, control);
    std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        control.cancelled = true;
    });
    EXPECT_ERROR(kAborted, generate_relation(spec, budget, control, queue));
    aborter.join();
}

TEST(generate_counts_without_columns) {
    JobControl control;
    CountSink sink(control);
    MemoryBudget budget(0);
    GenerateSpec spec = primary(123456);
    spec.workers = 3;
    EXPECT_EQ(generate_relation(spec, budget, control, sink), spec.rows);
    EXPECT_EQ(sink.total(), uint64_t{123456});
    EXPECT_EQ(generate_relation(primary(0), budget, control, sink), int64_t{0});
    GenerateSpec empty = foreign(0, 0);
    empty.key.zipf = 1;
    empty.key.match_ratio = 0.5;
    EXPECT_EQ(generate_relation(empty, budget, control, sink), int64_t{0});
}

TEST(generate_names_wrong_options) {
    const auto refused = [](const std::function<void(GenerateSpec&)>& change) {
        GenerateSpec spec = foreign(100, 100);
        spec.payload = {{"a", GeneratedKind::kInt, 8}, {"b", GeneratedKind::kUtf8, 8}};
        check_spec(spec);
        change(spec);
        EXPECT_ERROR(kInvalidArgument, check_spec(spec));
    };
    refused([](GenerateSpec& spec) { spec.rows = -1; });
    refused([](GenerateSpec& spec) { spec.batch_rows = 0; });
    refused([](GenerateSpec& spec) { spec.workers = 0; });
    refused([](GenerateSpec& spec) { spec.key.width = 2; });
    refused([](GenerateSpec& spec) { spec.key.domain_rows = 0; });
    refused([](GenerateSpec& spec) { spec.key.stride = 0; });
    refused([](GenerateSpec& spec) { spec.key.zipf = -1; });
    refused([](GenerateSpec& spec) { spec.key.zipf = std::nan(""); });
    refused([](GenerateSpec& spec) { spec.key.match_ratio = 1.5; });
    refused([](GenerateSpec& spec) { spec.key.match_ratio = std::nan(""); });
    refused([](GenerateSpec& spec) { spec.payload[0].width = 3; });
    refused([](GenerateSpec& spec) { spec.payload[1].width = 0; });
    refused([](GenerateSpec& spec) { spec.key.role = KeyRole::kPrimary, spec.key.duplicates = 0; });
    GenerateSpec twice = primary(1);
    twice.payload = {{"id", GeneratedKind::kInt, 8}};
    EXPECT_ERROR(kDuplicateColumn, check_spec(twice));
}
