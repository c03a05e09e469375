// SPDX-License-Identifier: Apache-2.0
// Joins of sources out of core on the (fake) GPU: chunks of several batches, result blocks, everything that can fail.
#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "device/gpu_plugin.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/out_of_core_executor.hpp"
#include "executor/sinks/count_sink.hpp"
#include "support/fake_gpu.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

constexpr uint64_t kLimitBytes = 256 * kMiB;

struct OutOfCoreGpu {
    explicit OutOfCoreGpu(uint64_t memory_bytes) : device(plugin, 0, memory_bytes, kLimitBytes) {}
    FakeGpuFolder folder;
    GpuPlugin plugin{folder.path()};
    GpuDevice device;
};

// A key of 4 bytes, a number of 8 bytes and a bool, some of them NULL, in several batches of files and memory.
struct Side : TestRelation {
    Side(uint64_t seed, std::vector<int64_t> batch_rows) : TestRelation(seed) {
        add_column(type_of(Layout::kFixed, 4));
        add_column(type_of(Layout::kFixed, 8));
        add_column(type_of(Layout::kBool));
        int32_t file = 0;
        for (const int64_t rows : batch_rows) add_keyed_batch(rows, file++ % 2 == 0 ? -1 : 0);
        open();
    }

    void add_keyed_batch(int64_t rows, int32_t file) {
        std::vector<std::vector<Value>> columns;
        for (const ColumnType& type : types) columns.push_back(random_values(random, type, rows, 20));
        for (Value& key : columns[0]) {
            const auto number = static_cast<int32_t>(below(random, 400) - 200);
            if (!key.null) key.bytes.assign(reinterpret_cast<const char*>(&number), sizeof number);
        }
        add_batch(std::move(columns), rows, file);
    }

    // Text of each row; of rows by key, if they have one.
    std::string text(const std::vector<std::vector<Value>>& batch, size_t row) const {
        std::string all;
        for (size_t c = 0; c < types.size(); ++c) all += "|" + text_of(batch[c][row], types[c]);
        return all;
    }
};

OutOfCoreStage inner_join() {
    OutOfCoreStage stage;
    stage.join.key_bytes = 4;
    for (const size_t side : {kBuildSide, kProbeSide}) {
        stage.join.widths[side] = {8, 1, 1, 1};
        stage.sides[side].keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4}};
        stage.sides[side].columns = {{1, false}, {1, true}, {2, false}, {2, true}};
    }
    stage.join.result = GpuOutOfCoreResult::kRows;
    stage.join.outputs = {{GpuOutputSide::kKey, 0}};
    for (const GpuOutputSide side : {GpuOutputSide::kBuild, GpuOutputSide::kProbe}) {
        for (uint32_t column = 0; column < 4; ++column) stage.join.outputs.push_back({side, column});
    }
    const auto number = std::make_shared<const ColumnType>(type_of(Layout::kFixed, 8));
    const auto truth = std::make_shared<const ColumnType>(type_of(Layout::kBool));
    stage.columns = {{std::make_shared<const ColumnType>(type_of(Layout::kFixed, 4)), {{0, 0, -1, 0}}},
                     {number, {{1, 0, 2, 0}}},
                     {truth, {{3, 0, 4, 0}}},
                     {number, {{5, 0, 6, 0}}},
                     {truth, {{7, 0, 8, 0}}}};
    GpuOutOfCoreSizes& sizes = stage.join.sizes;
    sizes.radix_bits = 3;
    sizes.chunk_rows = 192;
    sizes.page_rows = 64;
    sizes.pages = 64;
    sizes.resident_partitions = 4;
    sizes.spill_block_bytes = 4096;
    sizes.spill_bytes = kMiB;
    sizes.result_rows = 500;
    stage.workers = 3;
    return stage;
}

struct OutOfCoreTest {
    explicit OutOfCoreTest(uint64_t memory_bytes = kLimitBytes) : gpu(memory_bytes) {}

    OutOfCoreRun run(BatchSink* sink) {
        const DevicePause pause = [&](const std::function<void()>& wait) {
            ++pauses;
            wait();
        };
        return join_out_of_core(*build.source, *probe.source, stage, gpu.device, pause, sink, build.budget,
                                build.control);
    }

