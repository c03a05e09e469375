// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <limits>

#include "support/test_relation.hpp"

namespace spillway {
namespace {

using namespace test;

constexpr int64_t kRows = 20;

// One column, one batch of kRows rows, ready to be damaged.
struct Damaged : TestRelation {
    explicit Damaged(const ColumnType& type, int32_t file = 0, int64_t null_percent = 0) : TestRelation(11) {
        builder.junk = false;
        add_column(type);
        add_random_batch(kRows, file, null_percent);
    }
    BatchLayout& batch() { return spec.batches[0]; }
    void put32(size_t buffer, int64_t index, int32_t value) {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
        files[0]->overwrite(batch().buffers[buffer].offset + 4 * index, Bytes(bytes, bytes + 4));
    }
    void read() { reader()->read(0, 0, kRows); }
};

ColumnType binary_type() {
    return type_of(Layout::kBinary, 4);
}

}  // namespace

TEST(transfer_missing_file_and_folder) {
    SourceSpec missing;
    missing.paths = {"/tmp/spillway-no-such-file.arrow"};
    EXPECT_ERROR(kFileNotFound, Source{missing});
    SourceSpec folder;
    folder.paths = {"/tmp"};
    EXPECT_ERROR(kFileUnreadable, Source{folder});
    const TestFile pipe;
    ::unlink(pipe.path().c_str());
    EXPECT_EQ(::mkfifo(pipe.path().c_str(), 0600), 0);
    SourceSpec fifo;
    fifo.paths = {pipe.path()};
    EXPECT_ERROR(kFileUnreadable, Source{fifo});
}

TEST(transfer_truncated_file_names_what_is_missing) {
    Damaged relation(type_of(Layout::kFixed, 8));
    const int64_t end = relation.batch().buffers[1].offset + kRows * 8;
    relation.files[0]->truncate(end - 1);
    try {
        relation.open();
        EXPECT(false);
    } catch (const Error& error) {
        EXPECT(error.code() == ErrorCode::kFileTruncated);
        EXPECT_EQ(detail(error, "path"), relation.files[0]->path());
        EXPECT_EQ(detail(error, "column"), std::string("column0"));
        EXPECT_EQ(detail(error, "batch"), std::string("0"));
        EXPECT_EQ(detail(error, "wantedBytes"), std::to_string(end));
        EXPECT_EQ(detail(error, "foundBytes"), std::to_string(end - 1));
    }
}

TEST(transfer_file_truncated_while_open_is_an_error) {
    Damaged relation(type_of(Layout::kFixed, 8));
    relation.open();
    relation.files[0]->truncate(relation.batch().buffers[1].offset + 3);
    EXPECT_ERROR(kFileTruncated, relation.read());
}

// Every count and position of a header at hostile values: an error or readable rows, never a crash.
TEST(transfer_hostile_headers) {
    const int64_t hostile[] = {-1,
                               std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::max() / 8 + 1,
                               int64_t{1} << 61,
                               int64_t{1} << 40,
                               kRows + 1};
    for (uint64_t seed = 1; seed <= 40; ++seed) {
        Random random(seed);
        const ColumnType type = random_type(random, 3, true);
        const Damaged intact(type, static_cast<int32_t>(seed % 3) - 1, 20);
        const auto attempt = [&](const SourceSpec& spec) {
            try {
                MemoryBudget budget(256 << 20);
                JobControl control;
                Source source(spec);
                source.load_dictionaries({0}, budget, control);
                SourceReader reader(source, {0}, budget, control);
                const int64_t rows = std::min<int64_t>(source.rows(), kRows);
                reader.read(0, 0, reader.rows_within(0, 0, rows, 1 << 20));
            } catch (const Error& error) {
                EXPECT(error.code() != ErrorCode::kInternal);
            }
        };
        const BatchLayout& batch = intact.spec.batches[0];
        for (const int64_t value : hostile) {
            for (size_t i = 0; i < batch.nodes.size(); ++i) {
                SourceSpec spec = intact.spec;
                spec.batches[0].nodes[i].length = value;
                attempt(spec);
                spec = intact.spec;
                spec.batches[0].nodes[i].null_count = value;
                attempt(spec);
            }
            for (size_t i = 0; i < batch.buffers.size(); ++i) {
                SourceSpec spec = intact.spec;
                spec.batches[0].buffers[i].offset = value;
                if (batch.file >= 0) attempt(spec);
                spec = intact.spec;
                spec.batches[0].buffers[i].length = std::min(value, batch.buffers[i].length - 1);
                attempt(spec);
            }
            SourceSpec spec = intact.spec;
            spec.batches[0].rows = value;
            attempt(spec);
        }
    }
}

// The same with the data: random bytes over every buffer of every layout.
TEST(transfer_hostile_data) {
    for (uint64_t seed = 1; seed <= 300; ++seed) {
        Random random(seed);
        Damaged relation(random_type(random, 3, true), 0, 20);
        auto& buffers = relation.batch().buffers;
        for (const auto& region : buffers) {
            if (region.length == 0 || below(random, 3) != 0) continue;
            const std::string junk = random_bytes(random, 1 + below(random, std::min<int64_t>(region.length, 8)));
            const int64_t at = below(random, region.length - static_cast<int64_t>(junk.size()) + 1);
            relation.files[0]->overwrite(region.offset + at, Bytes(junk.begin(), junk.end()));
        }
        try {
            relation.open();
            const auto reader = relation.reader();
            const int64_t rows = reader->rows_within(0, 0, kRows, 1 << 20);
            const std::vector<ColumnView>& views = reader->read(0, 0, rows);
            for (int64_t i = 0; i < rows; ++i) text_of(views[0], i);
        } catch (const Error& error) {
            EXPECT(error.code() == ErrorCode::kFileCorrupt);
        }
    }
}

TEST(transfer_short_buffers_are_corrupt) {
    Damaged values(type_of(Layout::kFixed, 8));
    values.batch().buffers[1].length -= 1;
    EXPECT_ERROR(kFileCorrupt, values.open());
    Damaged offsets(binary_type());
    offsets.batch().buffers[1].length -= 1;
    EXPECT_ERROR(kFileCorrupt, offsets.open());
    Damaged memory(type_of(Layout::kFixed, 8), -1);
    memory.batch().buffers[1].length -= 1;
    EXPECT_ERROR(kInvalidArgument, memory.open());
    Damaged count(type_of(Layout::kFixed, 8));
    count.batch().buffers.pop_back();
    EXPECT_ERROR(kFileCorrupt, count.open());
    Damaged bitmap(type_of(Layout::kFixed, 8), 0, 50);
    bitmap.batch().buffers[0].length = 0;
    EXPECT_ERROR(kFileCorrupt, bitmap.open());
}

TEST(transfer_offsets_must_rise_and_stay_inside) {
    Damaged falls(binary_type());
    falls.put32(1, 7, 2);
    falls.open();
    EXPECT_ERROR(kFileCorrupt, falls.read());
    falls.reader()->read(0, 8, 2);  // rows elsewhere are fine
    Damaged negative(binary_type());
    negative.put32(1, 0, -1);
    negative.open();
    EXPECT_ERROR(kFileCorrupt, negative.read());
    EXPECT_ERROR(kFileCorrupt, negative.reader()->rows_within(0, 0, kRows, 1));
    Damaged beyond(binary_type());
    beyond.put32(1, kRows, 1 << 20);
    beyond.open();
    EXPECT_ERROR(kFileCorrupt, beyond.read());
    Damaged list(type_of(Layout::kList, 4, {type_of(Layout::kFixed, 4)}));
    list.put32(1, kRows, 1 << 20);
    list.open();
    EXPECT_ERROR(kFileCorrupt, list.read());
}

// The last byte or item there is may be used; one more is an error, whether rows are read or their bytes are asked for.
TEST(transfer_offsets_may_reach_the_end_and_no_further) {
    const auto expect_end = [](const ColumnType& type, const std::function<int64_t(Damaged&)>& end_of) {
        for (const int32_t further : {0, 1}) {
            Damaged relation(type);
            relation.put32(1, kRows, static_cast<int32_t>(end_of(relation)) + further);
            relation.open();
            if (further == 0) {
                relation.read();
                EXPECT_EQ(relation.reader()->rows_within(0, 0, kRows, 1 << 20), kRows);
                continue;
            }
            EXPECT_ERROR(kFileCorrupt, relation.read());
            EXPECT_ERROR(kFileCorrupt, relation.reader()->read(0, kRows - 1, 1));
            relation.reader()->read(0, 0, kRows - 1);  // rows before it are fine
        }
    };
    expect_end(binary_type(), [](Damaged& relation) { return relation.batch().buffers[2].length; });
    const auto items = [](Damaged& relation) { return relation.batch().nodes[1].length; };
    for (const ColumnType& item : {type_of(Layout::kFixed, 4), type_of(Layout::kBool), binary_type()}) {
        expect_end(type_of(Layout::kList, 4, {item}), items);
    }
    Damaged list(type_of(Layout::kList, 4, {binary_type()}));
    list.put32(1, kRows, static_cast<int32_t>(items(list)) + 1);
    list.open();
    EXPECT_ERROR(kFileCorrupt, list.reader()->rows_within(0, 0, kRows, 1 << 20));
}

TEST(transfer_children_have_a_row_for_each_of_their_parent) {
    const std::vector<ColumnType> members{type_of(Layout::kFixed, 4), type_of(Layout::kBool)};
    for (const ColumnType& type : {type_of(Layout::kStruct, 0, members), type_of(Layout::kUnionSparse, 0, members),
                                   list_of_size(3, type_of(Layout::kFixed, 4))}) {
        Damaged whole(type);
        whole.open();
        whole.read();
        Damaged shorter(type);
        shorter.batch().nodes[1].length -= 1;
        EXPECT_ERROR(kFileCorrupt, shorter.open());
    }
}

TEST(transfer_views_must_stay_inside) {
    for (const int32_t field : {0, 2, 3}) {  // length, buffer, offset
        for (const int32_t value : {-5, 1 << 20}) {
            Damaged relation(type_of(Layout::kView, 16));
            relation.put32(1, 4 * 3, 30);
            relation.put32(1, 4 * 3 + 2, 0);
            relation.put32(1, 4 * 3 + 3, 0);
            relation.put32(1, 4 * 3 + field, value);
            relation.open();
            EXPECT_ERROR(kFileCorrupt, relation.read());
        }
    }
}

TEST(transfer_union_ids_and_rows_must_exist) {
    const std::vector<ColumnType> members{type_of(Layout::kFixed, 4), type_of(Layout::kFixed, 8)};
    Damaged sparse(type_of(Layout::kUnionSparse, 0, members));
    sparse.put32(0, 1, 0x01010101);
    sparse.open();
    EXPECT_ERROR(kFileCorrupt, sparse.read());
    Damaged dense(type_of(Layout::kUnionDense, 0, members));
    dense.put32(1, 3, 1000);
    dense.open();
    EXPECT_ERROR(kFileCorrupt, dense.read());
}

TEST(transfer_dictionary_indices_must_exist) {
    for (const int32_t value : {-1, 1000}) {
        Damaged relation(type_of(Layout::kDictionary, 4, {binary_type()}));
        relation.put32(1, 5, value);
        relation.open();
        EXPECT_ERROR(kFileCorrupt, relation.read());
    }
}

TEST(transfer_non_nullable_columns_have_no_nulls) {
    ColumnType type = type_of(Layout::kFixed, 8);
    type.nullable = false;
    Damaged relation(type, 0, 50);
    EXPECT_ERROR(kFileCorrupt, relation.open());
    Damaged unknown(type, 0, 50);
    unknown.batch().nodes[0].null_count = -1;
    unknown.open();
    EXPECT_ERROR(kFileCorrupt, unknown.read());
    Damaged none(type);
    none.open();
    none.expect_slice(*none.reader(), 0, 0, kRows);
}

TEST(transfer_malformed_types_are_rejected) {
    const auto open = [](const ColumnType& type) {
        SourceSpec spec;
        spec.columns.push_back(std::make_shared<ColumnType>(type));
        Source source(spec);
    };
    EXPECT_ERROR(kInvalidArgument, open(type_of(Layout::kBinary, 3)));
    EXPECT_ERROR(kInvalidArgument, open(type_of(Layout::kList, 4)));
    EXPECT_ERROR(kInvalidArgument, open(type_of(Layout::kDictionary, 4)));
    const ColumnType inner = type_of(Layout::kDictionary, 4, {binary_type()});
    EXPECT_ERROR(kUnsupportedType, open(type_of(Layout::kDictionary, 4, {type_of(Layout::kStruct, 0, {inner})})));
}

// Items without bytes: nothing but their number tells how many there are, and the product of rows and list size wraps.
TEST(transfer_corrupt_items_without_bytes_do_not_wrap) {
    for (const ColumnType& item : {type_of(Layout::kNull), type_of(Layout::kStruct)}) {
        Damaged relation(list_of_size(1, item));
        relation.spec.columns[0] = std::make_shared<ColumnType>(list_of_size(1 << 29, item));
        BatchLayout& batch = relation.batch();
        batch.nodes[1].length = std::numeric_limits<int64_t>::max();
        batch.rows = batch.nodes[0].length = int64_t{1} << 35;  // 2^64 items
        EXPECT_ERROR(kFileCorrupt, relation.open());
        batch.rows = batch.nodes[0].length = (int64_t{1} << 35) + 1;  // 2^29 modulo 2^64
        EXPECT_ERROR(kFileCorrupt, relation.open());
    }
}

TEST(transfer_corrupt_rows_beyond_those_that_can_be_counted) {
    Damaged relation(type_of(Layout::kNull));
    relation.batch().rows = relation.batch().nodes[0].length = int64_t{1} << 53;
    relation.open();
    relation.spec.batches.push_back(relation.spec.batches[0]);
    EXPECT_ERROR(kFileCorrupt, relation.open());
}

// Bytes that offsets claim are measured before they are uploaded to a GPU.
TEST(transfer_corrupt_offsets_beyond_their_bytes_are_not_measured) {
    Damaged relation(binary_type());
    const int64_t bytes = relation.batch().buffers[2].length;
    relation.put32(1, kRows, static_cast<int32_t>(bytes + 1));
    relation.open();
    EXPECT_ERROR(kFileCorrupt, relation.reader()->value_bytes(0, 0, 0, kRows));
}

}  // namespace spillway
