// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "group_by/sorted/dictionary.hpp"
#include "group_by/sorted/sort_pairs.hpp"
#include "group_by/sorted/sorted_policy.hpp"
#include "support/group_by_check.hpp"

// The group-bys that sort columns, and the one that gathers values of partitions.
namespace spillway::gpu_test {

namespace {

const std::vector<GroupByAlgorithm> kThese = {GroupByAlgorithm::kSortedColumns, GroupByAlgorithm::kDictionarySorted,
                                              GroupByAlgorithm::kPartitionedGather};

std::vector<WantedAggregate> all_of(size_t column, ValueKind kind) {
    return {{Aggregate::kCount, column, kind}, {Aggregate::kSum, column, kind},  {Aggregate::kMin, column, kind},
            {Aggregate::kMax, column, kind},   {Aggregate::kMean, column, kind}, {Aggregate::kFirst, column, kind}};
}

struct ValueColumn {
    uint32_t width;
    ValueKind kind;
};

// All aggregates of all columns that one request has room for.
void check_columns(const std::vector<uint64_t>& keys, uint32_t key_width, const std::vector<ValueColumn>& columns,
                   double null_share, bool has_null_keys, const std::string& what, uint64_t expected_groups = 0,
                   const std::vector<GroupByAlgorithm>& algorithms = kThese) {
    HostTable table;
    std::vector<uint8_t> valid;
    if (has_null_keys) valid = null_mask(keys.size(), 0.3, test_seed());
    table.columns.push_back(group_keys_column(keys, key_width, valid));
    std::vector<WantedAggregate> aggregates = {{Aggregate::kCountRows}};
    for (const ValueColumn& column : columns) {
        const size_t number = table.columns.size();
        table.columns.push_back(value_column(keys.size(), column.width, column.kind, test_seed(), number,
                                             number % 2 == 1 ? null_share : 0));
        for (const WantedAggregate& wanted : all_of(number, column.kind)) aggregates.push_back(wanted);
    }
    check_group_by(GroupInput(std::move(table)), aggregates, expected_groups, what, algorithms);
}

const std::vector<ValueColumn> kTwoColumns = {{4, ValueKind::kSigned}, {8, ValueKind::kFloat}};

// Runs of these lengths, in the order of their keys.
std::vector<uint64_t> keys_of_runs(const std::vector<uint64_t>& lengths) {
    std::vector<uint64_t> keys;
    for (size_t run = 0; run < lengths.size(); ++run) keys.insert(keys.end(), lengths[run], run * 3 + 1);
    return keys;
}

}  // namespace

GPU_TEST("group by sorted: widths of keys and values, with and without NULLs") {
    const uint64_t rows = small_or_full(2500, 150000);
    const std::vector<uint64_t> keys = drawn_keys(rows, rows / 40, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const double null_share : {0.0, 0.4}) {
            const std::string what = std::to_string(key_width) + "-byte keys, NULLs " + std::to_string(null_share);
            check_columns(keys, key_width, {{1, ValueKind::kSigned}, {2, ValueKind::kUnsigned}, {4, ValueKind::kFloat}},
                          null_share, false, what + ", narrow values");
            check_columns(keys, key_width, {{8, ValueKind::kSigned}, {8, ValueKind::kUnsigned}, {8, ValueKind::kFloat}},
                          null_share, null_share > 0, what + ", wide values");
            if (!full_suite()) continue;
            check_columns(keys, key_width,
                          {{1, ValueKind::kUnsigned}, {2, ValueKind::kSigned}, {4, ValueKind::kUnsigned}}, null_share,
                          true, what + ", other kinds");
        }
    }
}

