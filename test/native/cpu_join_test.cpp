// SPDX-License-Identifier: Apache-2.0
// Every join type x hashing scheme x key kind x memory situation against a nested-loop oracle.
#include <algorithm>
#include <atomic>
#include <map>
#include <memory>

#include "cpu/radix_partition/radix_partitioner.hpp"
#include "executor/cpu/join_memory.hpp"
#include "executor/cpu/joins.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

struct Side {
    std::vector<Column> columns;  // keys first, then payload
    std::vector<TypePtr> types() const {
        std::vector<TypePtr> types;
        for (const Column& column : columns) types.push_back(column.type);
        return types;
    }
    size_t rows() const { return columns[0].values.size(); }
};

struct Trial {
    std::vector<Kind> keys;
    std::vector<Kind> payload;
    size_t build_rows = 100;
    size_t probe_rows = 200;
    uint64_t distinct = 50;
    double null_share = 0;
    NullKeys nulls = NullKeys::kKeep;
    JoinEmit emit = JoinEmit::kPairs;
    bool anti = false;
    bool keep_build = false;
    bool keep_probe = false;
    HashingScheme scheme = HashingScheme::kLinearProbing;
    int32_t bits = 3;
    int32_t second_bits = 0;
    int32_t workers = 2;
    uint64_t page_bytes = 4096;
    uint64_t pool_bytes = 64 << 20;
    uint64_t run_bytes = 0;
    uint64_t table_bytes = 16 << 20;
    uint64_t chunk_bytes = 16 << 20;
    int64_t split_rows = 1 << 20;
    bool force_spill = false;
    uint64_t hash_mask = ~0ULL;
};

KeySpec key_spec(int32_t column, Kind kind) {
    KeySpec spec;
    spec.column = column;
    spec.width = static_cast<int32_t>(width_of(kind));
    if (kind == Kind::kText) spec.kind = KeyKind::kBytes;
    if (kind == Kind::kFloat64) spec.kind = KeyKind::kFloat;
    if (kind == Kind::kFixed16) spec.kind = KeyKind::kFixedBytes;
    return spec;
}

Side random_side(const Trial& trial, size_t rows, std::mt19937_64& random) {
    Side side;
    for (Kind kind : trial.keys)
        side.columns.push_back(random_column(kind, rows, trial.distinct, trial.null_share, random));
    for (Kind kind : trial.payload) side.columns.push_back(random_column(kind, rows, 1000, trial.null_share, random));
    return side;
}

std::unique_ptr<PartitionedRows> partition(const Side& side, const Trial& trial, MemoryBudget& budget,
                                           JobControl& control) {
    PartitionSpec spec;
    for (size_t k = 0; k < trial.keys.size(); ++k)
        spec.keys.push_back(key_spec(static_cast<int32_t>(k), trial.keys[k]));
    for (size_t c = 0; c < side.columns.size(); ++c) spec.carry.push_back(static_cast<int32_t>(c));
    spec.null_keys = trial.nulls;
    spec.radix_bits = trial.bits;
    spec.page_bytes = trial.page_bytes;
    spec.pool_bytes = trial.pool_bytes;
    spec.spill_run_bytes = trial.run_bytes;
    spec.spill_write_bytes = 16 << 10;
    spec.spill = true;
    spec.force_spill = trial.force_spill;
    spec.workers = trial.workers;
    spec.hash_mask = trial.hash_mask;
    auto layout = RowLayout::make(side.types(), spec.keys, spec.carry, spec.null_keys);
    auto rows = std::make_unique<PartitionedRows>(spec, layout, budget, std::make_shared<SpillSpace>("/tmp"), control);
    RadixPartitioner partitioner(*rows);
    std::vector<ColumnView> views;
    for (const Column& column : side.columns) views.push_back(column.view());
    RowEncoder encoder(rows->layout(), spec.carry, budget);
    const auto count = static_cast<int64_t>(side.rows());
    for (int64_t begin = 0; begin < count; begin += 77) {
        const int worker = static_cast<int>(begin / 77) % trial.workers;
        partitioner.append(worker, encoder.encode(views, begin, std::min<int64_t>(77, count - begin), 0));
    }
    partitioner.finish();
    return rows;
}

std::vector<Value> row_of(const Side& side, size_t row) {
    std::vector<Value> values;
    for (const Column& column : side.columns) values.push_back(column.values[row]);
    return values;
}

