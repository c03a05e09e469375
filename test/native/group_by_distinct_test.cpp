// SPDX-License-Identifier: Apache-2.0
// Count distinct of more (group, value) pairs than the tables hold: they are partitioned and spilled.
#include <cerrno>

#include "base/hash.hpp"
#include "executor/cpu/distinct_pairs.hpp"
#include "support/failing_calls.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

constexpr Make kValues[] = {Make::kInt64,   Make::kInt32,  Make::kDouble,     Make::kFloat,
                            Make::kText,    Make::kView,   Make::kDate,       Make::kList,
                            Make::kDecimal, Make::kBytes5, Make::kDictionary, Make::kUint16};

// `groups` groups, or one without a key.
Trial distinct_trial(std::vector<Make> values, size_t rows, uint64_t groups, uint64_t distinct, uint64_t seed) {
    Random random(seed);
    Trial trial;
    trial.rows = rows;
    trial.bits = 0;
    trial.columns.push_back(random_column(Make::kInt64, rows, groups, 0, random));
    if (groups > 0) trial.keys = {0};
    trial.aggregates.push_back({AggregateKind::kMax, 0});
    for (Make value : values) {
        const auto column = static_cast<int32_t>(trial.columns.size());
        trial.columns.push_back(random_column(value, rows, distinct, 0.1, random));
        trial.aggregates.push_back({AggregateKind::kCountDistinct, column});
    }
    return trial;
}

}  // namespace

TEST(group_by_distinct_pairs_of_every_type) {
    for (Make value : kValues) {
        for (int32_t workers : {1, 2}) {
            Trial trial = distinct_trial({value}, fewer_if_sanitized(70000), 1, 30000, 81);
            trial.table_bytes = 128 << 10;
            trial.workers = workers;
            trial.keys.clear();
            run_partitioned(trial);
            trial.keys = {0};
            trial.columns[0] = distinct_trial({}, trial.rows, 20, 1, 82).columns[0];
            run_partitioned(trial);
        }
    }
}

TEST(group_by_distinct_pairs_of_several_columns) {
    for (int32_t workers : {1, 2, 3, 5}) {
        for (uint64_t groups : {1, 300}) {
            Trial trial = distinct_trial({Make::kText, Make::kInt64, Make::kDouble}, fewer_if_sanitized(120000), groups,
                                         100000, 83);
            trial.table_bytes = 512 << 10;
            trial.workers = workers;
            run_partitioned(trial);
            trial.force_spill = true;
            run_partitioned(trial);
        }
    }
}

// Passes over the rows and the pairs: a bounded number, however small the tables.
TEST(group_by_distinct_work_is_linear) {
    for (int32_t workers : {1, 3}) {
        for (Make value : {Make::kInt64, Make::kText}) {
            for (uint64_t groups : {1, 50}) {
                // With fewer rows too few pairs are spilled for their work to show.
                Trial trial = distinct_trial({value}, kSanitized ? 100000 : 300000, groups, 1 << 30, 84);
                trial.force_spill = true;
                trial.table_bytes = 384 << 10;
                trial.workers = workers;
                const Traffic traffic = run_partitioned(trial);
                EXPECT(traffic.spilled_bytes > 0);
                EXPECT(traffic.unspilled_bytes < traffic.spilled_bytes * 4);
            }
        }
    }
}

// Pairs of one partition that do not fit either are partitioned again, and at last read in ranges.
TEST(group_by_distinct_pairs_in_levels) {
    for (uint64_t table_bytes : {48 << 10, 160 << 10, 224 << 10}) {
        for (Make value : {Make::kInt64, Make::kText}) {
            Trial trial = distinct_trial({value}, fewer_if_sanitized(300000), 3, 1 << 30, 85);
            trial.table_bytes = table_bytes;
            trial.workers = 1;
            run_partitioned(trial);
        }
    }
}

