// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "cpu/radix_partition/radix_partitioner.hpp"
#include "executor/cpu/group_by.hpp"
#include "support/group_by_oracle.hpp"

// Runs one group-by, partitioned or hash, and compares every group and aggregate with the oracle.
namespace spillway::test::grouping {

struct Trial {
    std::vector<InputColumn> columns;
    std::vector<int32_t> keys;
    std::vector<Wanted> aggregates;
    size_t rows = 0;
    int32_t bits = 3;
    int32_t workers = 2;
    uint64_t page_bytes = 4096;
    uint64_t table_bytes = 8 << 20;
    uint64_t budget_bytes = 256 << 20;
    bool force_spill = false;
    uint64_t hash_mask = ~0ULL;
    NullKeys null_keys = NullKeys::kEqual;
    int64_t batch_rows = 1000;
    int64_t morsel_rows = 500;
    bool count_only = false;
    std::string spill_folder = "/tmp";
};

// What a run read and wrote.
struct Traffic {
    uint64_t spilled_bytes;
    uint64_t unspilled_bytes;
};

class GroupSink final : public BatchSink {
  public:
    GroupSink(size_t keys, int64_t batch_rows, bool columns)
        : keys_(keys), batch_rows_(batch_rows), columns_(columns) {}
    bool wants_columns() const override { return columns_; }
    void add_rows(int, uint64_t count) override {
        std::lock_guard<std::mutex> lock(mutex_);
        rows += count;
    }
    void push(int, OutputBatch&& batch) override {
        std::lock_guard<std::mutex> lock(mutex_);
        EXPECT(batch.rows > 0 && batch.rows <= batch_rows_);
        rows += static_cast<uint64_t>(batch.rows);
        for (int64_t row = 0; row < batch.rows; ++row) {
            Key key;
            std::vector<Cell> cells;
            for (size_t c = 0; c < batch.columns.size(); ++c) {
                EXPECT_EQ(batch.columns[c].length, batch.rows);
                (c < keys_ ? key : cells).push_back(output_cell(batch.columns[c], row));
            }
            EXPECT(groups.emplace(std::move(key), std::move(cells)).second);
        }
    }
    BatchSize batch_size() const override { return {.rows = batch_rows_}; }
    std::map<Key, std::vector<Cell>> groups;
    uint64_t rows = 0;

