// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/parallel.hpp"
#include "executor/cpu/partition.hpp"
#include "executor/sinks/count_sink.hpp"
#include "executor/sinks/file_sink.hpp"
#include "executor/sinks/limit_sink.hpp"
#include "executor/sinks/queue_sink.hpp"
#include "support/output_columns.hpp"
#include "support/temporary_folder.hpp"
#include "support/test.hpp"

using namespace spillway;
using namespace spillway::test::batches;
using spillway::test::read_file;
using spillway::test::TemporaryFolder;

namespace {

OutputBatch one_column(MemoryBudget& budget, int64_t rows) {
    return batch_of(fixed_column(budget, std::vector<int64_t>(static_cast<size_t>(rows), rows)));
}

void sleep_ms(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

}  // namespace

TEST(count_sink_adds_up_over_workers) {
    JobControl control;
    CountSink sink(control);
    EXPECT(!sink.wants_columns());
    parallel_run(8, [&](int worker) {
        for (int i = 0; i < 10000; ++i) sink.add_rows(worker, uint64_t{1} << 32);
    });
    sink.add_rows(1000, 5);  // more workers than slots
    EXPECT_EQ(sink.total(), (uint64_t{80000} << 32) + 5);
    EXPECT_EQ(control.rows_out.load(), sink.total());
}

TEST(queue_sink_holds_producers_back) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    QueueSink queue({1024}, 2, control);
    std::atomic<int> pushed{0};
    std::thread producer([&] {
        for (int i = 1; i <= 5; ++i) {
            queue.push(0, one_column(budget, i));
            ++pushed;
        }
        queue.close_producer();
    });
    while (pushed.load() < 2) sleep_ms(1);
    sleep_ms(20);
    EXPECT_EQ(pushed.load(), 2);
    EXPECT(!queue.finished());
    int64_t expected = 1;
    while (!queue.finished()) {
        if (auto batch = queue.try_pop()) EXPECT_EQ(batch->rows, expected++);
    }
    producer.join();
    EXPECT_EQ(expected, int64_t{6});
    EXPECT(!queue.try_pop().has_value());
    EXPECT_EQ(control.rows_out.load(), uint64_t{15});
    EXPECT_EQ(control.bytes_out.load(), uint64_t{15 * 8});
}

TEST(queue_sink_hands_nothing_out_before_the_end_of_stages_on_the_event_loop) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    control.runs_on_event_loop = true;
    QueueSink queue({1024}, 2, control);
    queue.push(0, one_column(budget, 1));
    EXPECT(!queue.try_pop().has_value());
    EXPECT(!queue.finished());
    queue.close_producer();
    EXPECT_EQ(queue.try_pop()->rows, 1);
    EXPECT(queue.finished());
    QueueSink small({1024}, 1, control);
    small.push(0, one_column(budget, 1));
    EXPECT_ERROR(kInternal, small.push(0, one_column(budget, 2)));
    small.close_producer();
    EXPECT(small.finished());
    EXPECT(!small.try_pop().has_value());
}

TEST(queue_sink_takes_popped_batches_out_of_the_budget) {
    MemoryBudget budget(1 << 20);
    JobControl control;
    QueueSink queue({1024}, 4, control);
    queue.push(0, one_column(budget, 1000));
    const uint64_t waiting = budget.used();
    EXPECT(waiting >= 8000);
    auto batch = queue.try_pop();
    EXPECT_EQ(budget.used(), uint64_t{0});
    EXPECT_EQ(value_at<int64_t>(batch->columns[0], 999), int64_t{1000});
}

TEST(queue_sink_diverts_what_does_not_wait_yet) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 20);
    JobControl control;
    QueueSink queue({1024}, 1, control);
    const auto type = one_column(budget, 1).columns[0].type;
    std::vector<uint8_t> schema_message(32);  // what is in it matters to nobody here
    std::fill_n(schema_message.begin(), 4, uint8_t{0xFF});
    schema_message[4] = 24;
    auto writer =
        std::make_unique<ArrowFileWriter>(PartialFile::Nameless{folder.path()}, schema_message, control, nullptr);
    FileSink file(std::move(writer), {type}, queue.batch_size(), control);
    queue.push(0, one_column(budget, 1));
    std::thread blocked([&] { queue.push(0, one_column(budget, 20)); });
    sleep_ms(10);
    queue.divert(file);
    blocked.join();
    queue.push(0, one_column(budget, 300));
    queue.close_producer();
    EXPECT_EQ(queue.try_pop()->rows, int64_t{1});
    EXPECT(queue.finished());
    EXPECT_EQ(file.writer().record_blocks().size(), size_t{2});
    EXPECT_EQ(control.rows_out.load(), uint64_t{321});
    EXPECT_EQ(control.spilled_bytes.load(), uint64_t{320 * 8});
    // Nobody but this process finds the file, and it by its descriptor alone.
    file.writer().finish(std::vector<uint8_t>(8));
    EXPECT_EQ(folder.entries(), size_t{0});
    EXPECT_EQ(read_file(file.writer().way()).size(), file.writer().bytes_written());
}