// Values whose hashes begin alike are all in one partition, whose runs have more rows than a block.
TEST(group_by_distinct_pairs_of_one_partition) {
    Trial trial = distinct_trial({}, fewer_if_sanitized(200000), 1, 1, 91);
    trial.keys.clear();
    std::vector<Cell> cells;
    for (uint64_t i = 0; i < trial.rows; ++i) {
        const uint64_t value = unmix64(mix64(i) >> 11);
        cells.push_back(std::string(reinterpret_cast<const char*>(&value), sizeof value));
    }
    trial.columns.push_back(input_column(type_of(Make::kInt64), cells));
    trial.aggregates.push_back({AggregateKind::kCountDistinct, 1});
    trial.workers = 1;
    trial.table_bytes = 3 << 19;
    run_partitioned(trial);
}

TEST(group_by_distinct_many_groups_with_one_value) {
    for (int32_t workers : {1, 3}) {
        for (Make value : {Make::kInt64, Make::kText}) {
            Trial trial = distinct_trial({value}, fewer_if_sanitized(60000), 20000, 1, 86);
            trial.workers = workers;
            for (uint64_t table_bytes : {256 << 10, 1 << 20, 2 << 20, 3 << 20}) {
                trial.table_bytes = table_bytes;
                run_partitioned(trial);
            }
        }
    }
}

// Values larger than a page of pairs, up to almost all of the memory.
TEST(group_by_distinct_long_values) {
    for (int32_t workers : {1, 3}) {
        Trial trial = distinct_trial({}, fewer_if_sanitized(70000), 1, 1, 87);
        std::vector<Cell> cells;
        for (size_t i = 0; i < trial.rows; ++i) {
            const size_t length = i % 10000 == 0 ? 150000 : i % 50 == 0 ? 9000 : 20;
            cells.push_back(i % 3 == 0 ? Cell() : std::to_string(i % 30000) + std::string(length, 'v'));
        }
        trial.columns.push_back(input_column(type_of(Make::kText), cells));
        trial.aggregates.push_back({AggregateKind::kCountDistinct, 1});
        trial.workers = workers;
        for (uint64_t table_bytes : {256 << 10, 1 << 20}) {
            trial.table_bytes = table_bytes;
            run_partitioned(trial);
        }
    }
}

// Nothing can be written: ranges of the values, with a pass over the rows for each.
TEST(group_by_distinct_without_spill_folder) {
    for (int32_t workers : {1, 3}) {
        Trial trial = distinct_trial({Make::kInt64, Make::kText}, fewer_if_sanitized(70000), 2, 20000, 88);
        trial.workers = workers;
        trial.table_bytes = 256 << 10;
        trial.spill_folder = "";
        run_partitioned(trial);
    }
}

// The same holds where the disk is full.
TEST(group_by_distinct_on_a_full_disk) {
    for (int32_t workers : {1, 3}) {
        Trial trial = distinct_trial({Make::kInt64}, 70000, 2, 20000, 90);
        trial.workers = workers;
        trial.table_bytes = 256 << 10;
        const WithFailingCalls full({.pwritev = ENOSPC, .pwritev_times = 1 << 30});
        run_partitioned(trial);
    }
}

// Values that come again soon are written once.
TEST(group_by_distinct_writes_few_pairs_that_come_again) {
    Trial trial = distinct_trial({Make::kInt64}, 200000, 1, 1 << 30, 89);
    trial.workers = 1;
    trial.table_bytes = 256 << 10;
    trial.force_spill = true;
    const Traffic unique = run_partitioned(trial);
    auto& cells = trial.columns[1].cells;
    for (size_t i = 0; i < cells.size(); ++i) cells[i] = cells[i / 20 * 20];
    trial.columns[1] = input_column(type_of(Make::kInt64), cells);
    const Traffic repeated = run_partitioned(trial);
    EXPECT(repeated.spilled_bytes < unique.spilled_bytes * 7 / 10);
}

}  // namespace spillway::test::grouping
