// SPDX-License-Identifier: Apache-2.0
// The memory of group-by tables: what is counted when it is full, when it is given back, and what sets keep apart.
#include "cpu/group_by/distinct_set.hpp"
#include "cpu/group_by/group_aggregator.hpp"
#include "cpu/group_by/group_plan.hpp"
#include "cpu/group_by/group_table.hpp"
#include "cpu/group_by/group_writer.hpp"
#include "cpu/group_by/table_memory.hpp"
#include "support/group_by_inputs.hpp"

namespace spillway::test::grouping {

namespace {

template <class Body>
bool is_full(Body body) {
    try {
        body();
    } catch (const TableFull&) {
        return true;
    }
    return false;
}

// A table of 8-byte keys with a count.
struct Table {
    explicit Table(uint64_t limit, uint64_t charge_per_record)
        : layout(RowLayout::make({type}, {KeySpec{}}, {0}, NullKeys::kEqual)),
          plan(GroupPlan::make(layout, spec(), budget, true)),
          memory(budget, limit),
          table(*plan, memory, charge_per_record) {}

    static GroupBySpec spec() {
        GroupBySpec spec;
        spec.key_fields = {0};
        spec.aggregates.push_back({AggregateKind::kCountRows, -1, type_of(Make::kInt64)});
        return spec;
    }
    void add(uint64_t first, int32_t count) {
        std::vector<uint64_t> words;
        for (int32_t i = 0; i < count; ++i) words.push_back(first + static_cast<uint64_t>(i));
        const InputColumn column = [&] {
            std::vector<Cell> cells;
            for (const uint64_t word : words) cells.push_back(raw(word));
            return input_column(type_of(Make::kUint64), cells);
        }();
        RowEncoder encoder(layout, {0}, budget);
        BlockCutter cutter(layout.row_bytes, layout.null_offset, 0);
        cutter.cut(encoder.encode({column.view()}, 0, count, 0), [&](RowBlock& block) { table.find_or_insert(block); });
    }

    const TypePtr type = [] {
        auto type = type_of(Make::kUint64);
        type->nullable = false;
        return type;
    }();
    RowLayout layout;
    MemoryBudget budget{64 << 20};
    std::unique_ptr<const GroupPlan> plan;
    TableMemory memory;
    GroupTable table;
};

}  // namespace

TEST(group_by_table_memory_is_full_behind_the_last_byte) {
    MemoryBudget budget(1 << 20);
    TableMemory memory(budget, 1000);
    memory.charge(400);
    memory.charge(600);
    EXPECT_EQ(memory.used(), 1000u);
    EXPECT(is_full([&] { memory.charge(1); }));
    EXPECT_EQ(memory.wanted(), 1001u);
    EXPECT_EQ(memory.used(), 1000u);
    memory.give_back(1000);
    // The budget has less than the share: nothing of it stays counted.
    TableMemory large(budget, 8 << 20);
    EXPECT(is_full([&] { TableBlock(large, 4 << 20); }));
    EXPECT_EQ(large.used(), 0u);
    EXPECT_EQ(large.wanted(), uint64_t{4} << 20);
}

TEST(group_by_table_gives_back_what_merging_would_need) {
    Table groups(1 << 20, 24);
    groups.add(0, 500);
    EXPECT(groups.memory.used() >= 500 * (24 + groups.plan->record_bytes));
    groups.table.release();
    EXPECT_EQ(groups.memory.used(), 0u);
    // Some of these sizes end in a chunk for which there is no room any more, while there is room for its merge.
    for (uint64_t limit = 40 << 10; limit < 80 << 10; limit += 1 << 10) {
        Table full(limit, 24);
        EXPECT(is_full([&] {
            for (uint64_t first = 0;; first += 100) full.add(first, 100);
        }));
        full.table.release();
        EXPECT_EQ(full.memory.used(), 0u);
    }
}

// Hashes of pairs are of the record's address and the value: by chance those of two pairs are the same.
TEST(group_by_distinct_set_compares_more_than_hashes) {
    const auto text = type_of(Make::kText);
    AggregatePlan aggregate;
    aggregate.state = StateKind::kCountDistinct;
    aggregate.value_type = text.get();
    MemoryBudget budget(1 << 20);
    TableMemory memory(budget, 1 << 20);
    DistinctSet set(aggregate, memory, DistinctSet::Counting::kAlone);
    alignas(8) uint8_t records[2][8] = {};
    // What gives the second record's pairs the hash that the first's have.
    const uint64_t difference = (reinterpret_cast<uintptr_t>(records[0]) * 0x9e3779b97f4a7c15ULL) ^
                                (reinterpret_cast<uintptr_t>(records[1]) * 0x9e3779b97f4a7c15ULL);
    const auto add = [&](size_t record, const char* value, uint64_t length) {
        return set.add_bytes(records[record], reinterpret_cast<const uint8_t*>(value), length,
                             record == 0 ? 77 : 77 ^ difference);
    };
    EXPECT(add(0, "abc", 3));
    EXPECT(!add(0, "abc", 3));
    EXPECT(add(1, "abc", 3));
    EXPECT(add(0, "abd", 3));
    EXPECT(add(0, "ab", 2));
    EXPECT(add(0, "abcd", 4));
    EXPECT(add(0, "", 0));
    EXPECT(!add(1, "abc", 3));
    EXPECT_EQ(set.pairs(), 6u);
    set.clear();
    EXPECT_EQ(as<uint64_t>(std::string(reinterpret_cast<const char*>(records[0]), 8)), 5u);
    EXPECT_EQ(as<uint64_t>(std::string(reinterpret_cast<const char*>(records[1]), 8)), 1u);
}

namespace {

class BytesSink final : public BatchSink {
  public:
    explicit BytesSink(uint64_t bytes) : bytes_(bytes) {}
    bool wants_columns() const override { return true; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&& batch) override {
        rows += batch.rows;
        uint64_t bytes = 0;
        for (const OutputColumn& column : batch.columns) bytes += column.data.size();
        batches.push_back({batch.rows, bytes});
    }
    BatchSize batch_size() const override { return {.rows = 1000, .bytes = bytes_}; }
    struct Seen {
        int64_t rows;
        uint64_t text_bytes;
    };
    std::vector<Seen> batches;
    int64_t rows = 0;