TEST(queue_sink_announces_batches_and_the_end) {
    MemoryBudget budget(1 << 20);
    JobControl control;
    QueueSink queue({1024}, 4, control);
    int calls = 0;
    // The consumer may look into the queue from the callback: no lock of the queue is held.
    queue.set_on_ready([&] {
        ++calls;
        queue.try_pop();
        queue.finished();
    });
    queue.push(0, one_column(budget, 1));
    EXPECT_EQ(calls, 1);
    queue.close_producer();
    queue.close_producer();
    EXPECT_EQ(calls, 2);
    EXPECT(queue.finished());
    queue.set_on_ready({});
    EXPECT_ERROR(kInternal, queue.push(0, one_column(budget, 1)));
}

TEST(queue_sink_notices_an_abort_while_blocked) {
    MemoryBudget budget(1 << 20);
    JobControl control;
    QueueSink queue({1024}, 1, control);
    queue.push(0, one_column(budget, 1));
    std::thread aborter([&] {
        sleep_ms(20);
        control.cancelled = true;
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_ERROR(kAborted, queue.push(0, one_column(budget, 2)));
    aborter.join();
    // 20 ms to the abort and 50 ms to notice it; the rest is for a loaded machine.
    EXPECT(std::chrono::steady_clock::now() - start < std::chrono::milliseconds(1000));
}

TEST(queue_sink_abandoned_refuses_and_frees) {
    MemoryBudget budget(1 << 20);
    JobControl control;
    QueueSink queue({1024}, 1, control);
    queue.push(0, one_column(budget, 100));
    std::thread consumer([&] {
        sleep_ms(10);
        queue.abandon();
    });
    EXPECT_ERROR(kAborted, queue.push(0, one_column(budget, 2)));
    consumer.join();
    EXPECT(queue.finished());
    EXPECT(!queue.try_pop().has_value());
    EXPECT_EQ(budget.used(), uint64_t{0});
    EXPECT_ERROR(kAborted, queue.push(0, one_column(budget, 2)));
}

TEST(queue_sink_carries_every_row_between_threads) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    QueueSink queue({1024}, 3, control);
    std::atomic<int> ready{0};
    queue.set_on_ready([&] { ++ready; });
    std::thread stage([&] {
        parallel_run(4, [&](int worker) {
            for (int i = 1; i <= 200; ++i) queue.push(worker, one_column(budget, i));
        });
        queue.close_producer();
    });
    int64_t rows = 0;
    while (!queue.finished()) {
        if (auto batch = queue.try_pop()) rows += batch->rows;
    }
    stage.join();
    EXPECT_EQ(rows, int64_t{4 * 200 * 201 / 2});
    EXPECT_EQ(ready.load(), 4 * 200 + 1);
}

TEST(file_sink_writes_and_counts) {
    TemporaryFolder folder;
    MemoryBudget budget(1 << 24);
    JobControl control;
    std::vector<uint8_t> schema(64, 0);
    std::memset(schema.data(), 0xff, 4);
    schema[4] = 56;
    auto writer = std::make_unique<ArrowFileWriter>(folder.file("out.arrow"), schema, false, control);
    FileSink sink(std::move(writer), {column_type(Layout::kFixed, 8)}, {1024}, control);
    parallel_run(2, [&](int worker) {
        for (int i = 0; i < 10; ++i) sink.push(worker, one_column(budget, 100));
    });
    sink.push(0, one_column(budget, 0));
    EXPECT_EQ(sink.writer().record_blocks().size(), size_t{20});
    EXPECT_EQ(control.rows_out.load(), uint64_t{2000});
    EXPECT_EQ(control.bytes_out.load(), uint64_t{16000});
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(fixed_column<int32_t>(budget, {1}))));
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(text_column(budget, {"a"}))));
    EXPECT_EQ(budget.used(), uint64_t{0});
    sink.writer().finish({});
    EXPECT_EQ(folder.entries(), size_t{1});
}

