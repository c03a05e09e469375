// SPDX-License-Identifier: Apache-2.0
// Overflow, wide and narrow numbers, groups that cannot fit.
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

TEST(group_by_sum_overflow) {
    const auto type = plain_type(Layout::kFixed, Order::kSigned, 8, "amount");
    const auto big = raw(std::numeric_limits<int64_t>::max());
    Trial trial;
    trial.rows = 4;
    trial.keys = {0};
    trial.columns.push_back(input_column(type, std::vector<Cell>(4, raw(int64_t{1}))));
    // The running sum leaves the range of int64, the final one does not.
    trial.columns.push_back(
        input_column(type, {big, big, raw(-std::numeric_limits<int64_t>::max()), raw(int64_t{-5})}));
    trial.aggregates = {{AggregateKind::kSum, 1}};
    run_partitioned(trial);
    trial.columns[1] = input_column(type, {big, big, Cell(), raw(int64_t{-5})});
    try {
        run_partitioned(trial);
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kIntegerOverflow);
        EXPECT(error.message().find("'amount'") != std::string::npos);
        EXPECT(error.message().find("float64") != std::string::npos);
    }
    trial.aggregates = {{AggregateKind::kMean, 1}};
    run_partitioned(trial);
    const auto decimal = plain_type(Layout::kFixed, Order::kDecimal, 16, "price");
    __int128 nines = 1;
    for (int i = 0; i < 38; ++i) nines *= 10;
    trial.columns[1] = input_column(decimal, {raw(nines - 1), raw(static_cast<__int128>(1)), raw(-nines + 1), Cell()});
    trial.aggregates = {{AggregateKind::kSum, 1}};
    run_partitioned(trial);
    trial.columns[1] = input_column(decimal, {raw(nines - 1), raw(static_cast<__int128>(1)), Cell(), Cell()});
    EXPECT_ERROR(kIntegerOverflow, run_partitioned(trial));
}

// A whole sum that its type still holds is a result; one more is an error that names it.
TEST(group_by_sums_reach_the_ends_of_their_type) {
    const auto sum = [](const std::shared_ptr<ColumnType>& type, const std::vector<Cell>& values) {
        Trial trial;
        trial.rows = values.size();
        trial.keys = {0};
        trial.columns.push_back(input_column(type_of(Make::kInt64), std::vector<Cell>(values.size(), raw(int64_t{1}))));
        trial.columns.push_back(input_column(type, values));
        trial.aggregates = {{AggregateKind::kSum, 1}};
        run_partitioned(trial);
    };
    const auto beyond = [&](const std::shared_ptr<ColumnType>& type, const std::vector<Cell>& values,
                            const char* what) {
        try {
            sum(type, values);
            EXPECT(false);
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kIntegerOverflow);
            EXPECT(contains(error.message(), what));
        }
    };
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    constexpr uint64_t kUnsignedMax = std::numeric_limits<uint64_t>::max();
    const auto i64 = type_of(Make::kInt64);
    const auto u64 = type_of(Make::kUint64);
    for (const std::vector<Cell>& values : {std::vector<Cell>{raw(kMax)}, {raw(kMax - 1), raw(int64_t{1})}}) {
        sum(i64, values);
    }
    for (const std::vector<Cell>& values : {std::vector<Cell>{raw(kMin)}, {raw(kMin + 1), raw(int64_t{-1})}}) {
        sum(i64, values);
    }
    beyond(i64, {raw(kMax), raw(int64_t{1})}, "is 9223372036854775808 for one group, which does not fit int64");
    beyond(i64, {raw(kMin), raw(int64_t{-1})}, "is -9223372036854775809 for one group, which does not fit int64");
    sum(u64, {raw(uint64_t{0})});
    sum(u64, {raw(kUnsignedMax - 1), raw(uint64_t{1})});
    beyond(u64, {raw(kUnsignedMax), raw(uint64_t{1})},
           "is 18446744073709551616 for one group, which does not fit uint64");
}

