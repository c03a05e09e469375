// SPDX-License-Identifier: Apache-2.0
// Keys and values that are different and have the same hash, and hashes at the ends of the ranges that workers take.
#include "base/hash.hpp"
#include "support/colliding_keys.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

// More than one worker aggregates alone.
constexpr size_t kSharedRows = 70'000;

Cell colliding(uint64_t i, uint64_t distinct) {
    const uint64_t pick = mix64(i) % distinct;
    return colliding_key(pick / 2, pick % 2 != 0);
}

InputColumn colliding_column(const std::shared_ptr<ColumnType>& type, size_t rows, uint64_t distinct) {
    std::vector<Cell> cells;
    for (size_t i = 0; i < rows; ++i) cells.push_back(colliding(i, distinct));
    return input_column(type, std::move(cells));
}

}  // namespace

TEST(group_by_keys_of_the_same_hash_stay_apart) {
    for (const int32_t workers : {1, 3}) {
        for (const uint64_t distinct : {2, 600}) {
            Trial trial;
            trial.rows = kSharedRows;
            trial.workers = workers;
            trial.bits = 0;
            trial.keys = {0};
            const auto key = plain_type(Layout::kFixed, Order::kBytes, 16, "key");
            trial.columns.push_back(colliding_column(key, trial.rows, distinct));
            Random random(5);
            trial.columns.push_back(random_column(Make::kInt32, trial.rows, 100, 0, random));
            trial.aggregates = {
                {AggregateKind::kCountRows, -1}, {AggregateKind::kSum, 1}, {AggregateKind::kCountDistinct, 1}};
            run_partitioned(trial);
        }
    }
}

TEST(group_by_distinct_values_of_the_same_hash_are_counted_apart) {
    for (const int32_t workers : {1, 3}) {
        for (const auto& type : {plain_type(Layout::kFixed, Order::kBytes, 16, "fixed"), type_of(Make::kText)}) {
            // All of the memory, and so little that the values are partitioned.
            for (const uint64_t table_bytes : {8 << 20, 1 << 20}) {
                Trial trial;
                trial.rows = kSharedRows;
                trial.workers = workers;
                trial.bits = 0;
                trial.table_bytes = table_bytes;
                trial.keys = {0};
                Random random(6);
                trial.columns.push_back(random_column(Make::kInt8, trial.rows, 3, 0, random));
                trial.columns.push_back(colliding_column(type, trial.rows, 20'000));
                trial.aggregates = {{AggregateKind::kCountDistinct, 1}, {AggregateKind::kMin, 1}};
                run_partitioned(trial);
            }
        }
    }
}

// The first ranges of the values' hashes fit the memory and are counted, and then one does not that cannot be cut any
// more: what was counted is forgotten, and all values are partitioned.
TEST(group_by_distinct_values_of_crowded_hashes_are_counted_once) {
    for (const int32_t workers : {1, 3}) {
        Trial trial;
        trial.rows = 80'000;
        trial.workers = workers;
        trial.bits = 0;
        trial.table_bytes = uint64_t{1} << 20;
        trial.keys = {0};
        std::vector<Cell> values;
        for (uint64_t i = 0; i < trial.rows; ++i) {
            const uint64_t hash = i % 5 == 0 ? mix64(i) : mix64(i) | 0xf800000000000000ULL;
            values.push_back(raw(unmix64(hash)));
        }
        trial.columns.push_back(input_column(type_of(Make::kInt8), std::vector<Cell>(trial.rows, raw(int8_t{1}))));
        trial.columns.push_back(input_column(type_of(Make::kUint64), values));
        trial.aggregates = {{AggregateKind::kCountDistinct, 1}};
        run_partitioned(trial);
    }
}

// Where a partition has too many groups, each worker takes a range of their hashes; and of the hashes of distinct
// values. The first and the last of all hashes belong to somebody.
TEST(group_by_takes_the_first_and_the_last_hash) {
    for (const int32_t workers : {1, 3}) {
        for (const uint64_t table_bytes : {256 << 10, 8 << 20}) {
            Trial trial;
            trial.rows = kSharedRows;
            trial.workers = workers;
            trial.bits = 0;
            trial.table_bytes = table_bytes;
            trial.keys = {0};
            std::vector<Cell> keys;
            std::vector<Cell> values;
            for (uint64_t i = 0; i < trial.rows; ++i) {
                // Keys and numbers are hashed by mix64().
                const uint64_t hash = i < 6 ? ~0ULL - i / 2 : i < 12 ? i / 2 - 3 : mix64(i);
                keys.push_back(raw(unmix64(hash)));
                values.push_back(raw(unmix64(i % 2 == 0 ? hash : mix64(i % 5))));
            }
            const auto word = type_of(Make::kUint64);
            word->nullable = false;
            trial.null_keys = NullKeys::kDrop;  // there are none, and so the key is no more than the word
            trial.columns.push_back(input_column(word, keys));
            trial.columns.push_back(input_column(type_of(Make::kUint64), values));
            trial.aggregates = {{AggregateKind::kCountRows, -1}, {AggregateKind::kMax, 1}};
            run_partitioned(trial);
            trial.columns[0] = input_column(word, std::vector<Cell>(trial.rows, raw(uint64_t{1})));
            trial.aggregates = {{AggregateKind::kCountDistinct, 1}};
            trial.table_bytes = std::max<uint64_t>(table_bytes, 1 << 20);
            run_partitioned(trial);
        }
    }
}

}  // namespace spillway::test::grouping