TEST(partition_sink_refuses_batches_of_other_columns) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    PartitionSpec spec;
    spec.keys = {KeySpec{0, KeyKind::kInteger, KeyKind::kBytes, 8}};
    spec.carry = {0, 1};
    spec.page_bytes = 4096;
    spec.pool_bytes = 1 << 20;
    spec.morsel_rows = 1024;
    const std::vector<TypePtr> columns = {column_type(Layout::kFixed, 8), column_type(Layout::kView, 4)};
    PartitionedRows rows(spec, RowLayout::make(columns, spec.keys, spec.carry, spec.null_keys), budget,
                         std::make_shared<SpillSpace>("/tmp"), control);
    RadixPartitioner partitioner(rows);
    PartitionSink sink(partitioner, rows, columns, {.rows = spec.morsel_rows});
    const auto numbers = [&] { return fixed_column<int64_t>(budget, {1, 2}); };
    const auto texts = [&] { return text_column(budget, {"a", "b"}); };
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(numbers())));
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(numbers(), texts(), texts())));
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(texts(), numbers())));
    EXPECT_ERROR(kInternal, sink.push(0, batch_of(fixed_column<int32_t>(budget, {1, 2}), texts())));
    sink.push(0, batch_of(numbers(), texts()));  // views are planned, and come out as plain texts
    partitioner.finish();
    EXPECT_EQ(rows.total_rows(), uint64_t{2});
}

TEST(limit_sink_gives_no_more_rows_than_are_wanted_and_all_of_these) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    auto counted = std::make_unique<CountSink>(control);
    const CountSink& count = *counted;
    LimitSink sink(std::move(counted), 1000, false, control);
    EXPECT_EQ(sink.batch_size().rows, int64_t{1000});
    std::atomic<int> stopped{0};
    parallel_run(4, [&](int worker) {
        try {
            for (;;) sink.push(worker, one_column(budget, 7));
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kAborted);
            EXPECT(sink.ended_well());
            ++stopped;
        }
    });
    EXPECT_EQ(stopped.load(), 4);
    EXPECT_EQ(count.total(), uint64_t{1000});
    EXPECT_EQ(budget.used(), uint64_t{0});
}

TEST(limit_sink_waits_for_rows_that_others_have_claimed) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    auto held = std::make_unique<QueueSink>(BatchSize{1024}, 1, control);
    QueueSink& queue = *held;
    LimitSink sink(std::move(held), 15, false, control);
    sink.push(0, one_column(budget, 5));
    std::atomic<int> stopped{0};
    const auto give = [&](int64_t rows) {
        try {
            sink.push(0, one_column(budget, rows));
        } catch (const Error&) {
            ++stopped;
        }
    };
    std::thread blocked([&] { give(20); });
    while (sink.ended_well() || stopped.load() > 0) sleep_ms(1);
    sleep_ms(20);
    std::thread late([&] { give(30); });
    sleep_ms(80);
    EXPECT_EQ(stopped.load(), 0);
    EXPECT_EQ(queue.try_pop()->rows, int64_t{5});
    blocked.join();
    late.join();
    EXPECT_EQ(stopped.load(), 2);
    auto cut = queue.try_pop();
    EXPECT_EQ(cut->rows, int64_t{10});
    EXPECT_EQ(cut->columns[0].length, int64_t{10});
    EXPECT_EQ(cut->columns[0].data.size(), uint64_t{80});
    EXPECT(!queue.try_pop().has_value());
}

TEST(limit_sink_may_give_all_rows_or_none) {
    MemoryBudget budget(1 << 24);
    JobControl control;
    auto held = std::make_unique<QueueSink>(BatchSize{1024}, 8, control);
    QueueSink& queue = *held;
    LimitSink sink(std::move(held), 15, true, control);
    sink.push(0, one_column(budget, 14));
    EXPECT(sink.keeps_sink_open());
    EXPECT(!queue.try_pop().has_value());
    EXPECT_ERROR(kAborted, sink.push(0, one_column(budget, 14)));
    EXPECT(sink.ended_well() && !sink.keeps_sink_open());
    EXPECT_EQ(queue.try_pop()->rows, int64_t{14});
    EXPECT_EQ(queue.try_pop()->rows, int64_t{1});
    sink.begin(3, true);
    sink.push(0, one_column(budget, 2));
    EXPECT(sink.keeps_sink_open());
    sink.begin(1, false);
    EXPECT_ERROR(kAborted, sink.push(0, one_column(budget, 2)));
    EXPECT_EQ(queue.try_pop()->rows, int64_t{1});
}

TEST(limit_sink_may_count_all_rows_or_none) {
    JobControl control;
    auto counted = std::make_unique<CountSink>(control);
    const CountSink& count = *counted;
    LimitSink sink(std::move(counted), 15, true, control);
    sink.add_rows(0, 14);
    EXPECT_EQ(count.total(), 0u);
    EXPECT_EQ(control.rows_out.load(), 0u);
    sink.begin(10, true);
    sink.add_rows(0, 9);
    EXPECT_EQ(count.total(), 0u);
    EXPECT_ERROR(kAborted, sink.add_rows(1, 9));
    EXPECT(sink.ended_well());
    EXPECT_EQ(count.total(), 10u);
}