TEST(group_by_decimal256_and_half_float) {
    const auto wide = [](int64_t low, uint64_t second) {
        const uint64_t fill = low < 0 && second == 0 ? ~0ULL : 0;
        return raw(low) + raw(second != 0 ? second : fill) + raw(fill) + raw(fill);
    };
    const auto half = [](uint16_t bits) { return raw(bits); };
    Trial trial;
    trial.rows = 4;
    trial.columns.push_back(input_column(plain_type(Layout::kFixed, Order::kDecimal, 32, "d256"),
                                         {wide(-7, 0), wide(5, 3), Cell(), wide(4, 0)}));
    trial.columns.push_back(input_column(plain_type(Layout::kFixed, Order::kFloat, 2, "f16"),
                                         {half(0x3c00), half(0xc000), half(0x7e01), Cell()}));  // 1, -2, NaN
    PartitionSpec spec = partition_spec(trial);
    spec.radix_bits = 0;
    MemoryBudget budget(64 << 20);
    JobControl control;
    PartitionedRows rows(
        spec, RowLayout::make({trial.columns[0].type, trial.columns[1].type}, {}, spec.carry, spec.null_keys), budget,
        std::make_shared<SpillSpace>("/tmp"), control);
    RadixPartitioner partitioner(rows);
    RowEncoder encoder(rows.layout(), {0, 1}, budget);
    partitioner.append(0, encoder.encode({trial.columns[0].view(), trial.columns[1].view()}, 0, 4, 0));
    partitioner.finish();
    trial.bits = 0;
    trial.aggregates = {{AggregateKind::kSum, 0},          {AggregateKind::kMin, 0}, {AggregateKind::kMax, 0},
                        {AggregateKind::kMean, 0},         {AggregateKind::kMin, 1}, {AggregateKind::kMax, 1},
                        {AggregateKind::kCountDistinct, 0}};
    GroupBySpec groups = group_spec(trial);
    groups.aggregates[3].decimal_scale = 2;
    GroupSink sink(0, 100, true);
    EXPECT_EQ(group_partitions(rows, groups, sink, control), 1u);
    const std::vector<Cell>& cells = sink.groups.at({});
    EXPECT(cells[0] == wide(2, 3));
    EXPECT(cells[1] == wide(-7, 0));
    EXPECT(cells[2] == wide(5, 3));
    EXPECT(close(as<double>(*cells[3]), (3 * 0x1p64 + 2) / 3 / 100));
    EXPECT(cells[4] == half(0xc000));
    EXPECT(cells[5] == half(0x7e00));  // NaN is the greatest
    EXPECT(cells[6] == raw(int64_t{3}));
}

// The same number is another value in another dictionary.
TEST(group_by_orders_each_dictionary_by_itself) {
    const std::vector<Cell> up = {Cell("a"), Cell("b"), Cell("c")};
    const std::vector<Cell> down = {Cell("c"), Cell("b"), Cell("a")};
    Trial trial;
    trial.rows = 3;
    trial.columns.push_back(input_column(dictionary_type(type_of(Make::kText), up, "up"), {up[1], up[0], up[2]}));
    trial.columns.push_back(input_column(dictionary_type(type_of(Make::kText), down, "down"), {up[2], up[1], up[1]}));
    trial.aggregates = {
        {AggregateKind::kMin, 0}, {AggregateKind::kMax, 0}, {AggregateKind::kMin, 1}, {AggregateKind::kMax, 1}};
    trial.bits = 0;
    run_partitioned(trial);
}

TEST(group_by_group_larger_than_all_memory) {
    Trial trial;
    trial.rows = 50;
    trial.keys = {0};
    trial.columns.push_back(input_column(type_of(Make::kInt64), std::vector<Cell>(50, raw(int64_t{1}))));
    std::vector<Cell> cells;
    for (int i = 0; i < 50; ++i) cells.push_back(std::string(100000 + i * 1000, 'a' + i % 26));
    trial.columns.push_back(input_column(type_of(Make::kText), cells));
    trial.aggregates = {{AggregateKind::kMax, 1}};
    trial.page_bytes = 4096;
    trial.table_bytes = 128 << 10;
    EXPECT_ERROR(kBudgetTooSmall, run_partitioned(trial));
    trial.table_bytes = 1 << 20;  // more than a worker's share of four, but not more than all
    trial.workers = 4;
    run_partitioned(trial);
}

// States of wide columns add up: 1.5 GiB, and of eight 2^32 bytes, which 32 bits would take for none.
TEST(group_by_records_beyond_one_gibibyte_are_refused) {
    const TypePtr type = plain_type(Layout::kFixed, Order::kBytes, 1 << 29, "wide");
    const RowLayout layout = RowLayout::make({type}, {}, {0}, NullKeys::kEqual);
    MemoryBudget budget(64 << 20);
    for (const size_t count : {3, 7, 8, 9, 16}) {
        GroupBySpec spec;
        AggregateSpec any;
        any.kind = AggregateKind::kAny;
        any.field = 0;
        spec.aggregates.assign(count, any);
        EXPECT_ERROR(kUnsupportedType, GroupPlan::make(layout, spec, budget, true));
    }
    // What one group is made from is counted, too.
    GroupBySpec one;
    one.aggregates.resize(1);
    one.aggregates[0].kind = AggregateKind::kAny;
    one.aggregates[0].field = 0;
    EXPECT_ERROR(kBudgetTooSmall, GroupPlan::make(layout, one, budget, true));
}

}  // namespace spillway::test::grouping