    // Rows of the join, each as a text.
    std::multiset<std::string> expected() const {
        std::multimap<std::string, std::string> rows;
        for (const auto& batch : build.values) {
            for (size_t row = 0; row < batch[0].size(); ++row) {
                if (!batch[0][row].null) rows.emplace(text_of(batch[0][row], build.types[0]), build.text(batch, row));
            }
        }
        std::multiset<std::string> pairs;
        for (const auto& batch : probe.values) {
            for (size_t row = 0; row < batch[0].size(); ++row) {
                if (batch[0][row].null) continue;
                const std::string key = text_of(batch[0][row], probe.types[0]);
                const auto [first, last] = rows.equal_range(key);
                const std::string of_probe = probe.text(batch, row).substr(key.size() + 1);
                for (auto match = first; match != last; ++match) pairs.insert(match->second + of_probe);
            }
        }
        return pairs;
    }

    std::multiset<std::string> rows_of(const BatchCollector& sink) const {
        std::multiset<std::string> rows;
        for (const OutputBatch& batch : sink.batches) {
            for (int64_t row = 0; row < batch.rows; ++row) {
                std::string all;
                for (const OutputColumn& column : batch.columns) all += "|" + text_of(view_of(column), row);
                rows.insert(all);
            }
        }
        return rows;
    }

    void expect_clean() const {
        EXPECT_EQ(gpu.device.memory().used_bytes, 0u);
        EXPECT_EQ(gpu.device.memory().pinned_used_bytes, 0u);
        EXPECT_EQ(build.budget.used(), used_before);
    }

    OutOfCoreGpu gpu;
    Side build{41, {1000, 0, 77, 500}};
    Side probe{42, {300, 1200, 1, 0, 64}};
    OutOfCoreStage stage = inner_join();
    std::atomic<int> pauses{0};
    const uint64_t used_before = build.budget.used();
};

class FailingSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&&) override {
        if (++pushed == 3) throw Error(ErrorCode::kDiskFull, "no room");
    }
    BatchSize batch_size() const override { return {.rows = 100}; }
    std::atomic<int> pushed{0};
};

// A reader that takes its time.
class SlowSink final : public BatchSink {
  public:
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&& batch) override {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        rows += static_cast<uint64_t>(batch.rows);
    }
    BatchSize batch_size() const override { return {.rows = 100}; }
    std::atomic<uint64_t> rows{0};
};

}  // namespace

TEST(executor_out_of_core_gives_the_rows_of_the_join) {
    OutOfCoreTest test;
    BatchCollector sink;
    sink.size = {.rows = 128};
    const OutOfCoreRun done = test.run(&sink);
    EXPECT(test.expected().size() > 1000);
    EXPECT(test.rows_of(sink) == test.expected());
    EXPECT_EQ(done.report.result_rows, test.expected().size());
    EXPECT_EQ(done.report.rows[kBuildSide], 1577u);
    EXPECT_EQ(done.report.rows[kProbeSide], 1565u);
    EXPECT_EQ(done.report.resident_partitions, 4u);
    EXPECT(done.report.spilled_rows[kBuildSide] > 0);
    EXPECT_EQ(done.partition_rows.size(), 8u);
    for (const OutputBatch& batch : sink.batches) EXPECT(batch.rows <= 128);
    sink.batches.clear();
    test.expect_clean();
}

TEST(executor_out_of_core_counts_without_columns) {
    OutOfCoreTest test;
    const size_t rows = test.expected().size();
    test.stage.join.result = GpuOutOfCoreResult::kCount;
    test.stage.join.outputs.clear();
    test.stage.columns.clear();
    for (const size_t side : {kBuildSide, kProbeSide}) {
        test.stage.join.widths[side].clear();
        test.stage.sides[side].columns.clear();
    }
    EXPECT_EQ(test.run(nullptr).report.result_rows, rows);
    EXPECT_EQ(test.build.control.rows_out.load(), rows);
    test.expect_clean();
}

