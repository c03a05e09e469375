// SPDX-License-Identifier: Apache-2.0
// Tables to the (fake) GPU and back: batches of odd lengths, bitmaps that begin inside bytes, strings of any kind.
#include <algorithm>
#include <chrono>
#include <thread>

#include "device/gpu_plugin.hpp"
#include "device/gpu_table.hpp"
#include "executor/device/deliver.hpp"
#include "executor/device/upload.hpp"
#include "executor/sinks/count_sink.hpp"
#include "support/fake_gpu.hpp"
#include "support/out_of_core_trial.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

constexpr uint64_t kDeviceBytes = uint64_t{64} << 20;
constexpr uint64_t kStagingBytes = 1 << 20;

struct Gpu {
    FakeGpuFolder folder;
    GpuPlugin plugin{folder.path()};
    GpuDevice device{plugin, 0, kDeviceBytes, kDeviceBytes};
};

// Every kind of column that can be uploaded.
void add_columns(TestRelation& relation) {
    for (const int32_t width : {1, 2, 4, 8, 16, 24}) relation.add_column(type_of(Layout::kFixed, width));
    relation.add_column(type_of(Layout::kBool));
    relation.add_column(type_of(Layout::kNull));
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_column(type_of(Layout::kBinary, 8));
    relation.add_column(type_of(Layout::kView, 16));
    relation.add_column(type_of(Layout::kDictionary, 4, {type_of(Layout::kBinary, 4)}));
    relation.add_column(type_of(Layout::kDictionary, 4, {type_of(Layout::kFixed, 8)}));
    relation.add_column(type_of(Layout::kDictionary, 2, {type_of(Layout::kBool)}));
}

GpuTable upload(TestRelation& relation, Gpu& gpu, int32_t workers, bool decode, bool packed = false) {
    UploadSpec spec;
    for (size_t i = 0; i < relation.types.size(); ++i) {
        spec.columns.push_back(
            {static_cast<int32_t>(i), decode && relation.types[i].layout == Layout::kDictionary, packed});
    }
    spec.staging_bytes = kStagingBytes;
    spec.workers = workers;
    const auto pinned = kept_pinned(gpu.device, relation.budget, kDeviceBytes);
    return upload_table(*relation.source, spec, *pinned, relation.control).table;
}

DeliverSpec deliver_spec(const TestRelation& relation, int32_t workers, bool decode) {
    DeliverSpec spec;
    for (size_t i = 0; i < relation.types.size(); ++i) {
        TypePtr type = relation.source->columns()[i];
        if (decode && type->layout == Layout::kDictionary) type = std::make_shared<const ColumnType>(type->children[0]);
        spec.columns.push_back({type, static_cast<int32_t>(i)});
    }
    spec.staging_bytes = kStagingBytes;
    spec.workers = workers;
    return spec;
}

std::vector<std::string> texts_of(const TestRelation& relation) {
    std::vector<std::string> rows;
    for (const auto& batch : relation.values) {
        for (size_t row = 0; row < batch[0].size(); ++row) {
            std::string text;
            for (size_t c = 0; c < batch.size(); ++c) text += text_of(batch[c][row], relation.types[c]) + "|";
            rows.push_back(text);
        }
    }
    return rows;
}

std::vector<std::string> texts_of(const std::vector<OutputBatch>& delivered) {
    std::vector<std::string> rows;
    for (const OutputBatch& batch : delivered) {
        std::vector<ColumnView> views;
        for (const OutputColumn& column : batch.columns) views.push_back(view_of(column));
        for (int64_t row = 0; row < batch.rows; ++row) {
            std::string text;
            for (const ColumnView& view : views) text += text_of(view, row) + "|";
            rows.push_back(text);
        }
    }
    return rows;
}

void expect_delivered(TestRelation& relation, Gpu& gpu, const GpuTable& table, const DeliverSpec& spec,
                      BatchSize batch_size, std::vector<std::string> wanted) {
    BatchCollector sink;
    sink.size = batch_size;
    const auto pinned = kept_pinned(gpu.device, relation.budget, kDeviceBytes);
    EXPECT_EQ(deliver_table(table, spec, *pinned, sink, relation.control).rows, wanted.size());
    for (const OutputBatch& batch : sink.batches) {
        EXPECT(batch.rows <= batch_size.rows);
        for (const OutputColumn& column : batch.columns) EXPECT(column.null_count == 0 || column.length > 0);
    }
    std::vector<std::string> found = texts_of(sink.batches);
    if (spec.workers > 1) {  // batches come in any order
        std::sort(found.begin(), found.end());
        std::sort(wanted.begin(), wanted.end());
    }
    EXPECT_EQ(found.size(), wanted.size());
    for (size_t row = 0; row < found.size(); ++row) EXPECT_EQ(found[row], wanted[row]);
}

void expect_round_trip(TestRelation& relation, int32_t workers, bool decode, BatchSize batch_size) {
    Gpu gpu;
    relation.open();
    const std::vector<std::string> expected = texts_of(relation);
    for (const bool packed : {false, true}) {
        const GpuTable table = upload(relation, gpu, workers, decode, packed);
        EXPECT_EQ(table.rows(), expected.size());
        for (const int32_t readers : {1, 4}) {
            DeliverSpec spec = deliver_spec(relation, readers, decode);
            spec.packed = packed;
            expect_delivered(relation, gpu, table, spec, batch_size, expected);
        }
    }
}

