// SPDX-License-Identifier: Apache-2.0
// What JoinMemory says that a co-partition takes: every part of it, to the byte. A part that is forgotten is memory
// beyond the budget.
#include <algorithm>
#include <memory>

#include "cpu/radix_partition/radix_partitioner.hpp"
#include "executor/cpu/join_memory.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr uint64_t kPageBytes = 1024;

struct Relation {
    // All rows in one partition. Spilled: one run for every page.
    Relation(size_t rows, bool spilled, bool text = false) {
        PartitionSpec spec;
        spec.keys.resize(1);
        spec.carry = {0, 1};
        spec.page_bytes = kPageBytes;
        spec.pool_bytes = 8 * kMiB;
        spec.spill_run_bytes = kPageBytes;
        spec.spill_write_bytes = 4 * kPageBytes;
        spec.spill = true;
        spec.force_spill = spilled;
        spec.pack_spilled = false;
        std::vector<Value> values[2];
        for (size_t i = 0; i < rows; ++i) {
            const auto key = static_cast<int64_t>(i);
            values[0].push_back(bytes_of(&key, 8));
            values[1].push_back(text ? Value("text") : values[0].back());
        }
        const Column columns[] = {make_column(Kind::kInt64, false, values[0]),
                                  make_column(text ? Kind::kText : Kind::kInt64, false, values[1])};
        set = std::make_unique<PartitionedRows>(
            spec, RowLayout::make({columns[0].type, columns[1].type}, spec.keys, spec.carry, NullKeys::kDrop), budget,
            std::make_shared<SpillSpace>("/tmp"), control);
        RadixPartitioner partitioner(*set);
        RowEncoder encoder(set->layout(), spec.carry, budget);
        for (int64_t at = 0, end = static_cast<int64_t>(rows); at < end; at += 100) {
            const int64_t count = std::min<int64_t>(100, end - at);
            partitioner.append(0, encoder.encode({columns[0].view(), columns[1].view()}, at, count, 0));
        }
        partitioner.finish();
    }

    MemoryBudget budget{64 * kMiB};
    JobControl control;
    std::unique_ptr<PartitionedRows> set;
};

// Numbers of rows, which have gaps of at most half of them.
uint64_t numbers_of(uint64_t rows) {
    return rows + rows / 2;
}

struct MemoryCase {
    MemoryCase(size_t build_rows, size_t probe_rows, bool spilled, bool probe_text = false)
        : build(build_rows, spilled), probe(probe_rows, spilled, probe_text) {
        spec.schedule = {0};
        spec.workers = 1;
        spec.table_bytes = spec.build_chunk_bytes = 64 * kMiB;
        spec.probe_split_rows = 1 << 20;
    }
    JoinMemory memory(TableUse use = TableUse::kFindAndCount) const {
        return JoinMemory(*build.set, *probe.set, spec, use);
    }
    uint64_t rows() const { return build.set->partition(0).rows; }
    uint64_t table_bytes(uint64_t rows, uint64_t numbers, TableUse use = TableUse::kFindAndCount,
                         TableRoom room = {}) const {
        return JoinTable::bytes_for(spec.scheme, use, build.set->layout(), rows, numbers, room);
    }

    Relation build;
    Relation probe;
    JoinSpec spec;
};

}  // namespace

TEST(join_memory_of_a_table_has_rows_table_and_marks) {
    for (const bool spilled : {false, true}) {
        MemoryCase join(1000, 100, spilled);
        const uint64_t load = join.build.set->load_bytes(0);
        EXPECT_EQ(load > 0, spilled);
        const uint64_t numbers = numbers_of(1000);
        EXPECT_EQ(join.memory().table(0), load + join.table_bytes(1000, numbers));
        const TableRoom tight{false, true};
        EXPECT_EQ(join.memory().table(0, tight),
                  load + join.table_bytes(1000, numbers, TableUse::kFindAndCount, tight));
        join.spec.keep_unmatched_build = true;
        EXPECT_EQ(join.memory().table(0), load + join.table_bytes(1000, numbers) + block_capacity(numbers));
        join.spec.keep_unmatched_build = false;
        // A table that only counts is filled page by page where the processor has the kernels for it.
        const uint64_t cursor = join.build.set->cursor_bytes(0);
        const bool streams = join.memory(TableUse::kCount).streams_build_rows();
        EXPECT(cursor <= load && (cursor < load || !spilled));
        EXPECT_EQ(join.memory(TableUse::kCount).table(0),
                  (streams ? cursor : load) + join.table_bytes(1000, numbers, TableUse::kCount));
    }
}

TEST(join_memory_of_a_second_pass_has_both_sides_twice) {
    for (const bool spilled : {false, true}) {
        MemoryCase join(1000, 300, spilled);
        join.spec.second_radix_bits = 3;
        const uint64_t rows = 2 * (1000 / 8) + 1;  // of a sub-partition: twice the average
        const uint64_t row_bytes = join.build.set->layout().row_bytes;
        const uint64_t both = join.build.set->load_bytes(0) + join.probe.set->load_bytes(0) +
                              block_capacity(1000 * row_bytes) + block_capacity(300 * row_bytes);
        EXPECT_EQ(join.memory().second_pass(0), both + join.table_bytes(rows, rows));
        EXPECT(join.memory().fits_second_pass(0, rows));
        EXPECT(!join.memory().fits_second_pass(0, 2 * rows));
        join.spec.keep_unmatched_build = true;
        EXPECT_EQ(join.memory().second_pass(0), both + join.table_bytes(rows, rows) + block_capacity(rows));
    }
}

