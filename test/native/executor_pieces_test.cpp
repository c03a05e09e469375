// SPDX-License-Identifier: Apache-2.0
// Joins in pieces on the (fake) GPU: results larger than its memory, pieces that have to become smaller, aborts.
#include <cstring>

#include "device/gpu_lane.hpp"
#include "device/gpu_plugin.hpp"
#include "device/gpu_table.hpp"
#include "executor/device/pieces.hpp"
#include "support/fake_gpu.hpp"
#include "support/out_of_core_trial.hpp"
#include "support/output_columns.hpp"
#include "support/test_relation.hpp"

namespace spillway::test {

namespace {

using batches::BatchCollector;

constexpr uint64_t kRows = 300;
constexpr uint64_t kPinnedBytes = 1 << 20;

struct PiecesGpu {
    explicit PiecesGpu(uint64_t memory_bytes) : device(plugin, 0, memory_bytes, kPinnedBytes) {}
    FakeGpuFolder folder;
    GpuPlugin plugin{folder.path()};
    GpuDevice device;
};

// One key in all rows, and their numbers.
GpuTable one_key(GpuDevice& device) {
    const cuda::ColumnSpec column{cuda::ColumnKind::kFixed, 4, false, 0};
    GpuTable table = GpuTable::create(device, kRows, {column, column});
    std::vector<int32_t> keys(kRows, 7);
    std::vector<int32_t> numbers(kRows);
    for (uint64_t row = 0; row < kRows; ++row) numbers[row] = static_cast<int32_t>(row);
    std::vector<cuda::TableCopy> copies(2);
    copies[0].host = keys.data();
    copies[1].host = numbers.data();
    copies[1].column = 1;
    copies[0].bytes = copies[1].bytes = kRows * sizeof(int32_t);
    GpuLane::open(device).send(0, table, copies);
    return table;
}

cuda::OwnedTableJoin product_join() {
    cuda::OwnedTableJoin join;
    join.build_keys = {{0, cuda::KeyPartKind::kSigned, 4}};
    join.probe_keys = join.build_keys;
    join.output = {{cuda::TableSide::kBuild, 1, 0}, {cuda::TableSide::kProbe, 0, 1}};
    return join;
}

struct PiecesTest {
    explicit PiecesTest(uint64_t memory_bytes) : gpu(memory_bytes), table(one_key(gpu.device)) {
        const auto type = std::make_shared<const ColumnType>(type_of(Layout::kFixed, 4));
        spec.deliver.columns = {{type, 0}, {type, 1}};
        spec.deliver.staging_bytes = kPinnedBytes;
        spec.deliver.workers = 2;
        sink.size = {.rows = 1000};
    }

    DeliveredPieces run(uint64_t rows_max) {
        cuda::TableReport report;
        GpuPieces pieces = GpuPieces::begin(gpu.device, table, table, product_join(), report);
        EXPECT_EQ(pieces.rows(), kRows * kRows);
        spec.rows_max = rows_max;
        const DeviceTurn turn = [&](const std::function<void()>& operation) {
            ++turns;
            operation();
        };
        const auto pinned = kept_pinned(gpu.device, relation.budget, kPinnedBytes);
        return deliver_pieces(pieces, spec, *pinned, turn, sink, relation.control);
    }

    // Every pair once.
    void expect_product() const {
        uint64_t rows = 0;
        uint64_t numbers[2] = {};
        for (const OutputBatch& batch : sink.batches) {
            rows += static_cast<uint64_t>(batch.rows);
            for (int64_t row = 0; row < batch.rows; ++row) {
                for (const size_t column : {0, 1}) {
                    int32_t number = 0;
                    std::memcpy(&number, batch.columns[column].data.data() + row * 4, 4);
                    numbers[column] += static_cast<uint64_t>(number);
                }
            }
        }
        EXPECT_EQ(rows, kRows * kRows);
        for (const uint64_t sum : numbers) EXPECT_EQ(sum, kRows * kRows * (kRows - 1) / 2);
    }

    PiecesGpu gpu;
    TestRelation relation{31};
    GpuTable table;
    BatchCollector sink;
    PiecesSpec spec;
    uint64_t turns = 0;
};

}  // namespace

TEST(executor_pieces_are_as_large_as_asked_for) {
    PiecesTest test(1 << 24);
    const DeliveredPieces done = test.run(25'000);
    EXPECT_EQ(done.rows, kRows * kRows);
    EXPECT_EQ(done.pieces, 4u);
    EXPECT_EQ(test.turns, 5u);  // the last one finds nothing
    test.expect_product();
}

TEST(executor_pieces_become_smaller_where_memory_does_not_suffice) {
    PiecesTest test(200'000);
    const DeliveredPieces done = test.run(uint64_t{1} << 40);
    EXPECT_EQ(done.rows, kRows * kRows);
    EXPECT(done.pieces >= 4);
    EXPECT_EQ(done.pieces + 3, test.turns);  // 90,000 and 45,000 rows were too many
    test.expect_product();
    EXPECT_EQ(test.gpu.device.memory().used_bytes, test.table.bytes());
}

TEST(executor_pieces_that_cannot_be_small_enough) {
    PiecesTest test(20'000);
    EXPECT_ERROR(kBudgetTooSmall, test.run(uint64_t{1} << 40));
    EXPECT_EQ(test.gpu.device.memory().used_bytes, test.table.bytes());
}

TEST(executor_pieces_stop_when_the_job_does) {
    PiecesTest test(1 << 24);
    test.relation.control.cancelled = true;
    EXPECT_ERROR(kAborted, test.run(1000));
    EXPECT_EQ(test.turns, 0u);
}

TEST(executor_pieces_of_algorithms_that_have_none) {
    PiecesTest test(1 << 24);
    cuda::OwnedTableJoin join = product_join();
    join.algorithm = cuda::JoinAlgorithm::kNoPartitioning;
    cuda::TableReport report;
    EXPECT_ERROR(kUnsupportedType, GpuPieces::begin(test.gpu.device, test.table, test.table, join, report));
}

}  // namespace spillway::test
