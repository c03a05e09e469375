// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "support/test_relation.hpp"

namespace spillway {
namespace {

using namespace test;

// Slices of every batch: whole, empty, single rows, odd beginnings.
void expect_all(TestRelation& relation) {
    relation.open();
    const auto reader = relation.reader();
    for (int64_t batch = 0; batch < relation.source->batch_count(); ++batch) {
        const int64_t rows = relation.source->batch_rows(batch);
        relation.expect_slice(*reader, batch, 0, rows);
        relation.expect_slice(*reader, batch, rows, 0);
        for (int i = 0; i < 6 && rows > 0; ++i) {
            const int64_t row = below(relation.random, rows);
            relation.expect_slice(*reader, batch, row, 1 + below(relation.random, rows - row));
        }
    }
}

void expect_layout(const ColumnType& type) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
        TestRelation relation(seed);
        relation.add_column(type);
        relation.add_random_batch(67, 0);
        relation.add_random_batch(0, 0);
        relation.add_random_batch(130, 1, 0);
        relation.add_random_batch(71, -1);
        relation.add_random_batch(1, 0, 100);
        expect_all(relation);
    }
}

// Writes to those buffers of a batch in memory that say where its values are, and which of them are NULL.
struct BatchWriter {
    const BatchLayout& batch;
    size_t buffer = 0;
    size_t variadic = 0;

    void spoil_next() {
        const BatchLayout::Region& region = batch.buffers[buffer++];
        if (region.length > 0) {
            std::memset(const_cast<uint8_t*>(region.pointer), 0xff, static_cast<size_t>(region.length));
        }
    }
    void spoil_structure(const ColumnType& type) {
        if (type.layout == Layout::kNull) return;
        spoil_next();  // validity; type ids of unions
        if (type.layout == Layout::kFixed || type.layout == Layout::kBool) {
            ++buffer;
        } else if (type.layout != Layout::kStruct && type.layout != Layout::kFixedList &&
                   type.layout != Layout::kUnionSparse) {
            spoil_next();  // offsets, views or indices
        }
        if (type.layout == Layout::kBinary) ++buffer;
        if (type.layout == Layout::kView) buffer += static_cast<size_t>(batch.variadic_counts[variadic++]);
        if (type.layout == Layout::kDictionary) return;  // its values are no part of the batch
        for (const ColumnType& child : type.children) spoil_structure(child);
    }
};

}  // namespace

TEST(transfer_reads_fixed_width_columns) {
    for (const int32_t width : {1, 2, 3, 4, 8, 16, 32}) expect_layout(type_of(Layout::kFixed, width));
}
TEST(transfer_reads_bool_columns) {
    expect_layout(type_of(Layout::kBool));
}
TEST(transfer_reads_null_columns) {
    expect_layout(type_of(Layout::kNull));
}
TEST(transfer_reads_binary_columns) {
    for (const int32_t width : {4, 8}) expect_layout(type_of(Layout::kBinary, width));
}
TEST(transfer_reads_view_columns) {
    expect_layout(type_of(Layout::kView, 16));
}
TEST(transfer_reads_list_columns) {
    for (const int32_t width : {4, 8}) {
        expect_layout(type_of(Layout::kList, width, {type_of(Layout::kFixed, 4)}));
        expect_layout(type_of(Layout::kList, width, {type_of(Layout::kBool)}));
        expect_layout(type_of(Layout::kList, width, {type_of(Layout::kView, 16)}));
    }
}
TEST(transfer_reads_fixed_size_list_columns) {
    for (const int64_t size : {0, 1, 3}) expect_layout(list_of_size(size, type_of(Layout::kBinary, 4)));
}
TEST(transfer_reads_struct_columns) {
    expect_layout(type_of(Layout::kStruct, 0, {type_of(Layout::kBool), type_of(Layout::kBinary, 8)}));
}
TEST(transfer_reads_union_columns) {
    for (const Layout layout : {Layout::kUnionSparse, Layout::kUnionDense}) {
        expect_layout(
            type_of(layout, 0, {type_of(Layout::kFixed, 8), type_of(Layout::kBinary), type_of(Layout::kNull)}));
    }
}

TEST(transfer_reads_random_schemas) {
    for (uint64_t seed = 1; seed <= 150; ++seed) {
        TestRelation relation(seed);
        const int64_t columns = 1 + below(relation.random, 5);
        for (int64_t c = 0; c < columns; ++c) relation.add_column(random_type(relation.random, 3, true));
        relation.builder.deltas = static_cast<int>(1 + below(relation.random, 3));
        for (int batch = 0; batch < 3; ++batch) {
            const auto file = static_cast<int32_t>(below(relation.random, 3)) - 1;
            relation.add_random_batch(below(relation.random, 60), file, seed % 4 == 0 ? 0 : 20);
        }
        try {
            expect_all(relation);
        } catch (const std::exception& error) {
            throw Failure("seed " + std::to_string(seed) + ": " + error.what());
        }
    }
}

