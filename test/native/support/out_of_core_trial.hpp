// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "device/gpu_plugin.hpp"
#include "executor/streaming/join.hpp"
#include "support/fake_gpu.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

// Two relations, a join of them out of core on the (fake) GPU, and what it must give.
namespace spillway::test {

constexpr uint64_t kOutOfCoreLimitBytes = 256 * kMiB;

struct OutOfCoreGpu {
    explicit OutOfCoreGpu(uint64_t memory_bytes) : device(plugin, 0, memory_bytes, kOutOfCoreLimitBytes) {}
    FakeGpuFolder folder;
    GpuPlugin plugin{folder.path()};
    GpuDevice device;
};

// On the heap: the thread sanitizer takes mutexes that follow each other at one place of the stack for one.
inline std::unique_ptr<KeptPinned> kept_pinned(GpuDevice device, MemoryBudget& budget, uint64_t allowance_bytes) {
    return std::make_unique<KeptPinned>(std::move(device), budget, allowance_bytes);
}

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

inline OutOfCoreStage inner_join() {
    OutOfCoreStage stage;
    stage.join.key_bytes = 4;
    for (const size_t side : {kBuildSide, kProbeSide}) {
        stage.join.widths[side] = {8, 1, 1, 1};
        stage.sides[side].keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4}};
        stage.sides[side].columns = {{1, false}, {1, true}, {2, false}, {2, true}};
    }
    stage.join.result = cuda::JoinResultKind::kRows;
    stage.join.output = {{cuda::OutputSide::kKey, 0}};
    for (const cuda::OutputSide side : {cuda::OutputSide::kBuild, cuda::OutputSide::kProbe}) {
        for (uint32_t column = 0; column < 4; ++column) stage.join.output.push_back({side, column});
    }
    const auto number = std::make_shared<const ColumnType>(type_of(Layout::kFixed, 8));
    const auto truth = std::make_shared<const ColumnType>(type_of(Layout::kBool));
    stage.columns = {{std::make_shared<const ColumnType>(type_of(Layout::kFixed, 4)), {{0, 0, -1, 0}}},
                     {number, {{1, 0, 2, 0}}},
                     {truth, {{3, 0, 4, 0}}},
                     {number, {{5, 0, 6, 0}}},
                     {truth, {{7, 0, 8, 0}}}};
    cuda::StreamSizes& sizes = stage.join.sizes;
    sizes.radix_bits = 3;
    sizes.chunk_rows = 192;
    sizes.host_chunk_rows = 192;
    sizes.host_chunk_slots = 5;
    sizes.page_rows = 64;
    sizes.pages = 64;
    sizes.resident_partitions = 4;
    sizes.spill_block_bytes = 4096;
    sizes.spill_bytes = kMiB;
    sizes.result_rows = 500;
    stage.workers = 3;
    return stage;
}

// Rows of a result as texts, in no order.
inline std::multiset<std::string> rows_of(const batches::BatchCollector& sink) {
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

struct OutOfCoreTest {
    explicit OutOfCoreTest(uint64_t memory_bytes = kOutOfCoreLimitBytes) : gpu(memory_bytes) {}

    cuda::StreamReport run(BatchSink* sink) {
        const DevicePause pause = [&](const std::function<void()>& wait) {
            ++pauses;
            wait();
        };
        const auto pinned = kept_pinned(gpu.device, build.budget, 1024 * kMiB);
        return join_out_of_core({build.source.get()}, {probe.source.get()}, stage, *pinned, pause, sink, build.control,
                                space);
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
    std::shared_ptr<SpillSpace> space;  // nullptr: nothing goes to disk
    const uint64_t used_before = build.budget.used();
};

}  // namespace spillway::test