TEST(executor_out_of_core_joins_relations_without_rows) {
    OutOfCoreTest test;
    Side empty(43, {0});
    const DevicePause pause = [](const std::function<void()>& wait) { wait(); };
    for (const bool builds : {true, false}) {
        BatchCollector sink;
        Source& build = builds ? *empty.source : *test.build.source;
        Source& probe = builds ? *test.probe.source : *empty.source;
        const OutOfCoreRun done = join_out_of_core(build, probe, test.stage, test.gpu.device, pause, &sink,
                                                   test.build.budget, test.build.control);
        EXPECT_EQ(done.report.result_rows, 0u);
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
    EXPECT(test.rows_of(sink) == expected);
}

TEST(executor_out_of_core_waits_for_a_slow_reader) {
    OutOfCoreTest test;
    SlowSink sink;
    const OutOfCoreRun done = test.run(&sink);
    EXPECT_EQ(done.report.result_rows, sink.rows.load());
    EXPECT(test.pauses.load() > 0);  // others may use the GPU meanwhile
    test.expect_clean();
}

TEST(executor_out_of_core_ends_when_its_sink_fails) {
    OutOfCoreTest test;
    FailingSink sink;
    EXPECT_ERROR(kDiskFull, test.run(&sink));
    test.expect_clean();
    test.build.control.cancelled = false;
    BatchCollector again;
    test.run(&again);
    EXPECT(test.rows_of(again) == test.expected());
}

TEST(executor_out_of_core_ends_when_a_source_fails) {
    OutOfCoreTest test;
    std::filesystem::resize_file(test.probe.files[0]->path(), 64);
    BatchCollector sink;
    EXPECT_ERROR(kFileTruncated, test.run(&sink));
    test.expect_clean();
}

TEST(executor_out_of_core_stops_when_the_job_does) {
    OutOfCoreTest test;
    test.build.control.cancelled = true;
    BatchCollector sink;
    EXPECT_ERROR(kAborted, test.run(&sink));
    test.expect_clean();
}

TEST(executor_out_of_core_says_which_memory_is_too_small) {
    const auto tier_of = [](OutOfCoreTest& test) {
        BatchCollector sink;
        try {
            test.run(&sink);
        } catch (const Error& error) {
            EXPECT_EQ(std::string(error_code_name(error.code())), "BUDGET_TOO_SMALL");
            test.expect_clean();
            return detail(error, "tier") + " " + detail(error, "option");
        }
        return std::string("nothing");
    };
    OutOfCoreTest small(10 * kMiB);
    EXPECT_EQ(tier_of(small), "device memory.device");
    OutOfCoreTest spills;
    spills.stage.join.sizes.spill_bytes = 1000;
    EXPECT_EQ(tier_of(spills), "host memory.host");
    OutOfCoreTest host;
    host.stage.join.sizes.spill_bytes = 1ULL << 40;
    EXPECT_EQ(tier_of(host), "host memory.host");
}

TEST(executor_kept_pinned_memory_counts_until_somebody_needs_it) {
    OutOfCoreGpu gpu(kMiB);
    MemoryBudget budget(20 * kMiB);
    KeptPinned kept(gpu.device, budget, 2 * kMiB);
    const auto used_by_a_join = [&] {
        const KeptPinned::Use use(kept);
        EXPECT_EQ(budget.used(), 0u);
        gpu.device.allocate_pinned(10 * kMiB, "test");
    };
    used_by_a_join();
    EXPECT_EQ(budget.used(), 8 * kMiB);
    used_by_a_join();
    EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 10 * kMiB);
    {
        const Reservation all = budget.reserve(16 * kMiB, "test");
        EXPECT_EQ(budget.used(), 16 * kMiB);
        EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 0u);
        const KeptPinned::Use use(kept);
        gpu.device.allocate_pinned(10 * kMiB, "test");
    }
    used_by_a_join();
    kept.trim();
    EXPECT_EQ(budget.used(), 0u);
    EXPECT_EQ(gpu.device.memory().pinned_reserved_bytes, 0u);
}

TEST(device_out_of_core_bytes_grow_with_chunks_and_pages) {
    OutOfCoreGpu gpu(kMiB);
    OutOfCoreStage stage = inner_join();
    const uint64_t before = GpuOutOfCoreJoin::device_bytes(gpu.device, stage.join);
    stage.join.sizes.pages *= 2;
    const uint64_t more_pages = GpuOutOfCoreJoin::device_bytes(gpu.device, stage.join);
    stage.join.sizes.chunk_rows *= 2;
    EXPECT(more_pages > before);
    EXPECT(GpuOutOfCoreJoin::device_bytes(gpu.device, stage.join) > more_pages);
}

}  // namespace spillway::test