GPU_TEST("group by sorted: one group, a group per row, and what lies between") {
    const uint64_t rows = small_or_full(3 * cuda::kRunTileRows + 5, 100 * cuda::kRunTileRows + 5);
    check_columns(std::vector<uint64_t>(rows, 77), 4, kTwoColumns, 0.3, false, "one group");
    check_columns(dense_permutation(rows, test_seed()), 8, kTwoColumns, 0.3, false, "a group per row");
    check_columns(one_hot_key(rows, 0.7, test_seed()), 8, kTwoColumns, 0, false, "one hot key");
    if (!full_suite()) return;
    check_columns(std::vector<uint64_t>(rows, ~0ULL), 8, kTwoColumns, 0, true, "one group of 8-byte keys");
    check_columns(dense_permutation(rows, test_seed()), 4, kTwoColumns, 0, true, "a group per row, NULL keys");
    for (const double exponent : {0.75, 1.5}) {
        check_columns(zipf_keys(rows, rows / 8, exponent, test_seed()), 4, kTwoColumns, 0.2, true, "Zipf");
    }
    // Numbers of keys in one, two and three bytes.
    for (const uint64_t distinct : {256, 257, 65536, 65537}) {
        check_columns(drawn_keys(rows, distinct, test_seed()), 8, kTwoColumns, 0, false, "numbers of some bytes", 9);
    }
}

GPU_TEST("group by sorted: groups that end at edges of tiles, of threads and beside them") {
    const uint64_t tile = cuda::kRunTileRows;
    const std::vector<std::vector<uint64_t>> cases = {{tile, tile, 1},
                                                      {tile - 1, 1, 1, tile - 1},
                                                      {1, 2 * tile, 7, 8, 9},
                                                      {8, 256, 31 * 8, tile - 512, 3},
                                                      {tile / 2, 2 * tile + 1, tile / 2 - 1}};
    for (const std::vector<uint64_t>& lengths : cases) {
        check_columns(keys_of_runs(lengths), 4, kTwoColumns, 0.5, false, "runs that were sorted before", 0,
                      {GroupByAlgorithm::kSortedColumns});
    }
}

GPU_TEST("group by sorted: few rows, NULL keys alone, no values") {
    for (const uint64_t rows : {0, 1, 2, 33}) {
        check_columns(drawn_keys(rows, 5, test_seed()), 8, kTwoColumns, 0.5, rows > 2, "few rows");
    }
    HostTable nulls;
    nulls.columns.push_back(group_keys_column({5, 6, 7}, 4, {0}));
    nulls.columns.push_back(value_column(3, 4, ValueKind::kSigned, test_seed(), 1));
    check_group_by(GroupInput(std::move(nulls)), all_of(1, ValueKind::kSigned), 0, "NULL keys alone", kThese);
    const uint64_t rows = small_or_full(2 * cuda::kRunTileRows + 3, 200000);
    for (const uint32_t key_width : {4U, 8U}) {
        check_columns(drawn_keys(rows, 300, test_seed()), key_width, {}, 0, key_width == 8, "count of rows");
    }
    HostTable table;
    table.columns.push_back(group_keys_column(drawn_keys(rows, rows / 2, test_seed()), 8));
    check_group_by(GroupInput(std::move(table)), {}, 0, "keys alone", kThese);
}

GPU_TEST("group by sorted: narrow columns and many bitmaps share words") {
    const uint64_t rows = small_or_full(2000, 100000);
    for (const size_t columns : {size_t{7}, size_t{12}, size_t{20}}) {
        HostTable table;
        table.columns.push_back(group_keys_column(drawn_keys(rows, 90, test_seed()), 4));
        std::vector<WantedAggregate> aggregates;
        for (size_t column = 1; column <= columns; ++column) {
            table.columns.push_back(value_column(rows, 1U << column % 4, ValueKind::kSigned, test_seed(), column, 0.3));
            aggregates.push_back({column % 2 == 0 ? Aggregate::kMax : Aggregate::kMin, column});
        }
        check_group_by(GroupInput(std::move(table)), aggregates, 0, std::to_string(columns) + " bitmaps", kThese);
    }
}