TEST(join_memory_flags_probe_rows_in_a_quarter_of_a_chunk) {
    MemoryCase join(10, 1000, true);
    const PartitionedRows& rows = *join.probe.set;
    const size_t pages = rows.page_count(0);
    EXPECT(pages > 10);
    EXPECT_EQ(join.memory().flags_end(0, 0), pages);
    uint64_t some = 0;
    for (size_t page = 2; page < 6; ++page) some += rows.page_rows(0, page);
    join.spec.build_chunk_bytes = 4 * block_capacity(some);
    const size_t end = join.memory().flags_end(0, 2);
    EXPECT(end >= 6u && end < pages);
    join.spec.build_chunk_bytes = 0;
    EXPECT_EQ(join.memory().flags_end(0, 2), 3u);  // at least a page, else it would never end
}

TEST(join_memory_takes_a_second_pass_that_fits_a_worker) {
    MemoryCase join(1000, 300, true);
    join.spec.workers = 2;
    EXPECT(!join.memory().takes_second_pass(0));
    join.spec.second_radix_bits = 3;
    join.spec.table_bytes = 2 * join.memory().second_pass(0);
    EXPECT(join.memory().takes_second_pass(0));
    join.spec.table_bytes -= 2;
    EXPECT(!join.memory().takes_second_pass(0));
    MemoryCase text(1000, 300, true, true);  // byte strings would have to be moved with their rows
    text.spec.second_radix_bits = 3;
    EXPECT(!text.memory().takes_second_pass(0));
}

TEST(join_memory_chunks_end_where_their_memory_does) {
    for (const bool spilled : {false, true}) {
        MemoryCase join(1000, 10, spilled);
        const PartitionedRows& rows = *join.build.set;
        const size_t pages = rows.page_count(0);
        EXPECT(pages > 10);
        join.spec.build_chunk_bytes = 1;
        EXPECT_EQ(join.memory().chunk_end(0, 0), 1u);  // at least a page, else it would never end
        EXPECT_EQ(join.memory().chunk_end(0, pages - 1), pages);
        uint64_t in_chunk = 0;
        uint64_t loaded = 0;
        uint64_t extent = 0;
        for (size_t page = 2; page < 6; ++page) {
            in_chunk += rows.page_rows(0, page);
            loaded += rows.page_load_bytes(0, page);
            extent = std::max(extent, rows.page_extent_bytes(0, page));
        }
        EXPECT_EQ(loaded > 0, spilled);
        EXPECT_EQ(extent > 0, spilled);
        const uint64_t chunk = rows.load_bytes(loaded, extent) + join.table_bytes(in_chunk, numbers_of(in_chunk));
        join.spec.build_chunk_bytes = chunk;
        EXPECT_EQ(join.memory().chunk_end(0, 2), 6u);
        EXPECT_EQ(join.memory().chunk_end(0, 2, 1), 5u);  // beside flags of probe rows
        join.spec.keep_unmatched_build = true;
        EXPECT_EQ(join.memory().chunk_end(0, 2), 5u);  // beside marks of build rows
        join.spec.keep_unmatched_build = false;
        join.spec.build_chunk_bytes -= 1;
        EXPECT_EQ(join.memory().chunk_end(0, 2), 5u);
        join.spec.build_chunk_bytes = 64 * kMiB;
        EXPECT_EQ(join.memory().chunk_end(0, 2), pages);
    }
}

// Row numbers have 32 bits, and with the gaps there are half more of them than rows.
TEST(join_memory_chunks_end_where_row_numbers_do) {
    MemoryCase join(10, 10, false);
    Partition& partition = join.build.set->mutable_partition(0);
    const auto add_page = [&](uint32_t rows) {
        Page page;  // its rows are counted and never looked at
        page.own = std::make_unique<OwnMemory>();
        page.rows = rows;
        partition.pages.push_back(std::move(page));
        partition.rows += rows;
    };
    const size_t first = join.build.set->page_count(0);
    add_page(1u << 30);
    add_page(1u << 30);
    join.spec.build_chunk_bytes = join.spec.table_bytes = uint64_t{1} << 60;
    EXPECT(!join.memory().needs_all_workers(0));
    EXPECT_EQ(join.memory().chunk_end(0, first), first + 2);
    add_page(1u << 30);
    EXPECT(join.memory().needs_all_workers(0));
    EXPECT_EQ(join.memory().chunk_end(0, first), first + 2);
    EXPECT_EQ(join.memory().chunk_end(0, first + 1), first + 3);
}

TEST(join_memory_shares_what_is_too_large_for_one_worker) {
    MemoryCase join(1000, 300, false);
    join.spec.workers = 2;
    const uint64_t table = join.memory().table(0);
    join.spec.table_bytes = join.spec.build_chunk_bytes = table;
    EXPECT(!join.memory().needs_all_workers(0));
    join.spec.table_bytes = table - 1;
    EXPECT(join.memory().needs_all_workers(0));
    join.spec.table_bytes = table;
    join.spec.build_chunk_bytes = table - 1;
    EXPECT(join.memory().needs_all_workers(0));
    join.spec.build_chunk_bytes = table;
    join.spec.probe_split_rows = 300;
    EXPECT(!join.memory().needs_all_workers(0));
    join.spec.probe_split_rows = 299;
    EXPECT(join.memory().needs_all_workers(0));
    join.spec.workers = 1;
    EXPECT(!join.memory().needs_all_workers(0));
}

TEST(join_memory_is_tight_when_workers_must_wait) {
    MemoryCase join(1000, 300, false);
    const uint64_t table = join.memory().table(0, {.equal_keys = false});
    join.spec.workers = 3;
    join.spec.table_bytes = 3 * table;
    EXPECT(!join.memory().is_tight());
    join.spec.table_bytes -= 1;
    EXPECT(join.memory().is_tight());
    join.spec.schedule.clear();
    EXPECT(!join.memory().is_tight());
}

}  // namespace spillway::test
