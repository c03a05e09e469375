// SPDX-License-Identifier: Apache-2.0
// What the GPU tests compare with, tested where there is no GPU: a reference that is wrong on both sides proves
// nothing.
#include <map>
#include <numeric>
#include <set>

#include "support/generators.hpp"
#include "support/host_table.hpp"
#include "support/reference_group_by.hpp"
#include "support/reference_join.hpp"
#include "support/row_hash.hpp"
#include "support/test.hpp"

namespace spillway {

namespace {

using namespace gpu_test;

constexpr int32_t kNull = -1;

HostColumn ints(const std::vector<int32_t>& values) {
    HostColumn column;
    column.width = 4;
    for (const int32_t value : values) value == kNull ? column.push_null() : column.push(value);
    return column;
}

std::map<uint64_t, uint64_t> counts_of(const std::vector<uint64_t>& keys) {
    std::map<uint64_t, uint64_t> counts;
    for (const uint64_t key : keys) ++counts[key];
    return counts;
}

double share_of_nulls(const std::vector<uint8_t>& bits, uint64_t rows) {
    uint64_t valid = 0;
    for (uint64_t row = 0; row < rows; ++row) valid += get_bit(bits.data(), static_cast<int64_t>(row));
    return 1 - static_cast<double>(valid) / static_cast<double>(rows);
}

}  // namespace

TEST(gpu_support_joins_are_those_of_the_definition) {
    const HostTable left{{ints({1, 2, 2, 3, kNull}), ints({10, 20, 21, 30, 40})}};
    const HostTable right{{ints({2, 2, 4, kNull, 1}), ints({200, 201, 400, 500, kNull})}};
    const std::map<JoinType, std::vector<std::vector<int32_t>>> expected = {
        {JoinType::kInner, {{1, 2, 2, 2, 2}, {10, 20, 20, 21, 21}, {1, 2, 2, 2, 2}, {kNull, 200, 201, 200, 201}}},
        {JoinType::kLeft,
         {{1, 2, 2, 2, 2, 3, kNull},
          {10, 20, 20, 21, 21, 30, 40},
          {1, 2, 2, 2, 2, kNull, kNull},
          {kNull, 200, 201, 200, 201, kNull, kNull}}},
        {JoinType::kRight,
         {{1, 2, 2, 2, 2, kNull, kNull},
          {10, 20, 20, 21, 21, kNull, kNull},
          {1, 2, 2, 2, 2, 4, kNull},
          {kNull, 200, 201, 200, 201, 400, 500}}},
        {JoinType::kFull,
         {{1, 2, 2, 2, 2, 3, kNull, kNull, kNull},
          {10, 20, 20, 21, 21, 30, 40, kNull, kNull},
          {1, 2, 2, 2, 2, kNull, kNull, 4, kNull},
          {kNull, 200, 201, 200, 201, kNull, kNull, 400, 500}}},
        {JoinType::kSemi, {{1, 2, 2}, {10, 20, 21}}},
        {JoinType::kAnti, {{3, kNull}, {30, 40}}}};
    for (const JoinType type : kAllJoinTypes) {
        HostTable wanted;
        for (const auto& column : expected.at(type)) wanted.columns.push_back(ints(column));
        EXPECT_EQ(row_difference(reference_join(left, right, {0}, {0}, type), wanted), "");
    }
}

TEST(gpu_support_joins_compare_all_key_columns) {
    const HostTable left{{ints({1, 1, 1}), ints({2, 3, kNull})}};
    const HostTable right{{ints({3, 2, kNull}), ints({1, 9, 1})}};
    const HostTable wanted{{ints({1}), ints({3}), ints({3}), ints({1})}};
    EXPECT_EQ(row_difference(reference_join(left, right, {0, 1}, {1, 0}, JoinType::kInner), wanted), "");
}

TEST(gpu_support_groups_and_aggregates_are_those_of_the_definition) {
    HostColumn floats;
    for (const double value : {0.5, 0.25, -1.0, 8.0}) floats.push(value);
    floats.push_null();
    const HostTable table{{ints({7, kNull, 7, kNull, 8}), ints({5, -3, -9, kNull, kNull}), floats}};
    const HostTable groups = reference_group_by(table, {0},
                                                {{Aggregate::kCountRows},
                                                 {Aggregate::kCount, 1},
                                                 {Aggregate::kSum, 1},
                                                 {Aggregate::kMin, 1},
                                                 {Aggregate::kMax, 1},
                                                 {Aggregate::kSum, 2, ValueKind::kFloat},
                                                 {Aggregate::kMax, 1, ValueKind::kUnsigned}});
    HostColumn sums = column_of(std::vector<int64_t>{-4, -3});
    sums.push_null();
    HostColumn float_sums = column_of(std::vector<double>{-0.5, 8.25});
    float_sums.push_null();
    const HostTable wanted{{ints({7, kNull, 8}), column_of(std::vector<uint64_t>{2, 2, 1}),
                            column_of(std::vector<uint64_t>{2, 1, 0}), sums, ints({-9, -3, kNull}),
                            ints({5, -3, kNull}), float_sums, ints({-9, -3, kNull})}};
    EXPECT_EQ(row_difference(groups, wanted), "");
    const HostTable all = reference_group_by(HostTable{{ints({})}}, {}, {{Aggregate::kCountRows}});
    EXPECT_EQ(row_difference(all, HostTable{{column_of(std::vector<uint64_t>{0})}}), "");
}

TEST(gpu_support_differences_name_a_row) {
    const HostTable table{{ints({1, 2, kNull})}};
    EXPECT_EQ(row_difference(HostTable{{ints({kNull, 1, 2})}}, table), "");
    EXPECT_EQ(row_difference(HostTable{{ints({1, 2})}}, table), "2 rows, expected 3; (NULL) is missing");
    EXPECT_EQ(row_difference(HostTable{{ints({2, 1, 2, kNull})}}, table),
              "4 rows, expected 3; (0x00000002) is there too often");
    EXPECT_EQ(row_difference(HostTable{{column_of(std::vector<uint8_t>{1})}}, table),
              "column 0 has values of 1 bytes, expected 4");
}

TEST(gpu_support_row_hash_is_the_documented_function) {
    // Two rows of 1, 4 and 16 bytes, one with a NULL; computed from the description with unbounded integers.
    HostTable table{{column_of(std::vector<uint8_t>{7, 255}), ints({kNull, 0x12345678}), HostColumn{16, {}, {}}}};
    const uint64_t wide[] = {5, 9, ~uint64_t{0}, 0};
    table.columns[2].push_bytes(wide);
    table.columns[2].push_bytes(wide + 2);
    EXPECT_EQ(host_row_hash(table), (RowHash{0x9c9e9c3579bf351f, 0x94d5e91b090d04f6}));
    table.columns[1].bytes[0] = 1;  // under the NULL
    EXPECT_EQ(host_row_hash(table), (RowHash{0x9c9e9c3579bf351f, 0x94d5e91b090d04f6}));
    EXPECT_EQ(host_row_hash(HostTable{{ints({})}}), RowHash{});
}

TEST(gpu_support_row_hash_sees_columns_that_are_exchanged) {
    const HostTable table{{ints({1, 2}), ints({3, 4})}};
    EXPECT(host_row_hash(table) != host_row_hash(HostTable{{table.columns[1], table.columns[0]}}));
    EXPECT(host_row_hash(table) != host_row_hash(HostTable{{ints({1, 2}), ints({4, 3})}}));
    EXPECT_EQ(host_row_hash(table), host_row_hash(HostTable{{ints({2, 1}), ints({4, 3})}}));
}

TEST(gpu_support_generators_make_what_they_say) {
    constexpr uint64_t kRows = 10'000;
    std::vector<uint64_t> dense = dense_permutation(kRows, 5);
    EXPECT(dense != dense_permutation(kRows, 6));
    std::sort(dense.begin(), dense.end());
    std::vector<uint64_t> all(kRows);
    std::iota(all.begin(), all.end(), uint64_t{0});
    EXPECT(dense == all);

    const std::vector<uint64_t> sparse = sparse_keys(kRows, 5);
    EXPECT_EQ(std::set<uint64_t>(sparse.begin(), sparse.end()).size(), kRows);
    EXPECT_EQ(sparse_keys(1, 5, 77).front(), sparse[77]);

    for (const auto& [key, count] : counts_of(repeated_keys({3, 5, 9}, 4, 5))) EXPECT_EQ(count, uint64_t{4});

    const auto zipf = counts_of(zipf_keys(kRows, 100, 1.0, 5));
    uint64_t most = 0;
    for (const auto& [key, count] : zipf) {
        EXPECT(key < 100);
        most = std::max(most, count);
    }
    EXPECT(most > kRows / 6 && most < kRows / 4);  // 1 / H(100) is 19 %

    most = 0;
    for (const auto& [key, count] : counts_of(one_hot_key(kRows, 0.9, 5))) most = std::max(most, count);
    EXPECT(most > kRows * 88 / 100 && most < kRows * 92 / 100);
}

TEST(gpu_support_nulls_and_payloads_follow_the_seed) {
    constexpr uint64_t kRows = 10'000;
    EXPECT(std::abs(share_of_nulls(null_mask(kRows, 0.3, 5), kRows) - 0.3) < 0.03);
    EXPECT_EQ(share_of_nulls(null_mask(kRows, 0, 5), kRows), 0.0);
    EXPECT_EQ(share_of_nulls(null_mask(kRows, 1, 5), kRows), 1.0);
    for (const uint32_t width : {1u, 2u, 4u, 8u, 16u}) {
        const HostColumn column = payload_column(1001, width, 5, 1);
        EXPECT_EQ(column.rows(), uint64_t{1001});
        EXPECT(column.bytes == payload_column(1001, width, 5, 1).bytes);
        EXPECT(column.bytes != payload_column(1001, width, 5, 2).bytes);
    }
}

}  // namespace spillway
