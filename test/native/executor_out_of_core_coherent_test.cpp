// SPDX-License-Identifier: Apache-2.0
// Joins out of core by kernels alone, on the (fake) GPU: what the plugin is told, and what comes back.
#include "support/out_of_core_trial.hpp"

namespace spillway::test {

using batches::BatchCollector;

namespace {

// The rows' numbers beside their keys, and nothing else.
OutOfCoreStage coherent_join() {
    OutOfCoreStage stage = inner_join();
    stage.join.output = {{cuda::OutputSide::kKey, 0}, {cuda::OutputSide::kBuild, 0}, {cuda::OutputSide::kProbe, 0}};
    for (const size_t side : {kBuildSide, kProbeSide}) {
        stage.join.widths[side] = {4};
        stage.sides[side].columns = {{.column = kRowNumberColumn, .row_number_bytes = 4}};
        stage.row_numbers[side] = side == kBuildSide ? 1 : 2;
    }
    const auto gathered = [](int32_t source, int32_t column) {
        ResultPart part;
        part.value = column;
        part.source = source;
        return part;
    };
    stage.columns[1].parts = {gathered(kBuildSide, 1)};
    stage.columns[2].parts = {gathered(kBuildSide, 2)};
    stage.columns[3].parts = {gathered(kProbeSide, 1)};
    stage.columns[4].parts = {gathered(kProbeSide, 2)};
    stage.join.sizes.resident_partitions = 0;
    stage.coherent.emplace().device_bytes = 8 * 1024;
    stage.coherent->shares = {1, 0, 1};
    return stage;
}

}  // namespace

TEST(executor_out_of_core_joins_by_kernels_alone) {
    for (const auto partitioner :
         {cuda::FarPartitioner::kBest, cuda::FarPartitioner::kStandard, cuda::FarPartitioner::kBulk}) {
        OutOfCoreTest test;
        test.stage = coherent_join();
        test.stage.coherent->partitioner = partitioner;
        BatchCollector sink;
        const cuda::StreamReport report = test.run(&sink);
        EXPECT(rows_of(sink) == test.expected());
        EXPECT_EQ(report.result_rows, test.expected().size());
        // The fake's rows take the turns of pages; those without a key are on none.
        uint64_t keyed_rows = 0;
        for (const auto& batch : test.build.values) {
            for (const Value& key : batch[0]) keyed_rows += key.null ? 0 : 1;
        }
        EXPECT(keyed_rows < 1577u);
        EXPECT_EQ(report.spilled_rows[kBuildSide], keyed_rows / 2);
        EXPECT_EQ(report.spilled_bytes[kBuildSide], report.spilled_rows[kBuildSide] * 8);
        EXPECT_EQ(report.resident_partitions, 0u);
        sink.batches.clear();
        test.expect_clean();
    }
}

TEST(executor_out_of_core_joins_by_kernels_alone_with_pages_of_a_peer) {
    OutOfCoreTest test;
    EXPECT_EQ(test.gpu.device.open_peer(0, 6000).memory_bytes, 6000u);
    for (const uint64_t peer_bytes : {uint64_t{0}, uint64_t{1600}, uint64_t{4000}, uint64_t{1} << 20}) {
        test.stage = coherent_join();
        test.stage.join.sizes.peer_bytes = peer_bytes;
        BatchCollector sink;
        const cuda::StreamReport report = test.run(&sink);
        EXPECT(rows_of(sink) == test.expected());
        EXPECT_EQ(report.peer_bytes, std::min<uint64_t>(peer_bytes, 6000));
        sink.batches.clear();
        test.expect_clean();
    }
}

TEST(executor_out_of_core_by_kernels_alone_refuses_what_they_cannot_join) {
    const OutOfCoreStage good = coherent_join();
    const auto refuses = [&](const OutOfCoreStage& stage) {
        OutOfCoreTest test;
        test.stage = stage;
        BatchCollector sink;
        EXPECT_ERROR(kInternal, test.run(&sink));
        test.expect_clean();
    };
    OutOfCoreStage stage = good;
    stage.join.sizes.page_rows = 8;
    refuses(stage);
    EXPECT(good.join.can_be_coherent());
    stage = good;
    stage.join.key_columns = 1;  // of 4 bytes
    EXPECT(!stage.join.can_be_coherent());
    refuses(stage);
    stage.join.key_bytes = 8;
    stage.join.widths[kBuildSide] = stage.join.widths[kProbeSide] = {8};
    EXPECT(stage.join.can_be_coherent());
    stage.join.widths[kProbeSide] = {};
    EXPECT(!stage.join.can_be_coherent());
    for (const cuda::ColumnWidths& widths : {cuda::ColumnWidths{8}, {4, 4}, {1}}) {
        stage = good;
        stage.join.widths[kBuildSide] = widths;
        EXPECT(!stage.join.can_be_coherent());
    }
}

}  // namespace spillway::test