  private:
    std::mutex mutex_;
    const size_t keys_;
    const int64_t batch_rows_;
    const bool columns_;
};

inline KeySpec key_spec(int32_t column, const ColumnType& type) {
    KeySpec spec;
    spec.column = column;
    spec.width = type.layout == Layout::kBool ? 1 : type.byte_width;
    if (type.is_bytes()) spec.kind = KeyKind::kBytes;
    if (type.layout == Layout::kDictionary) spec.kind = KeyKind::kDictionaryIndex, spec.width = 4;
    if (type.layout == Layout::kFixed && type.order == Order::kFloat) spec.kind = KeyKind::kFloat;
    if (type.layout == Layout::kFixed && (type.order == Order::kBytes || type.byte_width > 8)) {
        spec.kind = KeyKind::kFixedBytes;
    }
    return spec;
}

inline TypePtr result_type(AggregateKind kind, const ColumnType& input) {
    const ColumnType& type = value_type(input);
    switch (kind) {
        case AggregateKind::kMean:
            return plain_type(Layout::kFixed, Order::kFloat, 8, "mean");
        case AggregateKind::kSum:
            if (type.layout == Layout::kBool) return plain_type(Layout::kFixed, Order::kSigned, 8, "sum");
            return plain_type(Layout::kFixed, type.order, type.byte_width > 8 ? type.byte_width : 8, "sum");
        case AggregateKind::kMin:
        case AggregateKind::kMax:
        case AggregateKind::kFirst:
        case AggregateKind::kAny:
            return std::make_shared<ColumnType>(input);
        default:
            return plain_type(Layout::kFixed, Order::kSigned, 8, "count");
    }
}

inline PartitionSpec partition_spec(const Trial& trial) {
    PartitionSpec spec;
    for (int32_t k : trial.keys) spec.keys.push_back(key_spec(k, *trial.columns[static_cast<size_t>(k)].type));
    for (size_t c = 0; c < trial.columns.size(); ++c) spec.carry.push_back(static_cast<int32_t>(c));
    spec.carry.push_back(kRowNumberColumn);
    spec.null_keys = trial.null_keys;
    spec.radix_bits = trial.bits;
    spec.page_bytes = trial.page_bytes;
    spec.pool_bytes = 64 << 20;
    spec.spill = true;
    spec.force_spill = trial.force_spill;
    spec.morsel_rows = trial.morsel_rows;
    spec.workers = trial.workers;
    spec.hash_mask = trial.hash_mask;
    return spec;
}

inline GroupBySpec group_spec(const Trial& trial) {
    GroupBySpec spec;
    spec.key_fields = trial.keys;
    for (const Wanted& wanted : trial.aggregates) {
        AggregateSpec aggregate;
        aggregate.kind = wanted.kind;
        aggregate.field = wanted.column;
        static const ColumnType kNone;
        aggregate.result_type = result_type(
            wanted.kind, wanted.column < 0 ? kNone : *trial.columns[static_cast<size_t>(wanted.column)].type);
        spec.aggregates.push_back(std::move(aggregate));
    }
    spec.row_number_field = static_cast<int32_t>(trial.columns.size());
    for (int32_t p = 0; p < (1 << trial.bits); ++p) spec.schedule.push_back(p);
    spec.table_bytes = trial.table_bytes;
    spec.workers = trial.workers;
    spec.hash_mask = trial.hash_mask;
    return spec;
}

inline void check_groups(const Trial& trial, const GroupSink& sink, uint64_t groups) {
    Groups expected = oracle_groups(trial.columns, trial.keys, trial.rows);
    EXPECT_EQ(groups, expected.size());
    EXPECT_EQ(sink.rows, expected.size());
    if (trial.count_only) return;
    for (const auto& [key, cells] : sink.groups) {
        auto found = expected.find(key);
        EXPECT(found != expected.end());
        EXPECT_EQ(cells.size(), trial.aggregates.size());
        for (size_t a = 0; a < cells.size(); ++a) {
            const Wanted& wanted = trial.aggregates[a];
            const InputColumn* column =
                wanted.column < 0 ? nullptr : &trial.columns[static_cast<size_t>(wanted.column)];
            check_cell(wanted, column, found->second, cells[a]);
        }
    }
}

inline Traffic run_partitioned(const Trial& trial) {
    MemoryBudget budget(trial.budget_bytes);
    JobControl control;
    std::vector<TypePtr> types;
    std::vector<ColumnView> views;
    std::vector<int32_t> numbers;
    for (const InputColumn& column : trial.columns) {
        numbers.push_back(static_cast<int32_t>(types.size()));
        types.push_back(column.type);
        views.push_back(column.view());
    }
    {
        const PartitionSpec spec = partition_spec(trial);
        PartitionedRows rows(spec, RowLayout::make(types, spec.keys, spec.carry, spec.null_keys), budget,
                             std::make_shared<SpillSpace>(trial.spill_folder), control);
        RadixPartitioner partitioner(rows);
        RowEncoder encoder(rows.layout(), numbers, budget);
        const auto total = static_cast<int64_t>(trial.rows);
        // Steps in turn for two workers, if there are two, the later half first: row numbers come in no order.
        const int partitioning = std::min(2, trial.workers);
        int step = 0;
        for (int half : {1, 0}) {
            for (int64_t at = half == 1 ? total / 2 : 0, end = half == 1 ? total : total / 2; at < end;) {
                const int64_t count = std::min<int64_t>({700, encoder.rows_max(), end - at});
                partitioner.append(step++ % partitioning, encoder.encode(views, at, count, at));
                at += count;
            }
        }
        partitioner.finish();
        GroupSink sink(trial.keys.size(), trial.batch_rows, !trial.count_only);
        const uint64_t groups = group_partitions(rows, group_spec(trial), sink, control);
        check_groups(trial, sink, groups);
        EXPECT_EQ(control.rows_in.load(), trial.rows);
    }
    EXPECT_EQ(budget.used(), 0u);
    return {control.spilled_bytes.load(), control.unspilled_bytes.load()};
}

}  // namespace spillway::test::grouping
