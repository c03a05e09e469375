// SPDX-License-Identifier: Apache-2.0
// group_partitions() against the oracle: key and value types, NULLs, workers, memory situations.
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

constexpr Make kAll[] = {Make::kInt64,   Make::kInt32,  Make::kInt8,      Make::kUint64, Make::kUint16,
                         Make::kDouble,  Make::kFloat,  Make::kBool,      Make::kText,   Make::kView,
                         Make::kDecimal, Make::kBytes5, Make::kDictionary};

}  // namespace

TEST(group_by_every_value_type) {
    for (double nulls : {0.0, 0.2, 1.0}) {
        for (Make value : kAll) run_partitioned(make_trial({Make::kInt64}, {value}, 3000, 100, nulls, 11));
        run_partitioned(make_trial({Make::kInt64}, {Make::kList}, 3000, 100, nulls, 12));
        run_partitioned(make_trial({Make::kInt64}, {Make::kNull}, 3000, 100, nulls, 13));
    }
}

TEST(group_by_every_key_type) {
    for (double nulls : {0.0, 0.1}) {
        for (Make key : kAll) {
            Trial trial = make_trial({key}, {Make::kInt32}, 3000, 200, nulls, 21);
            add_aggregates(trial, 0, key);  // aggregates of the key column itself
            run_partitioned(trial);
        }
        run_partitioned(make_trial({Make::kInt32, Make::kInt8}, {Make::kInt64}, 3000, 20, nulls, 22));
        run_partitioned(make_trial({Make::kText, Make::kInt64, Make::kView}, {Make::kText}, 3000, 6, nulls, 23));
        run_partitioned(make_trial({Make::kDictionary, Make::kDecimal}, {Make::kDouble}, 3000, 20, nulls, 24));
        run_partitioned(make_trial({Make::kFloat, Make::kBool, Make::kDouble}, {Make::kBool}, 3000, 8, nulls, 25));
    }
}

TEST(group_by_workers_and_spill) {
    for (int32_t workers = 1; workers <= 4; ++workers) {
        for (bool spill : {false, true}) {
            Trial trial =
                make_trial({Make::kInt64}, {Make::kInt64, Make::kText}, fewer_if_sanitized(20000), 5000, 0.1, 31);
            trial.workers = workers;
            trial.force_spill = spill;
            run_partitioned(trial);
            trial.count_only = true;
            run_partitioned(trial);
        }
    }
}

TEST(group_by_tables_smaller_than_groups) {
    for (uint64_t table_bytes : {64 << 10, 128 << 10, 512 << 10}) {
        for (bool spill : {false, true}) {
            Trial trial = make_trial({Make::kInt64}, {Make::kInt64}, fewer_if_sanitized(20000), 8000, 0.1, 41);
            trial.table_bytes = table_bytes;
            trial.force_spill = spill;
            trial.bits = 1;
            run_partitioned(trial);
            trial.hash_mask = 0;
            trial.rows = 4000;
            trial.columns[0] = input_column(trial.columns[0].type,
                                            {trial.columns[0].cells.begin(), trial.columns[0].cells.begin() + 4000});
            trial.columns[1] = input_column(trial.columns[1].type,
                                            {trial.columns[1].cells.begin(), trial.columns[1].cells.begin() + 4000});
            run_partitioned(trial);
        }
        Trial text = make_trial({Make::kText}, {Make::kText}, fewer_if_sanitized(20000), 8000, 0.1, 42);
        text.table_bytes = table_bytes;
        text.bits = 0;
        run_partitioned(text);
    }
}

TEST(group_by_distinct_values_larger_than_table) {
    for (int32_t workers : {1, 3}) {
        Trial trial = make_trial({Make::kInt8}, {}, fewer_if_sanitized(200000), 3, 0, 51);
        Random random(52);
        trial.columns.push_back(random_column(Make::kInt64, trial.rows, 100000, 0.1, random));
        trial.columns.push_back(random_column(Make::kText, trial.rows, 5000, 0.1, random));
        trial.aggregates.push_back({AggregateKind::kCountDistinct, 1});
        trial.aggregates.push_back({AggregateKind::kCountDistinct, 2});
        trial.aggregates.push_back({AggregateKind::kSum, 1});
        trial.table_bytes = 1 << 20;
        trial.workers = workers;
        run_partitioned(trial);
        trial.keys.clear();
        trial.bits = 0;
        run_partitioned(trial);
    }
}

TEST(group_by_shared_partitions) {
    for (uint64_t distinct : {1, 50, 60000}) {
        for (uint64_t table_bytes : {512 << 10, 64 << 20}) {
            Trial trial = make_trial({Make::kInt64}, {Make::kInt64, Make::kDouble}, fewer_if_sanitized(150000),
                                     distinct, 0.01, 61);
            trial.bits = 0;
            trial.workers = 3;
            trial.table_bytes = table_bytes;
            trial.force_spill = distinct == 50;
            run_partitioned(trial);
        }
    }
    Trial text = make_trial({Make::kText}, {Make::kText, Make::kView}, fewer_if_sanitized(150000), 3000, 0.01, 62);
    text.bits = 0;
    text.workers = 4;
    run_partitioned(text);
}

TEST(group_by_without_keys_or_rows) {
    for (size_t rows : {0, 1, 5000}) {
        for (int32_t workers : {1, 2}) {
            Trial none = make_trial({}, {Make::kInt64, Make::kText, Make::kDouble, Make::kDecimal}, rows, 10, 0.2, 71);
            none.workers = workers;
            run_partitioned(none);
            none.count_only = true;
            run_partitioned(none);
            run_partitioned(make_trial({Make::kInt64}, {Make::kInt64}, rows, 10, 0.2, 72));
        }
    }
}

}  // namespace spillway::test::grouping
