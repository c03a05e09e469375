// SPDX-License-Identifier: Apache-2.0
// Joins out of core whose columns are gathered by row number while they run, and whose keys are compared again: by
// several workers, from files and memory; what fails while they do.
#include <filesystem>

#include "executor/sinks/count_sink.hpp"
#include "support/colliding_keys.hpp"
#include "support/out_of_core_trial.hpp"

namespace spillway::test {

namespace {

ResultPart gathered(int32_t source, int32_t column) {
    ResultPart part;
    part.value = column;
    part.source = source;
    return part;
}

// inner_join() with row numbers in place of numbers and bools.
OutOfCoreStage gathered_join() {
    OutOfCoreStage stage = inner_join();
    for (const size_t side : {kBuildSide, kProbeSide}) {
        stage.join.widths[side] = {4};
        stage.sides[side].columns = {{kRowNumberColumn, false, ChunkPart::kWhole, ChunkFill::kNone, 4}};
        stage.row_numbers[side] = side == kBuildSide ? 0 : 1;
    }
    stage.join.output = {{cuda::OutputSide::kBuild, 0}, {cuda::OutputSide::kProbe, 0}, {cuda::OutputSide::kKey, 0}};
    stage.columns[0].parts = {{2, 0, -1, 0}};
    for (const int32_t column : {1, 2}) {
        stage.columns[static_cast<size_t>(column)].parts = {gathered(kBuildSide, column)};
        stage.columns[static_cast<size_t>(column) + 2].parts = {gathered(kProbeSide, column)};
    }
    return stage;
}

// This is gathered_join() with rows that are only counted, by hashes of their keys.
OutOfCoreStage hashed_join() {
    OutOfCoreStage stage = gathered_join();
    stage.keys = OutOfCoreKeys::kHashed;
    stage.join.key_bytes = 8;
    stage.join.output.resize(2);
    stage.columns.clear();
    return stage;
}

struct GatheredTest : OutOfCoreTest {
    explicit GatheredTest(OutOfCoreStage of) { stage = std::move(of); }
    // Returns what had been delivered, according to the error for lack of memory.
    std::string delivered_before_failing(BatchSink* sink) {
        try {
            run(sink);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            return detail(error, "delivered");
        }
        return "no error";
    }
};

}  // namespace

TEST(executor_out_of_core_gathers_what_did_not_go_to_the_gpu) {
    GatheredTest test(gathered_join());
    batches::BatchCollector sink;
    sink.size = {.rows = 70};
    const cuda::StreamReport report = test.run(&sink);
    EXPECT(rows_of(sink) == test.expected());
    EXPECT_EQ(report.result_rows, test.expected().size());
    sink.batches.clear();
    test.expect_clean();
}

TEST(executor_out_of_core_counts_pairs_whose_keys_are_equal) {
    GatheredTest test(hashed_join());
    CountSink sink(test.build.control);
    const cuda::StreamReport report = test.run(&sink);
    EXPECT_EQ(report.result_rows, test.expected().size());
    EXPECT_EQ(sink.total(), test.expected().size());
    EXPECT_EQ(test.build.control.rows_out.load(), sink.total());
    test.expect_clean();
}

// The GPU counts pairs of the same hash, and each is looked at again: the count is of those whose keys are the same.
TEST(executor_out_of_core_counts_no_pairs_of_the_same_hash_alone) {
    GatheredTest test(hashed_join());
    TestRelation sides[] = {TestRelation(44), TestRelation(45)};
    for (const size_t side : {kBuildSide, kProbeSide}) {
        std::vector<std::string> keys;
        // The probe side has the first of each two that collide twice, the build side has both once.
        for (uint64_t i = 0; i < 200; ++i) {
            keys.push_back(colliding_key(i, false));
            keys.push_back(colliding_key(i, side == kBuildSide));
        }
        sides[side].add_column(type_of(Layout::kFixed, 16));
        sides[side].add_batch({strings(keys)}, 400, -1);
        sides[side].open();
        test.stage.sides[side].keys = {{0, KeyKind::kFixedBytes, KeyKind::kBytes, 16}};
    }
    CountSink sink(test.build.control);
    const DevicePause pause = [](const std::function<void()>& wait) { wait(); };
    const auto pinned = kept_pinned(test.gpu.device, test.build.budget, 1024 * kMiB);
    const cuda::StreamReport report =
        join_out_of_core({sides[kBuildSide].source.get()}, {sides[kProbeSide].source.get()}, test.stage, *pinned, pause,
                         &sink, test.build.control);
    EXPECT_EQ(report.result_rows, 400u);
    EXPECT_EQ(sink.total(), 400u);
}

// Whoever asked may count them in another way.
TEST(executor_out_of_core_that_cannot_count_on_has_counted_nothing) {
    GatheredTest test(hashed_join());
    test.stage.join.sizes.result_rows = 10;
    test.stage.join.sizes.spill_bytes = 8000;
    CountSink sink(test.build.control);
    EXPECT_EQ(test.delivered_before_failing(&sink), "nothing");
    EXPECT_EQ(sink.total(), 0u);
    EXPECT_EQ(test.build.control.rows_out.load(), 0u);
    test.expect_clean();
}

TEST(executor_out_of_core_ends_when_columns_cannot_be_held) {
    GatheredTest broken(gathered_join());
    std::filesystem::resize_file(broken.build.files[0]->path(), 64);
    batches::BatchCollector sink;
    EXPECT_ERROR(kFileTruncated, broken.run(&sink));
    broken.expect_clean();
    GatheredTest stopped(gathered_join());
    stopped.build.control.cancelled = true;
    EXPECT_ERROR(kAborted, stopped.run(&sink));
    stopped.expect_clean();
}

TEST(executor_out_of_core_gathers_with_whatever_memory_there_is) {
    GatheredTest test(gathered_join());
    std::set<std::string> ends;
    for (uint64_t left = 4 * kMiB; left > 1000; left -= left / 6) {
        const uint64_t others_bytes = test.build.budget.limit() - test.used_before - left;
        const Reservation others = test.build.budget.reserve(others_bytes, "others");
        batches::BatchCollector sink;
        sink.size = {.rows = 500};
        const std::string end = test.delivered_before_failing(&sink);
        ends.insert(end);
        if (end == "no error") EXPECT(rows_of(sink) == test.expected());
        if (end == "nothing") EXPECT(sink.batches.empty());
        sink.batches.clear();
        EXPECT_EQ(test.build.budget.used(), test.used_before + others.bytes());
        test.build.control.cancelled = false;
    }
    EXPECT(ends.count("no error") == 1 && ends.count("nothing") == 1);
}

}  // namespace spillway::test
