// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/nearest_mean.hpp"
#include "executor/streaming/group_by.hpp"
#include "support/out_of_core_trial.hpp"

// Group-bys of a source out of core on the (fake) GPU, and what they should give.
namespace spillway::test {

// By the key of 4 bytes: count and mean of the number of 8 bytes, whose sum is one of two halves.
inline OutOfCoreGroupStage means_of_numbers() {
    OutOfCoreGroupStage stage;
    stage.group.key_bytes = 4;
    stage.group.null_group = true;
    stage.group.widths = {1, 4, 4};
    stage.group.aggregates = {{cuda::GroupAggregateKind::kSum, cuda::ValueKind::kUnsigned, 0},
                              {cuda::GroupAggregateKind::kSum, cuda::ValueKind::kUnsigned, 1},
                              {cuda::GroupAggregateKind::kSum, cuda::ValueKind::kSigned, 2}};
    stage.side.keys = {{0, KeyKind::kInteger, KeyKind::kInteger, 4}};
    stage.side.columns = {{1, true, ChunkPart::kWhole, ChunkFill::kNone},
                          {1, false, ChunkPart::kLow, ChunkFill::kZero},
                          {1, false, ChunkPart::kHigh, ChunkFill::kZero}};
    GroupResultColumn key;
    key.type = std::make_shared<const ColumnType>(type_of(Layout::kFixed, 4));
    key.present = 1;
    GroupResultColumn values;
    values.type = std::make_shared<const ColumnType>(type_of(Layout::kFixed, 8));
    values.value = 2;
    GroupResultColumn mean = values;
    mean.kind = GroupResultKind::kMean;
    mean.value = 3;
    mean.high = 4;
    mean.count = 2;
    mean.present = 2;
    mean.name = "column1";
    stage.columns = {key, values, mean};
    cuda::StreamSizes& sizes = stage.group.sizes;
    sizes.radix_bits = 3;
    sizes.chunk_rows = 192;
    sizes.host_chunk_rows = 64;
    sizes.host_chunk_slots = 8;
    sizes.page_rows = 64;
    sizes.pages = 4;
    sizes.merge_rows = 512;
    sizes.spill_block_bytes = 4096;
    sizes.spill_bytes = kMiB;
    sizes.result_rows = 100;
    stage.workers = 3;
    return stage;
}

struct GroupTest {
    explicit GroupTest(uint64_t memory_bytes = kOutOfCoreLimitBytes) : gpu(memory_bytes) {}

    cuda::StreamReport run(BatchSink* sink, Side& of) {
        const DevicePause pause = [](const std::function<void()>& wait) { wait(); };
        const auto pinned = kept_pinned(gpu.device, of.budget, 1024 * kMiB);
        return group_out_of_core({of.source.get()}, stage, *pinned, pause, sink, of.control, space);
    }
    cuda::StreamReport run(BatchSink* sink) { return run(sink, side); }

    // One group of all rows, whose result has no key.
    void drop_keys() {
        stage.side.keys.clear();
        stage.group.null_group = false;
        stage.columns.erase(stage.columns.begin());
        for (GroupResultColumn& column : stage.columns) {
            --column.value;
            if (column.high >= 0) --column.high;
            if (column.present >= 0) --column.present;
            if (column.count >= 0) --column.count;
        }
    }

    struct Group {
        int64_t values = 0;
        __int128 sum = 0;
    };
    // Groups as texts.
    std::multiset<std::string> expected() const {
        std::map<std::string, Group> groups;
        for (const auto& batch : side.values) {
            for (size_t row = 0; row < batch[0].size(); ++row) {
                Group& group = groups[text_of(batch[0][row], side.types[0])];
                if (batch[1][row].null) continue;
                int64_t value = 0;
                std::memcpy(&value, batch[1][row].bytes.data(), sizeof value);
                ++group.values;
                group.sum += value;
            }
        }
        std::multiset<std::string> texts;
        const auto text = [&](const void* bytes) {
            Value cell;
            cell.null = bytes == nullptr;
            if (bytes != nullptr) cell.bytes.assign(static_cast<const char*>(bytes), sizeof(uint64_t));
            return "|" + text_of(cell, side.types[1]);
        };
        for (const auto& [key, group] : groups) {
            const double mean = group.values == 0 ? 0 : nearest_mean(group.sum, static_cast<uint64_t>(group.values), 0);
            texts.insert("|" + key + text(&group.values) + text(group.values == 0 ? nullptr : &mean));
        }
        return texts;
    }

    void expect_clean() const {
        EXPECT_EQ(gpu.device.memory().used_bytes, 0u);
        EXPECT_EQ(gpu.device.memory().pinned_used_bytes, 0u);
        EXPECT_EQ(side.budget.used(), used_before);
    }

    OutOfCoreGpu gpu;
    Side side{47, {1000, 0, 77, 500}};
    OutOfCoreGroupStage stage = means_of_numbers();
    std::shared_ptr<SpillSpace> space;
    const uint64_t used_before = side.budget.used();
};

}  // namespace spillway::test