  private:
    const uint64_t bytes_;
};

}  // namespace

// Batches are as full of byte strings as they may be; a group that exceeds a batch alone is one.
TEST(group_by_batches_keep_to_their_bytes) {
    constexpr uint64_t kBytes = 4000;
    constexpr int kGroups = 600;
    Trial trial;
    trial.rows = kGroups;
    trial.workers = 1;
    trial.bits = 8;  // two or three groups in each: a batch has those of many partitions
    trial.keys = {0};
    std::vector<Cell> keys;
    std::vector<Cell> values;
    for (int i = 0; i < kGroups; ++i) {
        keys.push_back(std::to_string(1000 + i) + std::string(36, 'k'));
        values.push_back(std::string(i % 100 == 50 ? 3 * kBytes : 20, 'v'));
    }
    trial.columns.push_back(input_column(type_of(Make::kText), keys));
    trial.columns.push_back(input_column(type_of(Make::kText), values));
    trial.aggregates = {{AggregateKind::kMax, 1}};
    MemoryBudget budget(64 << 20);
    JobControl control;
    const PartitionSpec spec = partition_spec(trial);
    PartitionedRows rows(
        spec, RowLayout::make({trial.columns[0].type, trial.columns[1].type}, spec.keys, spec.carry, spec.null_keys),
        budget, std::make_shared<SpillSpace>("/tmp"), control);
    RadixPartitioner partitioner(rows);
    RowEncoder encoder(rows.layout(), {0, 1}, budget);
    for (int64_t at = 0; at < kGroups; at += 100) {
        partitioner.append(0, encoder.encode({trial.columns[0].view(), trial.columns[1].view()}, at, 100, at));
    }
    partitioner.finish();
    BytesSink sink(kBytes);
    EXPECT_EQ(group_partitions(rows, group_spec(trial), sink, control), static_cast<uint64_t>(kGroups));
    EXPECT_EQ(sink.rows, static_cast<int64_t>(kGroups));
    size_t large = 0;
    size_t small = 0;
    for (const BytesSink::Seen& batch : sink.batches) {
        EXPECT(batch.text_bytes <= kBytes || batch.rows == 1);
        large += batch.text_bytes > kBytes;
        small += batch.text_bytes < kBytes / 2;
    }
    EXPECT_EQ(large, 6u);
    // The batch before one that is too large, and the last of all.
    EXPECT(small <= 7);
}

// Their columns are looked at whenever some rows have been added.
TEST(group_by_batches_of_numbers_keep_to_their_bytes) {
    MemoryBudget budget(64 << 20);
    Table numbers(1 << 20, 0);
    numbers.add(0, 1000);
    BytesSink few(1000);
    GroupWriter writer(*numbers.plan, few, budget, 0);
    for (int i = 0; i < 3; ++i) {
        numbers.table.for_each_chunk([&](const uint8_t* record, uint64_t count) {
            for (uint64_t at = 0; at < count; at += 100) {
                writer.append_chunk(record + at * numbers.plan->record_bytes, std::min<uint64_t>(count - at, 100));
            }
        });
    }
    writer.flush();
    EXPECT_EQ(few.rows, 3000);
    for (const BytesSink::Seen& batch : few.batches) EXPECT(batch.rows <= 300);
}

}  // namespace spillway::test::grouping
