// SPDX-License-Identifier: Apache-2.0
// Spilled rows with byte strings: few records say where they are, and they come back as they went.
#include <algorithm>
#include <memory>

#include "base/hash.hpp"
#include "cpu/radix_partition/radix_partitioner.hpp"
#include "cpu/row/column_builder.hpp"
#include "support/table.hpp"
#include "support/test.hpp"

namespace spillway::test {

namespace {

constexpr uint64_t kPageBytes = 1024;
constexpr uint64_t kRunBytes = 16 * kPageBytes;

// The length says which text it is; 97 is a prime, so that no length goes with one partition.
Value text_of_key(int64_t key, size_t column) {
    if (key % 11 == 0) return std::nullopt;
    return std::string(static_cast<size_t>(key) % 97 / (column + 1), static_cast<char>('a' + key % 26));
}

struct Spilled {
    // longest: characters of the text of every 501st key.
    Spilled(size_t rows, uint64_t run_bytes, uint64_t pool_bytes, size_t longest = 0) : longest_(longest) {
        PartitionSpec spec;
        spec.keys.resize(1);
        spec.carry = {0, 1, 2};
        spec.radix_bits = 3;
        spec.page_bytes = kPageBytes;
        spec.pool_bytes = pool_bytes;
        spec.spill_run_bytes = run_bytes;
        spec.spill_write_bytes = 2 * kRunBytes;
        spec.spill = true;
        std::vector<Value> values[3];
        for (size_t i = 0; i < rows; ++i) {
            const auto key = static_cast<int64_t>(i);
            values[0].push_back(bytes_of(&key, 8));
            for (const size_t c : {1, 2}) values[c].push_back(expected(key, c));
        }
        const Column columns[] = {make_column(Kind::kInt64, false, values[0]),
                                  make_column(Kind::kText, true, values[1]), make_column(Kind::kText, true, values[2])};
        auto layout = RowLayout::make({columns[0].type, columns[1].type, columns[2].type}, spec.keys, spec.carry,
                                      NullKeys::kDrop);
        set = std::make_unique<PartitionedRows>(spec, layout, budget, std::make_shared<SpillSpace>("/tmp"), control);
        RadixPartitioner partitioner(*set);
        RowEncoder encoder(set->layout(), spec.carry, budget);
        const std::vector<ColumnView> views = {columns[0].view(), columns[1].view(), columns[2].view()};
        const auto count = static_cast<int64_t>(rows);
        for (int64_t begin = 0; begin < count; begin += 500) {
            partitioner.append(0, encoder.encode(views, begin, std::min<int64_t>(500, count - begin), 0));
        }
        partitioner.finish();
        found_.assign(rows, 0);
    }

    Value expected(int64_t key, size_t column) const {
        if (longest_ > 0 && key % 501 == 0 && column == 1) return std::string(longest_, 'z');
        return text_of_key(key, column);
    }

    uint64_t records() const {
        uint64_t count = 0;
        for (int32_t p = 0; p < set->partition_count(); ++p) {
            count += set->spilled_runs(p).size();
        }
        return count;
    }
    // This counts rows and texts, wherever they are.
    uint64_t bytes() const {
        uint64_t bytes = 0;
        for (int32_t p = 0; p < set->partition_count(); ++p) bytes += set->partition(p).bytes;
        return bytes;
    }
    uint64_t expected_bytes() const {
        uint64_t bytes = found_.size() * set->layout().row_bytes;
        for (size_t i = 0; i < found_.size(); ++i) {
            for (const size_t c : {1, 2}) {
                const Value text = expected(static_cast<int64_t>(i), c);
                bytes += text ? text->size() : 0;
            }
        }
        return bytes;
    }
    uint64_t spilled_bytes() const {
        uint64_t bytes = 0;
        for (int32_t p = 0; p < set->partition_count(); ++p) bytes += set->partition(p).spilled_bytes;
        return bytes;
    }

    void check(const RowSpan& span) {
        const RowLayout& layout = set->layout();
        // Behind whichever texts of other rows, but for those of a row larger than a page, which end anywhere.
        if (longest_ == 0) EXPECT_EQ(reinterpret_cast<uintptr_t>(span.rows) % 8, 0u);
        for (uint32_t i = 0; i < span.count; ++i) {
            const uint8_t* const row = span.rows + static_cast<uint64_t>(i) * layout.row_bytes;
            const auto key = static_cast<int64_t>(unmix64(first_word(row)));
            if (key < 0 || static_cast<size_t>(key) >= found_.size()) return fail("no such key", __FILE__, __LINE__);
            ++found_[static_cast<size_t>(key)];
            for (const size_t c : {1, 2}) {
                const RowField& field = layout.fields[c];
                const Value want = expected(key, c);
                EXPECT_EQ(field_is_null(field, layout, row), !want.has_value());
                const auto* text = reinterpret_cast<const char*>(var_bytes(row, field.offset));
                if (want) EXPECT_EQ(std::string(text, var_ref(row, field.offset).length), *want);
            }
        }
    }
    void expect_all() {
        EXPECT(std::all_of(found_.begin(), found_.end(), [](int count) { return count == 1; }));
        std::fill(found_.begin(), found_.end(), 0);
    }
    // Page by page, then every partition whole.
    void expect_rows() {
        for (int32_t p = 0; p < set->partition_count(); ++p) {
            PageCursor cursor(*set, p, 0, set->page_count(p));
            for (RowSpan span; cursor.next(span);) check(span);
        }
        expect_all();
        for (int32_t p = 0; p < set->partition_count(); ++p) {
            std::vector<Buffer> memory;
            for (const RowSpan& span : set->load(p, memory)) check(span);
        }
        expect_all();
    }

    MemoryBudget budget{uint64_t{64} << 20};
    JobControl control;
    std::unique_ptr<PartitionedRows> set;

  private:
    const size_t longest_;
    std::vector<int> found_;  // of each key
};

}  // namespace

// A record for each page, which no budget counts, would take more memory than the budget has.
TEST(radix_partition_texts_spill_in_runs) {
    Spilled rows(20000, kRunBytes, 256 * kPageBytes);
    EXPECT(rows.spilled_bytes() > 20 * kRunBytes);
    // Partitions that go to disk whole and the last pages of a pass make shorter runs.
    EXPECT(rows.records() * kRunBytes < 2 * rows.spilled_bytes());
    rows.expect_rows();
}

TEST(radix_partition_texts_take_no_more_bytes_on_disk_than_they_have) {
    Spilled rows(20000, kRunBytes, 256 * kPageBytes);
    // Heaps begin at whole words, and writes take whole pages of the system.
    EXPECT(rows.control.spilled_bytes <= rows.spilled_bytes() + rows.spilled_bytes() / 64);
    rows.expect_rows();
}

TEST(radix_partition_texts_spill_page_by_page_where_runs_are_one_page) {
    Spilled rows(5000, 0, 40 * kPageBytes);
    EXPECT(rows.records() * kPageBytes > rows.spilled_bytes() / 2);
    rows.expect_rows();
}

TEST(radix_partition_rows_larger_than_a_page_spill_with_others) {
    for (const size_t longest : {2 * kPageBytes + 3, kRunBytes + 5}) {
        Spilled rows(20000, kRunBytes, 256 * kPageBytes, longest);
        EXPECT(rows.records() * kRunBytes < 3 * rows.spilled_bytes());
        EXPECT_EQ(rows.bytes(), rows.expected_bytes());
        rows.expect_rows();
    }
}

}  // namespace spillway::test
