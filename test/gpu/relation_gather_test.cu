// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "relation/gather.hpp"
#include "relation/relation_policy.hpp"
#include "support/table_join_check.hpp"
#include "support/test_table.hpp"

namespace spillway::gpu_test {

namespace {

constexpr uint8_t kFirst = 1;
constexpr uint8_t kSecond = 2;

// Rows to gather, the bytes of presence with them.
struct Wanted {
    std::vector<uint64_t> rows;
    std::vector<uint8_t> present;

    Wanted(uint64_t count, uint64_t from_rows, uint64_t seed) {
        for (uint64_t i = 0; i < count; ++i) {
            rows.push_back(random64(seed, 2 * i) % from_rows);
            present.push_back(static_cast<uint8_t>(random64(seed, 2 * i + 1) % 8));
        }
    }
    cuda::Allocation upload_rows(uint32_t row_width, uint8_t mask) const {
        std::vector<uint64_t> numbers = rows;
        // Nobody looks at the number of a row that is not there.
        for (size_t i = 0; mask != 0 && i < numbers.size(); ++i) {
            if ((present[i] & mask) == 0) numbers[i] = ~uint64_t{0};
        }
        const HostColumn column =
            row_width == 8 ? column_of(numbers) : column_of(std::vector<uint32_t>(numbers.begin(), numbers.end()));
        return upload_block(column.bytes, "rows of a test");
    }
};

// In order: what is compared is which row has which value.
void check_column(const cuda::TableColumn& actual, const HostColumn& expected, uint64_t rows) {
    const HostColumn got = download(actual, rows);
    CHECK_EQ(got.width, expected.width);
    for (uint64_t row = 0; row < rows; ++row) {
        std::string cells[2];
        got.append_cell(row, cells[0]);
        expected.append_cell(row, cells[1]);
        CHECK(cells[0] == cells[1]);
    }
}

void check_gather(const TestTable& table, uint32_t column, const Wanted& wanted) {
    const HostColumn& from = table.host().columns[column];
    const uint64_t count = wanted.rows.size();
    const cuda::Allocation present = upload_block(wanted.present, "presence of a test");
    for (const uint32_t row_width : {4U, 8U}) {
        for (const uint8_t mask : {uint8_t{0}, kSecond}) {
            HostColumn expected;
            expected.width = from.width;
            for (uint64_t i = 0; i < count; ++i) {
                const bool is_there = mask == 0 || (wanted.present[i] & mask) != 0;
                is_there ? expected.push_from(from, wanted.rows[i]) : expected.push_null();
            }
            const cuda::Allocation rows = wanted.upload_rows(row_width, mask);
            const cuda::TableColumn actual =
                cuda::gather(test_device(), table.device().columns[column], table.device().rows, rows.as(), row_width,
                             count, mask == 0 ? nullptr : present.as<uint8_t>(), mask);
            CHECK_EQ(static_cast<bool>(actual.validity), count > 0 && (mask != 0 || !from.valid_bits.empty()));
            check_column(actual, expected, count);
        }
    }
}

TestTable of_strings(const std::vector<std::string>& values, std::vector<uint8_t> valid_bits = {}) {
    TestTable table;
    table.add_strings(values, std::move(valid_bits));
    return table;
}

}  // namespace

GPU_TEST("relation: values of every width by row number, with and without NULLs") {
    const uint64_t rows = small_or_full(333, 20000);
    TestTable table;
    for (const uint32_t width : {1U, 2U, 3U, 4U, 5U, 8U, 12U, 16U, 20U, 31U, 64U}) {
        const HostColumn column = payload_column(rows, width, test_seed(), width);
        table.add(column);
        table.add(with_nulls(column, 0.3, test_seed() + width));
    }
    const Wanted wanted(small_or_full(555, 40001), rows, test_seed());
    for (uint32_t column = 0; column < table.host().columns.size(); ++column) check_gather(table, column, wanted);
}

GPU_TEST("relation: gathers of no, one and some rows around a warp") {
    TestTable table;
    table.add(payload_column(40, 4, test_seed()));
    table.add(with_nulls(payload_column(40, 12, test_seed()), 0.5, test_seed()));
    table.add_strings(texts(40, 9, test_seed()), null_mask(40, 0.5, test_seed()));
    for (const uint64_t count : {0, 1, 31, 32, 33, 257}) {
        for (const uint32_t column : {0U, 1U, 2U}) check_gather(table, column, Wanted(count, 40, test_seed()));
    }
}

GPU_TEST("relation: byte strings by row number") {
    const uint64_t rows = small_or_full(400, 20000);
    const Wanted wanted(small_or_full(700, 40001), rows, test_seed());
    for (const uint64_t bytes_max : {1, 3, 40, 300}) {
        check_gather(of_strings(texts(rows, bytes_max, test_seed())), 0, wanted);
    }
    check_gather(of_strings(texts(rows, 25, test_seed()), null_mask(rows, 0.4, test_seed())), 0, wanted);
    check_gather(of_strings(std::vector<std::string>(rows)), 0, wanted);
}

GPU_TEST("relation: huge byte strings, and runs of empty ones between others") {
    const uint64_t rows = small_or_full(300, 3000);
    constexpr uint64_t kTile = cuda::kCopyTileBytes;
    std::vector<std::string> values(rows);
    for (const uint64_t bytes : {kTile - 1, kTile, kTile + 1, small_or_full(9, 1000) * kTile + 5, uint64_t{1}}) {
        values[random64(test_seed(), bytes) % rows] = std::string(bytes, 'a') + "end";
    }
    TestTable table = of_strings(values);
    Wanted in_order(rows, rows, test_seed());
    for (uint64_t i = 0; i < rows; ++i) in_order.rows[i] = i;
    check_gather(table, 0, in_order);
    // One byte here and there.
    std::vector<std::string> sparse(rows);
    for (uint64_t row = 0; row < rows; row += 97) sparse[row] = std::string(1, static_cast<char>('a' + row % 26));
    check_gather(of_strings(sparse), 0, in_order);
}

GPU_TEST("relation: one column out of two") {
    const uint64_t rows = small_or_full(300, 10000);
    for (const uint32_t width : {0U, 4U, 7U, 16U}) {  // 0: strings
        TestTable tables[2];
        for (const uint64_t t : {0, 1}) {
            const auto bits = null_mask(rows, 0.2, test_seed() + t);
            if (width == 0) {
                tables[t].add_strings(texts(rows, 30, test_seed() + t), bits);
            } else {
                HostColumn column = payload_column(rows, width, test_seed() + t);
                column.valid_bits = bits;
                tables[t].add(column);
            }
        }
        const uint64_t count = rows + 13;
        const Wanted first(count, rows, test_seed());
        Wanted second(count, rows, test_seed() + 1);
        second.present = first.present;
        const HostColumn* from[] = {&tables[0].host().columns[0], &tables[1].host().columns[0]};
        HostColumn expected;
        expected.width = from[0]->width;
        for (uint64_t i = 0; i < count; ++i) {
            if ((first.present[i] & kFirst) != 0) {
                expected.push_from(*from[0], first.rows[i]);
            } else {
                (first.present[i] & kSecond) != 0 ? expected.push_from(*from[1], second.rows[i]) : expected.push_null();
            }
        }
        const cuda::Allocation present = upload_block(first.present, "presence of a test");
        const cuda::Allocation first_rows = first.upload_rows(4, kFirst);
        const cuda::Allocation second_rows = second.upload_rows(8, kSecond);
        const cuda::TableColumn actual = cuda::gather_either(
            test_device(), {tables[0].device().columns[0], tables[0].device().rows, first_rows.as(), 4, kFirst},
            {tables[1].device().columns[0], tables[1].device().rows, second_rows.as(), 8, kSecond}, count,
            present.as<uint8_t>());
        check_column(actual, expected, count);
    }
}

}  // namespace spillway::gpu_test