GPU_TEST("group by sorted: a sort by the bits that differ keeps the order of rows") {
    cuda::Device& device = test_device();
    const uint64_t rows = small_or_full(5000, 300000);
    std::vector<uint64_t> keys;
    std::vector<uint32_t> numbers;
    for (uint64_t row = 0; row < rows; ++row) {
        keys.push_back(0xabc0000000000003ULL | (random64(test_seed(), row) % 300) << 20);
        numbers.push_back(static_cast<uint32_t>(row));
    }
    const DeviceArray<uint64_t> key = upload(keys);
    const DeviceArray<uint32_t> number = upload(numbers);
    const cuda::KeyBits bits = cuda::differing_bits(device, {key.data(), 8}, rows);
    CHECK_EQ(bits.begin, 20);
    CHECK_EQ(bits.end, 29);
    const cuda::SortedPairs sorted = cuda::sort_pairs(device, {key.data(), 8}, {number.data(), 4}, rows, bits);
    const auto sorted_keys = download(sorted.keys.as<uint64_t>(), rows);
    const auto sorted_numbers = download(sorted.values.as<uint32_t>(), rows);
    for (uint64_t row = 0; row < rows; ++row) {
        CHECK_EQ(sorted_keys[row], keys[sorted_numbers[row]]);
        if (row == 0) continue;
        CHECK(sorted_keys[row - 1] <= sorted_keys[row]);
        CHECK(sorted_keys[row - 1] < sorted_keys[row] || sorted_numbers[row - 1] < sorted_numbers[row]);
    }
    const std::vector<uint32_t> same(rows, 7);
    const DeviceArray<uint32_t> same_key = upload(same);
    CHECK_EQ(cuda::differing_bits(device, {same_key.data(), 4}, rows).end, 1);
}

GPU_TEST("group by sorted: a dictionary knows each key by its number") {
    const uint64_t rows = small_or_full(5000, 300000);
    for (const uint64_t distinct : {uint64_t{1}, uint64_t{3}, rows / 2}) {
        std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
        keys[0] = ~0ULL;
        std::vector<uint64_t> column(rows);
        for (uint64_t row = 0; row < rows; ++row) column[row] = keys[random64(test_seed(), row) % distinct];
        const DeviceArray<uint64_t> distinct_keys = upload(keys);
        const DeviceArray<uint64_t> all = upload(column);
        const cuda::Allocation numbers =
            cuda::encode_keys(test_device(), {all.data(), 8}, rows, distinct_keys.data(), distinct);
        const std::vector<uint32_t> found = download(numbers.as<uint32_t>(), rows);
        for (uint64_t row = 0; row < rows; ++row) {
            CHECK(found[row] < distinct);
            CHECK_EQ(keys[found[row]], column[row]);
        }
    }
}

GPU_TEST("group by sorted: refused memory at every allocation, with NULLs") {
    const uint64_t rows = 5000;
    HostTable table;
    table.columns.push_back(
        group_keys_column(drawn_keys(rows, 700, test_seed()), 8, null_mask(rows, 0.2, test_seed())));
    table.columns.push_back(value_column(rows, 2, ValueKind::kSigned, test_seed(), 1, 0.3));
    table.columns.push_back(value_column(rows, 8, ValueKind::kFloat, test_seed(), 2, 0.3));
    const GroupInput input(std::move(table));
    const std::vector<WantedAggregate> aggregates = {
        {Aggregate::kSum, 1}, {Aggregate::kFirst, 1}, {Aggregate::kMax, 2, ValueKind::kFloat}};
    cuda::MemoryPool& memory = test_device().memory();
    for (const GroupByAlgorithm algorithm : kThese) {
        const cuda::GroupByRequest request = input.request(algorithm, aggregates, 0);
        const uint64_t before = memory.used_bytes();
        uint64_t failures = 0;
        bool is_done = false;
        for (uint64_t n = 1; !is_done && n < 200; ++n) {
            memory.fail_after(n);
            try {
                cuda::group_by(test_device(), request);
                is_done = true;
            } catch (const cuda::Error& error) {
                CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
                ++failures;
            }
            CHECK_EQ(memory.used_bytes(), before);
        }
        memory.fail_after(0);
        CHECK(is_done);
        CHECK(failures > 10);
    }
}

}  // namespace spillway::gpu_test
