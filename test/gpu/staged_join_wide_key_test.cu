// SPDX-License-Identifier: Apache-2.0
// Joins beyond GPU memory whose keys go on in columns of both sides: rows that have the same first word and other ones
// behind it are no partners.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "support/error_of.hpp"
#include "support/group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

// Each word of the key has few values, so that all of them tell rows apart. Columns of 16 and of 4 bytes stand beside,
// of which the first lies before the words in a packed row.
KeyedRelation relation_of(uint64_t rows, uint64_t first_words, uint64_t other_words, uint32_t key_columns,
                          uint64_t seed, double null_share = 0) {
    std::vector<uint8_t> valid;
    if (null_share > 0) valid = null_mask(rows, null_share, seed);
    HostTable table;
    table.columns.push_back(column_of(drawn_keys(rows, first_words, seed), valid));
    for (uint32_t c = 0; c < key_columns; ++c) {
        table.columns.push_back(column_of(drawn_keys(rows, other_words, seed + 7 * (c + 1))));
    }
    if (key_columns == 1) table.columns.push_back(payload_column(rows, 4, seed, 3));
    if (key_columns == 1 && seed % 2 == 0) table.columns.push_back(payload_column(rows, 8, seed, 4));
    return KeyedRelation(std::move(table));
}

void check_kinds(const KeyedRelation& build, const KeyedRelation& probe, uint32_t key_columns,
                 const std::string& what) {
    size_t turn = test_seed();
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        if (!full_suite() && ++turn % 3 != 0) continue;
        const StagedJoinCheck check(build, probe, named.kind, key_columns);
        const uint64_t rows = build.host().rows();
        const std::string of = what + ", " + named.name + ", " + std::to_string(key_columns) + " more words";
        check.all(ample_sizes(rows, 3), of + ", all resident");
        check.all(spilled_sizes(rows, 3, 3), of + ", some partitions resident");
        check.all(least_sizes(2), of + ", least pages");
    }
}

}  // namespace

GPU_TEST("staged join of wide keys: every kind, with one to three words more") {
    const uint64_t rows = small_or_full(900, 4000);
    for (const uint32_t key_columns : {1U, 2U, 3U}) {
        const uint64_t others = key_columns == 1 ? 40 : 7;
        const KeyedRelation build = relation_of(rows, 30, others, key_columns, 2 * test_seed(), 0.05);
        const KeyedRelation probe = relation_of(2 * rows, 33, others, key_columns, 2 * test_seed() + 1, 0.05);
        check_kinds(build, probe, key_columns, "few values a word");
    }
}

// All first words are the same, so that one bucket has all rows; the words behind them differ, or are the same too.
GPU_TEST("staged join of wide keys: one first word") {
    const uint64_t rows = small_or_full(300, 1500);
    for (const uint64_t others : {uint64_t{1}, uint64_t{2}, rows}) {
        const KeyedRelation build = relation_of(others == 1 ? rows / 10 : rows, 1, others, 1, test_seed());
        const KeyedRelation probe = relation_of(others == 1 ? rows / 10 : rows, 1, others, 1, test_seed() + 1);
        check_kinds(build, probe, 1, std::to_string(others) + " second words");
    }
}

GPU_TEST("staged join of wide keys: columns that are no words are refused") {
    const auto make = [](uint32_t key_bytes, const cuda::ColumnWidths& build, uint32_t key_columns) {
        StagedJoinSpec spec;
        spec.key_bytes = key_bytes;
        spec.widths[0] = build;
        spec.widths[1] = {8};
        spec.result = JoinResultKind::kCount;
        spec.key_columns = key_columns;
        spec.sizes = ample_sizes(100, 2);
        StagedJoin join(test_device(), spec);
    };
    make(8, {8}, 1);
    CHECK_EQ(error_of([&] { make(4, {8}, 1); }).code(), cuda::ErrorCode::kInvalid);
    CHECK_EQ(error_of([&] { make(8, {4}, 1); }).code(), cuda::ErrorCode::kInvalid);
    CHECK_EQ(error_of([&] { make(8, {8}, 2); }).code(), cuda::ErrorCode::kInvalid);
    CHECK_EQ(error_of([&] { make(8, {}, 1); }).code(), cuda::ErrorCode::kInvalid);
}

}  // namespace spillway::gpu_test
