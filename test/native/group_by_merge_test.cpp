// SPDX-License-Identifier: Apache-2.0
// Groups that several workers met: their states are added. Who gets which rows is fixed here, while in a query it
// depends on which worker is faster.
#include <algorithm>
#include <cmath>

#include "cpu/group_by/group_plan.hpp"
#include "executor/cpu/partitioned_grouper.hpp"
#include "executor/cpu/shared_groups.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

struct Merged {
    std::vector<Cell> cells;  // of the only group, if there is but one
    uint64_t groups = 0;
};

// Worker i has the i-th last part of the rows, so that first rows are not the first worker's.
Merged merge(const Trial& trial) {
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
    PartitionSpec spec = partition_spec(trial);
    spec.radix_bits = 0;
    spec.workers = 1;
    const auto space = std::make_shared<SpillSpace>(trial.spill_folder);
    std::vector<std::unique_ptr<PartitionedRows>> parts;
    const auto total = static_cast<int64_t>(trial.rows);
    for (int64_t i = trial.workers; i-- > 0;) {
        parts.push_back(std::make_unique<PartitionedRows>(
            spec, RowLayout::make(types, spec.keys, spec.carry, spec.null_keys), budget, space, control));
        RadixPartitioner partitioner(*parts.back());
        RowEncoder encoder(parts.back()->layout(), numbers, budget);
        const int64_t begin = total * i / trial.workers;
        const int64_t end = total * (i + 1) / trial.workers;
        partitioner.append(0, encoder.encode(views, begin, end - begin, begin));
        partitioner.finish();
    }
    const GroupBySpec group = group_spec(trial);
    const auto plan = GroupPlan::make(parts[0]->layout(), group, budget, true);
    GroupSink sink(trial.keys.size(), trial.batch_rows, true);
    std::vector<std::unique_ptr<GroupWriter>> writers;
    for (int i = 0; i < trial.workers; ++i) writers.push_back(std::make_unique<GroupWriter>(*plan, sink, budget, i));
    SharedGroups groups(*plan, budget, control, trial.table_bytes, trial.workers, 0);
    EXPECT(groups.aggregate([&](int worker, GroupAggregator& aggregator) {
        PartitionedRows& rows = *parts[static_cast<size_t>(worker)];
        PageCursor cursor(rows, 0, 0, rows.page_count(0));
        for (RowSpan span; cursor.next(span);) {
            aggregator.cutter().cut(span, HashRange{}, [&](RowBlock& block) { aggregator.add_states(block); });
        }
    }));
    EXPECT(groups.merge());
    groups.write(writers);
    Merged merged;
    merged.groups = finish_writers(writers, control);
    if (sink.groups.size() == 1) merged.cells = sink.groups.begin()->second;
    if (total > 10) check_groups(trial, sink, merged.groups);
    return merged;
}

// A value of one column for each worker, all of one group.
Merged merge_values(const std::shared_ptr<ColumnType>& type, const std::vector<Cell>& values,
                    const std::vector<AggregateKind>& kinds) {
    Trial trial;
    trial.rows = values.size();
    trial.workers = static_cast<int32_t>(values.size());
    trial.keys = {0};
    trial.columns.push_back(input_column(type_of(Make::kInt64), std::vector<Cell>(values.size(), raw(int64_t{7}))));
    trial.columns.push_back(input_column(type, values));
    for (const AggregateKind kind : kinds) trial.aggregates.push_back({kind, 1});
    return merge(trial);
}

std::string wide(uint64_t low, uint64_t second, uint64_t high = 0) {
    return raw(low) + raw(second) + raw(high) + raw(high);
}

}  // namespace

TEST(group_by_merge_of_every_value_type) {
    constexpr Make kValues[] = {Make::kInt64,  Make::kInt8, Make::kUint64, Make::kUint16,    Make::kDouble,
                                Make::kFloat,  Make::kBool, Make::kText,   Make::kView,      Make::kDecimal,
                                Make::kBytes5, Make::kList, Make::kNull,   Make::kDictionary};
    for (const Make value : kValues) {
        // With 0.95 some workers have NULLs alone in a group, in both orders.
        for (const double nulls : {0.0, 0.3, 0.95}) {
            Trial trial = make_trial({Make::kInt32}, {value}, 900, 40, nulls, 81);
            trial.workers = 3;
            std::erase_if(trial.aggregates,
                          [](const Wanted& wanted) { return wanted.kind == AggregateKind::kCountDistinct; });
            merge(trial);
        }
    }
}

