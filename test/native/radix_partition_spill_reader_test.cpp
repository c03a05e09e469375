// SPDX-License-Identifier: Apache-2.0
// Spilled runs read back: which of them one read takes, from which file, and what memory that is said to need.
#include <algorithm>
#include <memory>

#include "base/hash.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"
#include "cpu/radix_partition/spill_writer.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr uint32_t kRows = 64;  // of each run, of 8 bytes
constexpr uint32_t kBytes = kRows * 8;
constexpr uint32_t kRuns = 8;

PartitionSpec word_spec() {
    PartitionSpec spec;
    spec.keys.resize(1);
    spec.page_bytes = kKiB;
    spec.pool_bytes = kMiB;
    spec.spill_run_bytes = kKiB;
    spec.spill_write_bytes = 4 * kKiB;
    spec.spill = true;
    spec.workers = 2;
    return spec;
}

// Two files with runs side by side, of which the word says where it is.
struct Words {
    Words()
        : set(word_spec(), RowLayout::make({type_of(Kind::kInt64, false)}, {KeySpec{}}, {}, NullKeys::kDrop), budget,
              std::make_shared<SpillSpace>("/tmp"), control) {
        for (uint8_t shard = 0; shard < 2; ++shard) {
            std::vector<uint64_t> words;
            for (uint32_t i = 0; i < kRuns * kRows; ++i) words.push_back(word(shard, i));
            const SpillFile::Position position = set.spill_file().write({{words.data(), words.size() * 8}}, shard);
            EXPECT_EQ(position.offset, 0);
            EXPECT_EQ(static_cast<int>(position.shard), static_cast<int>(shard));
        }
    }
    static uint64_t word(uint8_t shard, uint32_t row) { return shard * 1'000'000 + row; }
    static SpilledRun run(uint8_t shard, uint32_t number, uint8_t encoding = 0) {
        return {kRows, kBytes, {int64_t{number} * kBytes, kBytes, encoding, shard}};
    }
    static void expect_run(const uint8_t* rows, const SpilledRun& run) {
        for (uint32_t i = 0; i < run.rows; ++i) {
            const uint64_t want = word(run.extent.shard, static_cast<uint32_t>(run.extent.offset) / 8 + i);
            EXPECT_EQ(first_word(rows + i * 8), run.extent.encoding == 0 ? want : mix64(want));
        }
    }

    MemoryBudget budget{uint64_t{16} << 20};
    JobControl control;
    PartitionedRows set;
};

}  // namespace

TEST(radix_partition_reads_runs_in_any_order_of_any_file) {
    Words words;
    const std::vector<SpilledRun> runs = {Words::run(0, 4), Words::run(0, 2),    Words::run(1, 3), Words::run(0, 4),
                                          Words::run(0, 5), Words::run(0, 6, 2), Words::run(1, 7), Words::run(0, 0)};
    SpillReader reader(words.set);
    uint8_t out[kBytes];
    for (size_t i = 0; i < runs.size(); ++i) Words::expect_run(reader.read(runs, i, runs.size(), out), runs[i]);
    for (size_t i = runs.size(); i-- > 0;) Words::expect_run(reader.read(runs, i, runs.size(), out), runs[i]);
}

TEST(radix_partition_reads_together_what_lies_side_by_side) {
    Words words;
    uint8_t out[kRuns * kBytes];
    const auto expect = [&](const std::vector<SpilledRun>& runs, size_t next) {
        std::fill(std::begin(out), std::end(out), uint8_t{0xee});
        EXPECT_EQ(SpillReader(words.set).read_into(runs, 0, runs.size(), out), next);
        for (size_t i = 0; i < next; ++i) Words::expect_run(out + i * kBytes, runs[i]);
        EXPECT_EQ(static_cast<int>(out[next * kBytes]), 0xee);
    };
    expect({Words::run(1, 0), Words::run(1, 1), Words::run(1, 2), Words::run(1, 4)}, 3);
    expect({Words::run(0, 0), Words::run(1, 1)}, 1);     // the next place, but of another file
    expect({Words::run(0, 0), Words::run(0, 1, 2)}, 1);  // its rows are not as they lie in memory
    expect({Words::run(0, 3, 2), Words::run(0, 4)}, 1);
}

