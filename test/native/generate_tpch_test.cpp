// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "executor/sinks/count_sink.hpp"
#include "generate/tpch_generator.hpp"
#include "support/output_columns.hpp"
#include "support/test.hpp"

using namespace spillway;
using namespace spillway::test::batches;

namespace {

struct Table {
    MemoryBudget budget{uint64_t{256} << 20};
    JobControl control;
    BatchCollector sink;
    int64_t rows;

    Table(TpchTable table, double scale, int32_t workers = 1, int64_t batch_rows = 1000, uint64_t seed = 3) {
        const TpchSpec spec{table, scale, seed, batch_rows, workers};
        rows = generate_tpch(spec, budget, control, sink);
        int64_t pushed = 0;
        for (const auto& batch : sink.batches) {
            pushed += batch.rows;
            EXPECT_EQ(batch.columns.size(), generated_columns(spec).size());
        }
        EXPECT_EQ(pushed, rows);
    }
    // The decimals of these tables fit 64 bits; the upper half must be their sign.
    std::vector<int64_t> decimals(size_t column) const {
        std::vector<int64_t> all;
        for (const auto& batch : sink.batches) {
            for (int64_t row = 0; row < batch.rows; ++row) {
                all.push_back(value_at<int64_t>(batch.columns[column], 2 * row));
                EXPECT_EQ(value_at<int64_t>(batch.columns[column], 2 * row + 1), all.back() >> 63);
            }
        }
        return all;
    }
};

}  // namespace

TEST(tpch_every_line_has_its_order) {
    const Table orders(TpchTable::kOrders, 0.004, 2);
    const Table lineitem(TpchTable::kLineitem, 0.004, 3);
    EXPECT_EQ(orders.rows, int64_t{6000});
    EXPECT(lineitem.rows > 23000 && lineitem.rows < 25000);

    const auto keys = orders.sink.values<int64_t>(0);
    std::set<int64_t> known(keys.begin(), keys.end());
    EXPECT_EQ(known.size(), keys.size());
    EXPECT_EQ(*known.begin(), int64_t{1});
    for (size_t i = 0; i < keys.size(); ++i) EXPECT(keys[i] % 32 < 8);
    EXPECT_EQ(keys.back(), int64_t{6000 / 8 * 32 + 6000 % 8});

    std::map<int64_t, int64_t> totals;
    std::map<int64_t, std::set<std::string>> statuses;
    std::map<int64_t, int32_t> last_line;
    const auto line_keys = lineitem.sink.values<int64_t>(0);
    const auto numbers = lineitem.sink.values<int32_t>(3);
    const auto prices = lineitem.decimals(5);
    const auto discounts = lineitem.decimals(6);
    const auto taxes = lineitem.decimals(7);
    const auto line_statuses = lineitem.sink.texts(9);
    EXPECT(std::is_sorted(line_keys.begin(), line_keys.end()));
    for (size_t i = 0; i < line_keys.size(); ++i) {
        EXPECT_EQ(known.count(line_keys[i]), size_t{1});
        EXPECT_EQ(numbers[i], ++last_line[line_keys[i]]);
        EXPECT(numbers[i] <= 7);
        EXPECT(discounts[i] >= 0 && discounts[i] <= 10 && taxes[i] >= 0 && taxes[i] <= 8);
        totals[line_keys[i]] += prices[i] * (100 - discounts[i]) / 100 * (100 + taxes[i]) / 100;
        statuses[line_keys[i]].insert(line_statuses[i]);
    }
    EXPECT_EQ(totals.size(), keys.size());
    const auto order_totals = orders.decimals(3);
    const auto order_statuses = orders.sink.texts(2);
    for (size_t i = 0; i < keys.size(); ++i) {
        EXPECT_EQ(order_totals[i], totals[keys[i]]);
        const auto& seen = statuses[keys[i]];
        EXPECT_EQ(order_statuses[i], seen.size() == 2 ? std::string("P") : *seen.begin());
    }
}

TEST(tpch_columns_stay_in_their_ranges) {
    const Table orders(TpchTable::kOrders, 0.002);
    const Table lineitem(TpchTable::kLineitem, 0.002);
    for (const int64_t customer : orders.sink.values<int64_t>(1)) {
        EXPECT(customer >= 1 && customer <= 300 && customer % 3 != 0);
    }
    for (const int32_t date : orders.sink.values<int32_t>(4)) EXPECT(date >= 8035 && date <= 10440);
    for (const auto& clerk : orders.sink.texts(6)) EXPECT(clerk == "Clerk#000000001" || clerk == "Clerk#000000002");
    for (const auto& comment : orders.sink.texts(8)) EXPECT(comment.size() >= 19 && comment.size() <= 78);
    EXPECT_EQ(std::set<std::string>{orders.sink.texts(5)[0]}.size(), size_t{1});

    const auto parts = lineitem.sink.values<int64_t>(1);
    const auto quantities = lineitem.decimals(4);
    const auto prices = lineitem.decimals(5);
    const auto flags = lineitem.sink.texts(8);
    const auto ship = lineitem.sink.values<int32_t>(10);
    const auto receipt = lineitem.sink.values<int32_t>(12);
    for (size_t i = 0; i < parts.size(); ++i) {
        EXPECT(parts[i] >= 1 && parts[i] <= 400);
        EXPECT(quantities[i] >= 100 && quantities[i] <= 5000 && quantities[i] % 100 == 0);
        EXPECT_EQ(prices[i], quantities[i] / 100 * (90000 + parts[i] / 10 % 20001 + 100 * (parts[i] % 1000)));
        EXPECT(receipt[i] > ship[i] && receipt[i] <= ship[i] + 30);
        EXPECT_EQ(flags[i] == "N", receipt[i] > 9298);
    }
    for (const int64_t supplier : lineitem.sink.values<int64_t>(2)) EXPECT(supplier >= 1 && supplier <= 20);
    for (const auto& comment : lineitem.sink.texts(15)) EXPECT(comment.size() >= 10 && comment.size() <= 43);
}

TEST(tpch_is_the_same_for_any_workers_and_batches) {
    const Table one(TpchTable::kLineitem, 0.001);
    const Table other(TpchTable::kLineitem, 0.001, 4, 333);
    EXPECT(one.sink.values<int64_t>(1) == other.sink.values<int64_t>(1));
    EXPECT(one.sink.texts(15) == other.sink.texts(15));
    const Table orders(TpchTable::kOrders, 0.001);
    const Table again(TpchTable::kOrders, 0.001, 3, 100);
    EXPECT(orders.decimals(3) == again.decimals(3));
    EXPECT(orders.sink.texts(8) == again.sink.texts(8));
    EXPECT(orders.decimals(3) != Table(TpchTable::kOrders, 0.001, 1, 1000, 4).decimals(3));
}

TEST(tpch_counts_and_refuses) {
    JobControl control;
    CountSink sink(control);
    MemoryBudget budget(0);
    const int64_t rows = generate_tpch({TpchTable::kLineitem, 0.01, 1, 1 << 16, 2}, budget, control, sink);
    EXPECT_EQ(sink.total(), static_cast<uint64_t>(rows));
    EXPECT_EQ(Table(TpchTable::kOrders, 1e-9).rows, int64_t{1});
    EXPECT_ERROR(kInvalidArgument, check_spec(TpchSpec{TpchTable::kOrders, 0, 1, 1000, 1}));
    EXPECT_ERROR(kInvalidArgument, check_spec(TpchSpec{TpchTable::kOrders, 1, 1, 0, 1}));
}