TEST(group_by_merge_of_wide_keys) {
    Trial trial = make_trial({Make::kText, Make::kInt32, Make::kDecimal}, {Make::kInt64}, 900, 3, 0.2, 82);
    trial.workers = 4;
    std::erase_if(trial.aggregates, [](const Wanted& wanted) { return wanted.kind == AggregateKind::kCountDistinct; });
    merge(trial);
}

TEST(group_by_merge_keeps_the_count_of_decimals) {
    const auto type = plain_type(Layout::kFixed, Order::kDecimal, 16, "price");
    std::vector<Cell> values;
    for (int i = 0; i < 4; ++i) values.push_back(raw(static_cast<__int128>(3)));
    const Merged merged = merge_values(type, values, {AggregateKind::kMean, AggregateKind::kSum});
    EXPECT_EQ(merged.groups, 1u);
    EXPECT_EQ(as<double>(*merged.cells[0]), 3.0);
    EXPECT(merged.cells[1] == raw(static_cast<__int128>(12)));
}

TEST(group_by_merge_of_decimals_carries_between_words) {
    const auto type = plain_type(Layout::kFixed, Order::kDecimal, 32, "d256");
    const std::vector<AggregateKind> sum = {AggregateKind::kSum, AggregateKind::kMean};
    Merged merged = merge_values(type, {wide(~0ULL, 5), wide(1, 1), wide(~0ULL, ~0ULL)}, sum);
    EXPECT(merged.cells[0] == wide(~0ULL, 6, 0).replace(16, 8, raw(uint64_t{1})));
    // -1, twice, and 5: the sign of the sum has a word of its own.
    merged = merge_values(type, {wide(~0ULL, ~0ULL, ~0ULL), wide(~0ULL, ~0ULL, ~0ULL), wide(5, 0)}, sum);
    EXPECT(merged.cells[0] == wide(3, 0));
    EXPECT_EQ(as<double>(*merged.cells[1]), 1.0);
    merged = merge_values(type, {wide(5, 0), wide(~0ULL - 8, ~0ULL, ~0ULL)}, sum);
    EXPECT(merged.cells[0] == wide(~0ULL - 3, ~0ULL, ~0ULL));
    EXPECT_EQ(as<double>(*merged.cells[1]), -2.0);
}

// What an addition rounds away is summed apart, by each worker and in the merge.
TEST(group_by_merge_keeps_what_rounding_lost) {
    const auto type = type_of(Make::kDouble);
    const std::vector<AggregateKind> kinds = {AggregateKind::kSum, AggregateKind::kMean};
    Merged merged = merge_values(type, {raw(1e100), raw(1.0), raw(-1e100)}, kinds);
    EXPECT_EQ(as<double>(*merged.cells[0]), 1.0);
    Trial trial;
    trial.rows = 6;
    trial.workers = 2;
    trial.keys = {0};
    trial.columns.push_back(input_column(type_of(Make::kInt64), std::vector<Cell>(6, raw(int64_t{7}))));
    trial.columns.push_back(input_column(type, {raw(1e100), raw(1.0), raw(2.0), raw(4.0), raw(-1e100), raw(8.0)}));
    trial.aggregates = {{AggregateKind::kSum, 1}, {AggregateKind::kMean, 1}};
    merged = merge(trial);
    EXPECT_EQ(as<double>(*merged.cells[0]), 15.0);
    EXPECT_EQ(as<double>(*merged.cells[1]), 2.5);
    for (const double infinity : {HUGE_VAL, -HUGE_VAL}) {
        merged = merge_values(type, {raw(1.0), raw(infinity), raw(-2.0)}, kinds);
        EXPECT_EQ(as<double>(*merged.cells[0]), infinity);
    }
    merged = merge_values(type, {raw(HUGE_VAL), raw(1.0), raw(-HUGE_VAL)}, kinds);
    EXPECT(std::isnan(as<double>(*merged.cells[0])));
}

}  // namespace spillway::test::grouping