TEST(radix_partition_reads_ahead_as_far_as_is_planned) {
    Words words;
    std::vector<SpilledRun> runs;
    for (uint32_t i = 0; i < kRuns; ++i) runs.push_back(Words::run(0, i));
    SpillReader reader(words.set);
    const uint64_t before = words.budget.used();
    for (uint32_t i = 0; i < kRuns; ++i) {
        Words::expect_run(reader.read(runs, i, kRuns, nullptr), runs[i]);
        EXPECT_EQ(words.control.unspilled_bytes.load(), (i / 4 + 1) * 4 * kBytes);  // of twice a run of 1 KiB
    }
    EXPECT_EQ(words.budget.used() - before, 4 * kBytes);
}

TEST(radix_partition_knows_what_reading_back_takes) {
    Words words;
    PartitionedRows& set = words.set;
    EXPECT_EQ(set.load_bytes(0), 0u);
    EXPECT_EQ(set.cursor_bytes(0), 0u);
    set.add_spilled_run(0, {100, 800, {0, 700, 0, 0}});
    EXPECT_EQ(set.load_bytes(0), block_capacity(800) + 2 * kKiB);  // all rows, and what is read at once
    EXPECT_EQ(set.cursor_bytes(0), 2 * kKiB);
    set.add_spilled_run(0, {200, 1600, {0, 300, 1, 0}});
    EXPECT_EQ(set.load_bytes(0), block_capacity(800 + 1600) + 2 * kKiB);
    EXPECT_EQ(set.cursor_bytes(0), 2 * kKiB + 1600);          // what is read at once, and the rows that are unpacked
    set.add_spilled_run(0, {1, 100'000, {0, 90'000, 0, 0}});  // a row larger than a page
    EXPECT_EQ(set.load_bytes(0), block_capacity(800 + 1600 + 100'000) + block_capacity(90'000));
    EXPECT_EQ(set.cursor_bytes(0), block_capacity(90'000) + 1600);
    EXPECT_EQ(set.page_count(0), 3u);
    EXPECT_EQ(set.page_rows(0, 1), 200u);
    EXPECT_EQ(set.page_load_bytes(0, 1), 1600u);
    EXPECT_EQ(set.page_load_bytes(0, 2), 100'000u);
}

TEST(radix_partition_reserves_what_packing_takes) {
    PartitionSpec spec = word_spec();
    MemoryBudget budget(kMiB);
    EXPECT_EQ(SpillScratch(spec, budget).reservation.bytes(), 4 * kKiB + 2 * kKiB);
    spec.page_bytes = 8 * kKiB;  // a run is a page at least
    EXPECT_EQ(SpillScratch(spec, budget).reservation.bytes(), 4 * kKiB + 16 * kKiB);
    spec.pack_spilled = false;
    EXPECT_EQ(SpillScratch(spec, budget).reservation.bytes(), 0u);
}

TEST(radix_partition_runs_are_as_long_as_is_planned) {
    PartitionSpec spec = word_spec();
    spec.carry = {0};
    spec.radix_bits = 2;
    spec.pool_bytes = 128 * kKiB;
    spec.spill_run_bytes = 16 * kKiB;
    spec.spill_write_bytes = 64 * kKiB;
    spec.workers = 1;
    spec.pack_spilled = false;
    MemoryBudget budget(8 * kMiB);
    JobControl control;
    std::vector<Value> values;
    for (int64_t i = 0; i < 200'000; ++i) values.push_back(bytes_of(&i, 8));
    const Column column = make_column(Kind::kInt64, false, values);
    PartitionedRows set(spec, RowLayout::make({column.type}, spec.keys, spec.carry, NullKeys::kDrop), budget,
                        std::make_shared<SpillSpace>("/tmp"), control);
    RadixPartitioner partitioner(set);
    RowEncoder encoder(set.layout(), spec.carry, budget);
    for (int64_t at = 0; at < 200'000; at += 500) {
        partitioner.append(0, encoder.encode({column.view()}, at, 500, 0));
    }
    partitioner.finish();
    const uint32_t whole = 16 * static_cast<uint32_t>(kKiB) / set.layout().row_bytes;
    uint64_t spilled = 0;
    uint64_t in_whole_runs = 0;
    uint64_t bytes = 0;
    for (int32_t p = 0; p < set.partition_count(); ++p) {
        bytes += set.partition(p).bytes;
        for (const SpilledRun& run : set.spilled_runs(p)) {
            EXPECT(run.rows <= whole);
            spilled += run.rows;
            if (run.rows == whole) in_whole_runs += run.rows;
        }
    }
    EXPECT(spilled > 150'000);
    EXPECT(in_whole_runs > spilled * 3 / 4);
    EXPECT_EQ(bytes, 200'000 * uint64_t{set.layout().row_bytes});
}

}  // namespace spillway::test