void add_odd_batches(TestRelation& relation, const std::vector<int64_t>& lengths) {
    for (size_t i = 0; i < lengths.size(); ++i) {
        relation.add_random_batch(lengths[i], static_cast<int32_t>(i % 3) - 1, i % 2 == 0 ? 20 : 0);
    }
}

}  // namespace

TEST(executor_device_tables_of_odd_batches) {
    for (const bool decode : {false, true}) {
        TestRelation relation(11);
        add_columns(relation);
        add_odd_batches(relation, {777, 1, 63, 0, 65, 1000, 7, 8, 9, 1234});
        expect_round_trip(relation, 4, decode, {.rows = 501});
        expect_round_trip(relation, 4, decode, {.rows = 7});
    }
}

TEST(executor_device_tables_in_small_batches) {
    TestRelation relation(12);
    add_columns(relation);
    add_odd_batches(relation, {33, 3, 100});
    expect_round_trip(relation, 2, false, {.rows = 1});
    TestRelation again(13);
    add_columns(again);
    add_odd_batches(again, {33, 3, 100});
    expect_round_trip(again, 2, true, {.rows = 1000, .bytes = 300});
}

TEST(executor_device_tables_without_rows) {
    TestRelation relation(14);
    add_columns(relation);
    add_odd_batches(relation, {0, 0});
    expect_round_trip(relation, 2, false, {.rows = 10});
    TestRelation none(15);
    add_columns(none);
    expect_round_trip(none, 2, false, {.rows = 10});
}

TEST(executor_device_tables_of_long_strings) {
    TestRelation relation(16);
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_column(type_of(Layout::kView, 16));
    std::vector<std::string> texts;
    for (int i = 1; i < 50; i += 4) texts.push_back(i == 21 ? "NULL" : std::string(static_cast<size_t>(i) * 5000, 'x'));
    const auto rows = static_cast<int64_t>(texts.size());
    relation.add_batch({strings(texts), strings(texts)}, rows, 0);
    relation.add_batch({strings(texts), strings(texts)}, rows, -1);
    // Values are longer than the pinned memory that they go through, and than a batch.
    expect_round_trip(relation, 3, false, {.rows = 1000, .bytes = 100'000});
}

TEST(executor_device_tables_are_cut_by_bytes) {
    Gpu gpu;
    TestRelation relation(17);
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_batch({strings(std::vector<std::string>(100, std::string(100, 'y')))}, 100, -1);
    relation.open();
    const GpuTable table = upload(relation, gpu, 1, false);
    BatchCollector sink;
    sink.size = {.rows = 1000, .bytes = 1050};
    const auto pinned = kept_pinned(gpu.device, relation.budget, kDeviceBytes);
    deliver_table(table, deliver_spec(relation, 1, false), *pinned, sink, relation.control);
    EXPECT_EQ(sink.batches.size(), 10u);
}

TEST(executor_device_tables_are_counted_without_columns) {
    Gpu gpu;
    TestRelation relation(18);
    add_columns(relation);
    add_odd_batches(relation, {99});
    relation.open();
    const GpuTable table = upload(relation, gpu, 2, false);
    CountSink sink(relation.control);
    const auto pinned = kept_pinned(gpu.device, relation.budget, kDeviceBytes);
    deliver_table(table, deliver_spec(relation, 2, false), *pinned, sink, relation.control);
    EXPECT_EQ(sink.total(), 99u);
}

TEST(executor_device_tables_stop_when_the_job_does) {
    Gpu gpu;
    TestRelation relation(19);
    add_columns(relation);
    add_odd_batches(relation, {500, 500});
    relation.open();
    const GpuTable table = upload(relation, gpu, 2, false);
    relation.control.cancelled = true;
    BatchCollector sink;
    EXPECT_ERROR(kAborted, upload(relation, gpu, 2, false));
    const auto pinned = kept_pinned(gpu.device, relation.budget, kDeviceBytes);
    EXPECT_ERROR(kAborted, deliver_table(table, deliver_spec(relation, 2, false), *pinned, sink, relation.control));
}

TEST(executor_device_tables_outlive_the_cancelling_of_another_job) {
    Gpu gpu;
    TestRelation relation(20);
    add_columns(relation);
    add_odd_batches(relation, {500, 500});
    relation.open();
    gpu.device.set_cancelled(true);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        gpu.device.set_cancelled(false);
    });
    const GpuTable table = upload(relation, gpu, 2, false);
    later.join();
    EXPECT_EQ(table.rows(), 1000u);
}

TEST(executor_device_tables_that_do_not_fit) {
    FakeGpuFolder folder;
    const GpuPlugin plugin(folder.path());
    GpuDevice device(plugin, 0, 10'000, kDeviceBytes);
    TestRelation relation(21);
    relation.add_column(type_of(Layout::kFixed, 8));
    relation.add_random_batch(2000, -1);
    relation.open();
    const UploadSpec spec{{{0, false}}, kStagingBytes, 2};
    const auto pinned = kept_pinned(device, relation.budget, kDeviceBytes);
    EXPECT_ERROR(kBudgetTooSmall, upload_table(*relation.source, spec, *pinned, relation.control));
    EXPECT_EQ(device.memory().used_bytes, 0u);
}

}  // namespace spillway::test