// A number for each key, the same for equal ones; -1 for keys that match none. (Comparing the values themselves for all
// pairs takes most of a sanitized run.)
std::vector<int64_t> key_numbers(const Trial& trial, const Side& side, std::map<std::vector<Value>, int64_t>& known) {
    std::vector<int64_t> numbers;
    for (size_t row = 0; row < side.rows(); ++row) {
        std::vector<Value> key;
        for (size_t k = 0; k < trial.keys.size(); ++k) key.push_back(side.columns[k].values[row]);
        const bool null = std::find(key.begin(), key.end(), Value()) != key.end();
        const auto next = static_cast<int64_t>(known.size());
        const bool lone = null && trial.nulls != NullKeys::kEqual;
        numbers.push_back(lone ? -1 : known.try_emplace(key, next).first->second);
    }
    return numbers;
}

Rows expected(const Trial& trial, const Side& build, const Side& probe) {
    Rows out;
    std::map<std::vector<Value>, int64_t> known;
    const std::vector<int64_t> build_keys = key_numbers(trial, build, known);
    const std::vector<int64_t> probe_keys = key_numbers(trial, probe, known);
    std::vector<bool> build_hit(build.rows());
    std::vector<bool> probe_hit(probe.rows());
    const std::vector<Value> no_build(build.columns.size());
    const std::vector<Value> no_probe(probe.columns.size());
    const auto add = [&](std::vector<Value> left, const std::vector<Value>& right) {
        left.insert(left.end(), right.begin(), right.end());
        ++out[left];
    };
    for (size_t b = 0; b < build.rows(); ++b) {
        for (size_t p = 0; p < probe.rows(); ++p) {
            if (build_keys[b] < 0 || build_keys[b] != probe_keys[p]) continue;
            build_hit[b] = probe_hit[p] = true;
            if (trial.emit == JoinEmit::kPairs) add(row_of(build, b), row_of(probe, p));
        }
    }
    const bool pairs = trial.emit == JoinEmit::kPairs;
    for (size_t b = 0; b < build.rows(); ++b) {
        const bool wanted = pairs ? trial.keep_build && !build_hit[b]
                                  : trial.emit == JoinEmit::kBuildOnce && build_hit[b] != trial.anti;
        if (wanted) add(row_of(build, b), no_probe);
    }
    for (size_t p = 0; p < probe.rows(); ++p) {
        const bool wanted = pairs ? trial.keep_probe && !probe_hit[p]
                                  : trial.emit == JoinEmit::kProbeOnce && probe_hit[p] != trial.anti;
        if (wanted) add(no_build, row_of(probe, p));
    }
    return out;
}

JoinSpec join_spec(const Trial& trial, size_t build_columns, size_t probe_columns) {
    JoinSpec spec;
    spec.emit = trial.emit;
    spec.anti = trial.anti;
    spec.keep_unmatched_build = trial.keep_build;
    spec.keep_unmatched_probe = trial.keep_probe;
    spec.scheme = trial.scheme;
    for (size_t c = 0; c < build_columns; ++c)
        spec.outputs.push_back({OutputSide::kBuild, static_cast<int32_t>(c), -1});
    for (size_t c = 0; c < probe_columns; ++c)
        spec.outputs.push_back({OutputSide::kProbe, -1, static_cast<int32_t>(c)});
    for (int32_t p = 0; p < (1 << trial.bits); ++p) spec.schedule.push_back(p);
    spec.second_radix_bits = trial.second_bits;
    spec.table_bytes = trial.table_bytes;
    spec.build_chunk_bytes = trial.chunk_bytes;
    spec.perfect_range_max = 1 << 20;
    spec.probe_split_rows = trial.split_rows;
    spec.workers = trial.workers;
    spec.hash_mask = trial.hash_mask;
    return spec;
}

void check(const Trial& trial, uint64_t seed) {
    std::mt19937_64 random(seed);
    const Side build = random_side(trial, trial.build_rows, random);
    const Side probe = random_side(trial, trial.probe_rows, random);
    MemoryBudget budget(512 << 20);
    JobControl control;
    const Rows want = expected(trial, build, probe);
    uint64_t want_count = 0;
    for (const auto& [row, count] : want) want_count += static_cast<uint64_t>(count);
    for (bool columns : {true, false}) {
        auto build_rows = partition(build, trial, budget, control);
        auto probe_rows = partition(probe, trial, budget, control);
        CollectSink sink(columns ? 100 : 1, columns);
        const JoinSpec spec = join_spec(trial, build.columns.size(), probe.columns.size());
        const uint64_t rows = join_partitions(*build_rows, *probe_rows, spec, sink, control);
        const std::string where = "seed " + std::to_string(seed) + " ";
        if (rows != want_count || sink.row_count != want_count || (columns && sink.rows != want)) {
            fail(where + "rows " + std::to_string(rows) + ", expected " + std::to_string(want_count), __FILE__,
                 __LINE__);
        }
        build_rows.reset();
        probe_rows.reset();
    }
    EXPECT_EQ(budget.used(), uint64_t{0});
}

