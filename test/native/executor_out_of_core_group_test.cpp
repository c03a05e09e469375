// SPDX-License-Identifier: Apache-2.0
// Group-bys of a source out of core on the (fake) GPU: results, failing sources and sinks, too little memory.
#include <atomic>
#include <filesystem>

#include "executor/sinks/count_sink.hpp"
#include "support/out_of_core_group_trial.hpp"

namespace spillway::test {

namespace {

class FullSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&&) override {
        if (++pushed == 2) throw Error(ErrorCode::kDiskFull, "no room");
    }
    BatchSize batch_size() const override { return {.rows = 20}; }
    std::atomic<int> pushed{0};
};

}  // namespace

TEST(executor_out_of_core_groups_are_those_of_the_rows) {
    GroupTest test;
    batches::BatchCollector sink;
    sink.size = {.rows = 40};
    const cuda::StreamReport report = test.run(&sink);
    EXPECT(rows_of(sink) == test.expected());
    EXPECT(test.expected().size() > 300);
    EXPECT_EQ(report.result_rows, test.expected().size());
    EXPECT_EQ(report.rows[0], 1577u);
    EXPECT(report.spilled_rows[0] > 0);
    for (const OutputBatch& batch : sink.batches) EXPECT(batch.rows <= 40);
    sink.batches.clear();
    test.expect_clean();
    // Numbers of all 64 bits: some sums do not fit.
    test.stage.columns[2].kind = GroupResultKind::kSum;
    EXPECT_ERROR(kIntegerOverflow, test.run(&sink));
    sink.batches.clear();
    test.expect_clean();
}

// Batches as large as blocks, of which there are fewer than workers: several make the columns of one.
TEST(executor_out_of_core_groups_are_those_of_the_rows_by_many_workers) {
    GroupTest test;
    test.stage.workers = 24;
    batches::BatchCollector sink;
    EXPECT_EQ(test.run(&sink).result_rows, test.expected().size());
    EXPECT(rows_of(sink) == test.expected());
    for (const OutputBatch& batch : sink.batches) {
        EXPECT_EQ(batch.columns.size(), test.stage.columns.size());
        for (const OutputColumn& column : batch.columns) EXPECT_EQ(column.length, batch.rows);
    }
    sink.batches.clear();
    test.expect_clean();
    test.stage.columns[2].kind = GroupResultKind::kSum;
    EXPECT_ERROR(kIntegerOverflow, test.run(&sink));
    sink.batches.clear();
    test.expect_clean();
}

TEST(executor_out_of_core_groups_are_counted_without_a_sink) {
    GroupTest test;
    EXPECT_EQ(test.run(nullptr).result_rows, test.expected().size());
    EXPECT_EQ(test.side.control.rows_out.load(), test.expected().size());
    test.expect_clean();
}

TEST(executor_out_of_core_groups_are_counted_for_a_sink_without_columns) {
    GroupTest test;
    CountSink sink(test.side.control);
    EXPECT_EQ(test.run(&sink).result_rows, test.expected().size());
    EXPECT_EQ(sink.total(), test.expected().size());
    test.expect_clean();
}

TEST(executor_out_of_core_gives_one_group_without_keys) {
    GroupTest test;
    test.drop_keys();
    batches::BatchCollector sink;
    EXPECT_EQ(test.run(&sink).result_rows, 1u);
    EXPECT_EQ(sink.batches.size(), 1u);
    EXPECT_EQ(sink.batches[0].rows, 1);
}

TEST(executor_out_of_core_gives_one_group_without_keys_and_rows) {
    GroupTest test;
    Side empty(48, {0});
    test.drop_keys();
    batches::BatchCollector sink;
    EXPECT_EQ(test.run(&sink, empty).result_rows, 1u);
    EXPECT_EQ(sink.batches.size(), 1u);
    EXPECT_EQ(sink.batches[0].rows, 1);
    EXPECT_EQ(sink.batches[0].columns[1].null_count, 1);
}

TEST(executor_out_of_core_groups_end_when_source_sink_or_job_do) {
    GroupTest sinks;
    FullSink failing;
    EXPECT_ERROR(kDiskFull, sinks.run(&failing));
    sinks.expect_clean();
    GroupTest sources;
    std::filesystem::resize_file(sources.side.files[0]->path(), 64);
    batches::BatchCollector sink;
    EXPECT_ERROR(kFileTruncated, sources.run(&sink));
    sources.expect_clean();
    GroupTest jobs;
    jobs.side.control.cancelled = true;
    EXPECT_ERROR(kAborted, jobs.run(&sink));
    jobs.expect_clean();
}

TEST(executor_out_of_core_groups_say_which_memory_is_too_small) {
    const auto tier_of = [](GroupTest& test) {
        batches::BatchCollector sink;
        try {
            test.run(&sink);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            EXPECT_EQ(detail(error, "delivered"), "nothing");
            test.expect_clean();
            return detail(error, "tier");
        }
        return std::string("none");
    };
    GroupTest small(10 * kMiB);
    EXPECT_EQ(tier_of(small), "device");
    GroupTest spills;
    spills.stage.group.sizes.spill_bytes = 1000;
    EXPECT_EQ(tier_of(spills), "host");
}

}  // namespace spillway::test