// Arrow JS slices leave bitmaps where they are and count bits from an offset.
TEST(transfer_reads_bit_offsets_of_memory_batches) {
    for (int64_t skipped = 0; skipped < 20; ++skipped) {
        TestRelation relation(static_cast<uint64_t>(skipped) + 1);
        relation.add_column(type_of(Layout::kBool));
        relation.add_random_batch(100, -1);
        relation.add_random_batch(0, -1);
        BatchLayout& batch = relation.spec.batches[0];
        batch.rows -= skipped;
        batch.nodes[0].length -= skipped;
        batch.nodes[0].bit_offset = skipped;
        auto& values = relation.values[0][0];
        values.erase(values.begin(), values.begin() + skipped);
        expect_all(relation);
    }
}

TEST(transfer_borrows_values_of_memory_batches) {
    TestRelation relation(1);
    relation.add_column(type_of(Layout::kFixed, 8));
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_random_batch(50, -1);
    relation.open();
    const auto reader = relation.reader();
    const auto& buffers = relation.spec.batches[0].buffers;
    const std::vector<ColumnView>& views = reader->read(0, 10, 20);
    EXPECT(views[0].data == buffers[1].pointer + 80);
    EXPECT(views[1].data == buffers[4].pointer + views[1].offset_base);
}

TEST(transfer_borrows_all_of_memory_batches_that_are_held) {
    TestRelation relation(1);
    relation.add_column(type_of(Layout::kBinary, 4));
    relation.add_random_batch(50, -1);
    relation.open();
    const uint64_t used = relation.budget.used();
    SourceReader reader(*relation.source, {0}, relation.budget, relation.control, MemoryStructure::kBorrowed);
    const std::vector<ColumnView>& views = reader.read(0, 10, 20);
    EXPECT(views[0].offsets == relation.spec.batches[0].buffers[1].pointer + 40);
    EXPECT_EQ(relation.budget.used(), used);
}

// What was checked is what is used, whatever is written to the memory in between: by JS, or by the thread that a buffer
// was transferred to.
TEST(transfer_uses_the_structure_of_memory_batches_that_it_checked) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
        TestRelation relation(seed);
        for (int column = 0; column < 3; ++column) relation.add_column(random_type(relation.random, 2, true));
        relation.add_random_batch(100, -1);
        relation.open();
        const auto reader = relation.reader();
        const std::vector<ColumnView>& views = reader->read(0, 0, 100);
        BatchWriter writer{relation.spec.batches[0]};
        for (const ColumnType& type : relation.types) writer.spoil_structure(type);
        for (size_t column = 0; column < views.size(); ++column) {
            for (int64_t row = 0; row < 100; ++row) {
                EXPECT_EQ(text_of(views[column], row),
                          text_of(relation.values[0][column][static_cast<size_t>(row)], relation.types[column]));
            }
        }
    }
}

TEST(transfer_shows_no_validity_for_slices_without_nulls) {
    TestRelation relation(1);
    relation.add_column(type_of(Layout::kFixed, 8));
    std::vector<Value> values = integers(0, 1000);
    values[500].null = true;
    relation.add_batch({values}, 1000, 0);
    relation.open();
    const auto reader = relation.reader();
    EXPECT(reader->read(0, 3, 497)[0].validity == nullptr);
    EXPECT(reader->read(0, 3, 498)[0].validity != nullptr);
    EXPECT(reader->read(0, 501, 499)[0].validity == nullptr);
}

// Values far apart in their data buffer are picked one by one: memory follows the values, not the buffer.
TEST(transfer_gathers_scattered_views) {
    TestRelation relation(5);
    relation.add_column(type_of(Layout::kView, 16));
    relation.builder.view_gap = 60000;
    std::vector<Value> values = random_values(relation.random, relation.types[0], 400, 10);
    relation.add_batch({values}, 400, 0);
    // The same rows in random order.
    BatchLayout shuffled = relation.spec.batches[0];
    const Bytes views = [&] {
        std::vector<size_t> order(400);
        for (size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), relation.random);
        const Bytes old = relation.files[0]->read(shuffled.buffers[1].offset, shuffled.buffers[1].length);
        Bytes next;
        for (const size_t i : order) next.insert(next.end(), old.begin() + 16 * i, old.begin() + 16 * (i + 1));
        std::vector<Value> moved;
        for (const size_t i : order) moved.push_back(values[i]);
        relation.values.push_back({moved});
        return next;
    }();
    Bytes validity((400 + 7) / 8, 0);
    for (int64_t i = 0; i < 400; ++i)
        assign_bit(validity.data(), i, !relation.values[1][0][static_cast<size_t>(i)].null);
    shuffled.buffers[0].offset = relation.files[0]->append(validity);
    shuffled.buffers[1].offset = relation.files[0]->append(views);
    relation.spec.batches.push_back(shuffled);
    expect_all(relation);
    const auto reader = relation.reader();
    reader->read(1, 0, 400);
    EXPECT(relation.budget.peak() < (2u << 20));  // the data buffers hold about 4 MB
}

}  // namespace spillway