const std::vector<std::vector<Kind>> kKeySets = {
    {Kind::kInt64}, {Kind::kInt32},   {Kind::kInt32, Kind::kInt32}, {Kind::kInt64, Kind::kInt8},
    {Kind::kText},  {Kind::kFixed16}, {Kind::kText, Kind::kInt32},  {Kind::kBool, Kind::kText, Kind::kFloat64},
};
const std::vector<std::vector<Kind>> kPayloads = {
    {},
    {Kind::kInt64},
    {Kind::kInt8, Kind::kInt32, Kind::kText},
    {Kind::kBool, Kind::kFixed16, Kind::kFloat64, Kind::kInt64, Kind::kInt64, Kind::kInt64, Kind::kInt64},
};

Trial random_trial(std::mt19937_64& random) {
    Trial trial;
    trial.keys = kKeySets[random() % kKeySets.size()];
    trial.payload = kPayloads[random() % kPayloads.size()];
    const size_t sizes[] = {0, 1, 7, 100, 500};
    trial.build_rows = sizes[random() % 5];
    trial.probe_rows = sizes[random() % 5];
    const uint64_t distinct[] = {1, 3, 40, 400};
    trial.distinct = distinct[random() % 4];
    trial.null_share = random() % 2 == 0 ? 0 : 0.2;
    trial.nulls = random() % 4 == 0 ? NullKeys::kEqual : NullKeys::kKeep;
    const int type = static_cast<int>(random() % 8);
    trial.emit = type < 4 ? JoinEmit::kPairs : type < 6 ? JoinEmit::kBuildOnce : JoinEmit::kProbeOnce;
    trial.anti = type % 2 == 1;
    trial.keep_build = type == 1 || type == 3;
    trial.keep_probe = type == 2 || type == 3;
    trial.scheme = static_cast<HashingScheme>(random() % 3);
    trial.bits = static_cast<int32_t>(random() % 5);
    if (random() % 3 == 0) trial.second_bits = 1 + static_cast<int32_t>(random() % 4);
    trial.workers = 1 + static_cast<int32_t>(random() % 3);
    trial.force_spill = random() % 3 == 0;
    trial.page_bytes = uint64_t{1024} << (random() % 3);
    trial.run_bytes = random() % 3 * 6000;
    if (random() % 3 == 0) {
        const uint64_t open = ((uint64_t{1} << trial.bits) + 1) * static_cast<uint64_t>(trial.workers);
        trial.pool_bytes = (open + random() % 50) * trial.page_bytes;
    }
    if (random() % 3 == 0) trial.chunk_bytes = 2000;
    if (random() % 3 == 0) trial.split_rows = 10;
    if (random() % 4 == 0) trial.hash_mask = 0;
    return trial;
}

}  // namespace

TEST(join_random_trials_agree_with_nested_loops) {
    for (uint64_t seed = 1; seed <= fewer_if_sanitized(400); ++seed) {
        std::mt19937_64 random(seed * 7919);
        check(random_trial(random), seed);
    }
}

TEST(join_one_hot_key_on_both_sides) {
    Trial trial;
    trial.keys = {Kind::kInt64};
    trial.payload = {Kind::kInt32};
    trial.distinct = 1;
    trial.build_rows = fewer_if_sanitized(300);
    trial.probe_rows = fewer_if_sanitized(700);
    trial.chunk_bytes = 3000;
    trial.keep_build = trial.keep_probe = true;
    check(trial, 5);
}

// All rows of a sub-partition by the second pass have one key: its table would be four times as large as planned.
TEST(join_second_pass_of_a_frequent_key_stays_within_the_memory_of_tables) {
    Trial trial;
    trial.keys = {Kind::kInt64};
    trial.distinct = 1;
    trial.build_rows = 20000;
    trial.probe_rows = 10;
    trial.bits = 0;
    trial.second_bits = 3;
    trial.workers = 1;
    trial.table_bytes = trial.chunk_bytes = 500 << 10;
    std::mt19937_64 random(6);
    const Side build = random_side(trial, trial.build_rows, random);
    const Side probe = random_side(trial, trial.probe_rows, random);
    MemoryBudget budget(64 << 20);
    JobControl control;
    const auto build_rows = partition(build, trial, budget, control);
    const auto probe_rows = partition(probe, trial, budget, control);
    const JoinSpec spec = join_spec(trial, 1, 1);
    EXPECT(JoinMemory(*build_rows, *probe_rows, spec, TableUse::kCount).takes_second_pass(0));
    CollectSink sink(1, false);
    const uint64_t used = budget.used();
    budget.reset_peak();
    EXPECT_EQ(join_partitions(*build_rows, *probe_rows, spec, sink, control), uint64_t{200000});
    EXPECT(budget.peak() <= used + trial.table_bytes + trial.table_bytes / 8);  // blocks are rounded to size classes
}

}  // namespace spillway::test
