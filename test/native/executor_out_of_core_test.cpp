// SPDX-License-Identifier: Apache-2.0
// Joins of sources out of core on the (fake) GPU: chunks of several batches, keys of several columns, result blocks.
#include <algorithm>

#include "cuda/memory_model/staged_memory.hpp"
#include "support/out_of_core_trial.hpp"

namespace spillway::test {

using batches::BatchCollector;

TEST(executor_out_of_core_gives_the_rows_of_the_join) {
    OutOfCoreTest test;
    BatchCollector sink;
    sink.size = {.rows = 128};
    const cuda::StreamReport report = test.run(&sink);
    EXPECT(test.expected().size() > 1000);
    EXPECT(rows_of(sink) == test.expected());
    EXPECT_EQ(report.result_rows, test.expected().size());
    EXPECT_EQ(report.rows[kBuildSide], 1577u);
    EXPECT_EQ(report.rows[kProbeSide], 1565u);
    EXPECT_EQ(report.resident_partitions, 4u);
    EXPECT(report.spilled_rows[kBuildSide] > 0);
    for (const OutputBatch& batch : sink.batches) EXPECT(batch.rows <= 128);
    sink.batches.clear();
    test.expect_clean();
}

TEST(executor_out_of_core_batches_keep_to_their_bytes) {
    OutOfCoreTest test;
    BatchCollector sink;
    // A key of 4 bytes, two numbers of 8 and two bools, each a byte on the GPU: 22 in a row.
    sink.size = {.rows = 128, .bytes = 22 * 10};
    test.run(&sink);
    EXPECT(rows_of(sink) == test.expected());
    int64_t most = 0;
    for (const OutputBatch& batch : sink.batches) most = std::max(most, batch.rows);
    EXPECT_EQ(most, 10);
}

TEST(executor_out_of_core_counts_without_columns) {
    OutOfCoreTest test;
    const size_t rows = test.expected().size();
    test.stage.join.result = cuda::JoinResultKind::kCount;
    test.stage.join.output.clear();
    test.stage.columns.clear();
    for (const size_t side : {kBuildSide, kProbeSide}) {
        test.stage.join.widths[side].clear();
        test.stage.sides[side].columns.clear();
    }
    EXPECT_EQ(test.run(nullptr).result_rows, rows);
    EXPECT_EQ(test.build.control.rows_out.load(), rows);
    test.expect_clean();
}

TEST(executor_out_of_core_joins_relations_without_rows) {
    OutOfCoreTest test;
    Side empty(43, {0});
    const DevicePause pause = [](const std::function<void()>& wait) { wait(); };
    const auto pinned = kept_pinned(test.gpu.device, test.build.budget, 1024 * kMiB);
    for (const bool builds : {true, false}) {
        BatchCollector sink;
        const ChunkInput build{builds ? empty.source.get() : test.build.source.get()};
        const ChunkInput probe{builds ? test.probe.source.get() : empty.source.get()};
        const cuda::StreamReport report =
            join_out_of_core(build, probe, test.stage, *pinned, pause, &sink, test.build.control);
        EXPECT_EQ(report.result_rows, 0u);
        EXPECT_EQ(sink.batches.size(), 0u);
    }
    test.expect_clean();
}

TEST(executor_out_of_core_packs_several_keys_into_a_word) {
    OutOfCoreTest test;
    for (const size_t side : {kBuildSide, kProbeSide}) {
        // Pairs are those of the first key alone whose bools are the same, and there.
        test.stage.sides[side].keys = {{2, KeyKind::kInteger, KeyKind::kInteger, 1},
                                       {0, KeyKind::kInteger, KeyKind::kInteger, 4}};
    }
    test.stage.join.key_bytes = 8;
    test.stage.columns[0].parts[0].offset = 1;
    BatchCollector sink;
    test.run(&sink);
    std::multiset<std::string> expected;
    for (const std::string& row : test.expected()) {
        std::vector<std::string> cells;
        for (size_t at = 0; at != std::string::npos;) {
            const size_t next = row.find('|', at + 1);
            cells.push_back(row.substr(at + 1, next == std::string::npos ? next : next - at - 1));
            at = next;
        }
        if (cells[2] != "null" && cells[2] == cells[4]) expected.insert(row);
    }
    EXPECT(expected.size() > 100);
    EXPECT(rows_of(sink) == expected);
}

TEST(memory_model_staged_join_bytes_grow_with_chunks_and_pages) {
    OutOfCoreStage stage = inner_join();
    const uint64_t before = cuda::staged_join_memory(stage.join).device_bytes;
    stage.join.sizes.pages *= 2;
    const uint64_t more_pages = cuda::staged_join_memory(stage.join).device_bytes;
    stage.join.sizes.chunk_rows *= 2;
    EXPECT(more_pages > before);
    EXPECT(cuda::staged_join_memory(stage.join).device_bytes > more_pages);
}

}  // namespace spillway::test
