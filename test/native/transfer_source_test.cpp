// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "base/parallel.hpp"
#include "support/test_relation.hpp"

namespace spillway {
namespace {

using namespace test;

ColumnType int64_type() {
    return type_of(Layout::kFixed, 8);
}

}  // namespace

TEST(transfer_source_counts_rows_over_batches_and_files) {
    TestRelation relation(1);
    relation.add_column(int64_type());
    relation.add_batch({integers(0, 10)}, 10, 0);
    relation.add_batch({integers(0, 0)}, 0, 1);
    relation.add_batch({integers(10, 7)}, 7, 1);
    relation.add_batch({integers(17, 3)}, 3, -1);
    const Source& source = relation.open();
    EXPECT_EQ(source.rows(), 20);
    EXPECT_EQ(source.batch_count(), 4);
    EXPECT_EQ(source.first_row(3), 17);
    EXPECT_EQ(source.batch_rows(2), 7);
}

TEST(transfer_source_without_batches_or_columns) {
    TestRelation empty(1);
    empty.add_column(int64_type());
    empty.add_column(type_of(Layout::kDictionary, 4, {type_of(Layout::kBinary)}));
    EXPECT_EQ(empty.open().rows(), 0);
    EXPECT_EQ(empty.source->columns()[1]->dictionary->values.length, 0);
    TestRelation narrow(1);
    narrow.add_batch({}, 5, 0);
    EXPECT_EQ(narrow.open().rows(), 5);
    EXPECT_EQ(narrow.reader()->read(0, 1, 3).size(), 0u);
}

// A sparse file: offsets beyond 2^32 and 2^33 must come through everywhere.
TEST(transfer_reads_beyond_four_gigabytes) {
    TestRelation relation(1);
    relation.add_column(int64_type());
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_batch({integers(0, 100), random_values(relation.random, relation.types[1], 100, 10)}, 100, 0);
    relation.files[0]->skip_to((int64_t{1} << 32) - 24);
    relation.add_batch({integers(100, 100), random_values(relation.random, relation.types[1], 100, 10)}, 100, 0);
    relation.files[0]->skip_to(int64_t{5} << 32);
    relation.add_batch({integers(200, 100), random_values(relation.random, relation.types[1], 100, 10)}, 100, 0);
    relation.open();
    const auto reader = relation.reader();
    for (int64_t batch = 0; batch < 3; ++batch) relation.expect_slice(*reader, batch, 3, 90);
}

// One batch of 2^31 + rows: row numbers and byte positions are 64-bit. The file is a hole, so it costs no disk.
TEST(transfer_reads_batches_of_more_than_two_billion_rows) {
    TestRelation relation(1);
    relation.add_column(type_of(Layout::kFixed, 2));
    relation.add_column(type_of(Layout::kBool));
    const int64_t rows = (int64_t{1} << 31) + 100;
    relation.add_batch({integers(0, 0, 2), {}}, 0, 0);
    BatchLayout& batch = relation.spec.batches[0];
    const int64_t last = rows - 3;
    batch.rows = rows;
    batch.nodes.assign(2, {rows, 0, 0});
    batch.buffers.assign(4, {});
    batch.buffers[1] = {4096, nullptr, rows * 2};
    batch.buffers[3] = {4096 + rows * 2, nullptr, bitmap_bytes(rows)};
    TestFile& file = *relation.files[0];
    file.truncate(4096 + rows * 2 + bitmap_bytes(rows));
    file.overwrite(4096 + last * 2, {0x34, 0x12});
    file.overwrite(4096 + rows * 2 + last / 8, {static_cast<uint8_t>(1u << (last % 8))});
    relation.open();
    const auto reader = relation.reader();
    const std::vector<ColumnView>& views = reader->read(0, last - 1, 3);
    EXPECT_EQ(text_of(views[0], 0), std::string("x0000"));
    EXPECT_EQ(text_of(views[0], 1), std::string("x3412"));
    EXPECT_EQ(text_of(views[1], 1), std::string("x01"));
    EXPECT_EQ(text_of(views[1], 2), std::string("x00"));
}

TEST(transfer_reader_settles_its_memory) {
    TestRelation relation(1);
    relation.add_column(int64_type());
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_column(type_of(Layout::kList, 4, {type_of(Layout::kBinary, 4)}));
    relation.add_random_batch(2000, 0);
    relation.open();
    const auto reader = relation.reader();
    reader->read(0, 0, 1000);
    reader->read(0, 1000, 1000);
    reader->read(0, 500, 1000);
    const uint64_t used = relation.budget.used();
    for (int64_t row = 0; row + 900 <= 2000; row += 100) {
        reader->read(0, row, 900);
        EXPECT_EQ(relation.budget.used(), used);
    }
    EXPECT(relation.control.bytes_in.load() > 0);
}

TEST(transfer_reader_memory_is_budgeted) {
    TestRelation relation(1);
    relation.add_column(type_of(Layout::kBinary, 4));
    std::vector<Value> values(8);
    for (Value& value : values) value.bytes = std::string(1 << 20, 'x');
    relation.add_batch({values}, 8, 0);
    relation.open();
    MemoryBudget small(3 << 20);
    SourceReader reader(*relation.source, {0}, small, relation.control);
    EXPECT_ERROR(kBudgetTooSmall, reader.read(0, 0, 8));
    relation.expect_slice(reader, 0, 6, 2);  // and it is still usable
    EXPECT(small.peak() <= small.limit());
}

TEST(transfer_rows_within_a_number_of_bytes) {
    TestRelation fixed(1);
    fixed.add_column(int64_type());
    fixed.add_column(type_of(Layout::kStruct, 0, {type_of(Layout::kFixed, 4), type_of(Layout::kBool)}));
    fixed.add_random_batch(1000, 0);
    fixed.open();
    const auto fixed_reader = fixed.reader();
    EXPECT_EQ(fixed_reader->rows_within(0, 0, 1000, 1 << 20), 1000);
    EXPECT_EQ(fixed_reader->rows_within(0, 0, 1000, 0), 1);
    EXPECT_EQ(fixed_reader->rows_within(0, 0, 0, 0), 0);
    const int64_t some = fixed_reader->rows_within(0, 10, 900, 1300);
    EXPECT_EQ(some, 1300 * 8 / (65 + 1 + 33 + 2));

    TestRelation wide(2);
    wide.add_column(int64_type());
    wide.add_column(type_of(Layout::kList, 4, {type_of(Layout::kBinary, 8)}));
    wide.add_column(type_of(Layout::kView, 16));
    Value list;
    list.items.resize(1);
    list.items[0].bytes = std::string(10000, 'x');
    Value text;
    text.bytes = std::string(10000, 'y');
    wide.builder.junk = false;
    const std::vector<Value> lists(100, list);
    const std::vector<Value> texts(100, text);
    wide.add_batch({integers(0, 100), lists, texts}, 100, 0);
    wide.add_batch({integers(0, 100), lists, texts}, 100, -1);
    wide.open();
    const auto wide_reader = wide.reader();
    for (const int64_t batch : {0, 1}) {
        EXPECT_EQ(wide_reader->rows_within(batch, 5, 90, 10 << 20), 90);
        EXPECT_EQ(wide_reader->rows_within(batch, 5, 90, 205000), 10);
        EXPECT_EQ(wide_reader->rows_within(batch, 5, 90, 5), 1);
    }
    EXPECT_EQ(wide.control.bytes_in.load(), 0u);
}

TEST(transfer_morsels_cover_every_row_once_and_in_order) {
    TestRelation relation(1);
    relation.add_column(int64_type());
    for (const int64_t rows : {0, 5, 0, 0, 10, 7, 0, 1, 0}) relation.add_batch({integers(0, rows)}, rows, 0);
    const Source& source = relation.open();
    for (const int64_t morsel_rows : {1, 3, 5, 100}) {
        MorselQueue queue(source, morsel_rows);
        Morsel morsel;
        int64_t row = 0;
        while (queue.next(morsel)) {
            EXPECT(morsel.rows > 0 && morsel.rows <= morsel_rows);
            EXPECT_EQ(source.first_row(morsel.batch) + morsel.row, row);
            EXPECT(morsel.row + morsel.rows <= source.batch_rows(morsel.batch));
            row += morsel.rows;
        }
        EXPECT_EQ(row, source.rows());
        EXPECT(!queue.next(morsel));
    }
}

TEST(transfer_readers_run_in_parallel) {
    TestRelation relation(9);
    relation.add_column(int64_type());
    relation.add_column(type_of(Layout::kDictionary, 2, {type_of(Layout::kBinary, 4)}));
    relation.add_column(type_of(Layout::kList, 4, {type_of(Layout::kView, 16)}));
    for (int32_t batch = 0; batch < 6; ++batch) relation.add_random_batch(500, batch % 3 - 1);
    relation.source = std::make_unique<Source>(relation.spec);
    MorselQueue queue(*relation.source, 37);
    std::atomic<int64_t> rows{0};
    parallel_run(4, [&](int) {
        relation.source->load_dictionaries({0, 1, 2}, relation.budget, relation.control);
        const auto reader = relation.reader();
        Morsel morsel;
        while (queue.next(morsel)) {
            relation.expect_slice(*reader, morsel.batch, morsel.row, morsel.rows);
            rows += morsel.rows;
        }
    });
    EXPECT_EQ(rows.load(), relation.source->rows());
}

}  // namespace spillway
