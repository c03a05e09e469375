// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "equi_join/radix_hash_join.hpp"
#include "equi_join/range_filter.hpp"
#include "gpu_test.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

// Keys from `first` on, each `step` behind the other, in any order.
std::vector<uint64_t> keys_from(uint64_t first, uint64_t rows, uint64_t step, uint64_t seed) {
    std::vector<uint64_t> keys = dense_permutation(rows, seed);
    for (uint64_t& key : keys) key = first + key * step;
    return keys;
}

uint64_t key_of(const KeyedRelation& relation, uint64_t row) {
    const HostColumn& keys = relation.host().columns[0];
    return keys.width == 4 ? keys.value<uint32_t>(row) : keys.value<uint64_t>(row);
}

// Bits by the definition: a key of a row counts from `first` on, modulo its width.
void check_bits(const KeyedRelation& build, const KeyedRelation& probe, uint64_t first, uint64_t last,
                const std::string& what) {
    const cuda::RowsInRange in_range = cuda::rows_in_range(test_device(), build.device(), probe.device(), 1);
    if (!in_range) fail(what + ": nothing was left out", __FILE__, __LINE__);
    const uint64_t mask = probe.device().key.width == 4 ? 0xffffffffULL : ~0ULL;
    const auto words = download(in_range.bits.as<uint32_t>(), (probe.device().rows + 31) / 32);
    for (uint64_t row = 0; row < words.size() * 32; ++row) {
        bool expected = row < probe.device().rows && probe.host().columns[0].is_valid(row);
        if (expected) expected = ((key_of(probe, row) - first) & mask) <= ((last - first) & mask);
        if ((words[row / 32] >> row % 32 & 1) != (expected ? 1U : 0U)) {
            fail(what + ": row " + std::to_string(row), __FILE__, __LINE__);
        }
    }
}

}  // namespace

GPU_TEST("range filter: bits of rows around the sizes of words and tiles, key widths, NULL keys, both orders") {
    const std::vector<uint64_t> sizes =
        full_suite() ? std::vector<uint64_t>{1024, 1025, 4095, 65536, 700001} : std::vector<uint64_t>{2049};
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint64_t rows : sizes) {
            const std::string what = std::to_string(key_width) + "-byte keys, rows " + std::to_string(rows);
            const KeyedRelation build(keys_from(1000, 500, 2, test_seed()), key_width, {}, test_seed());
            const KeyedRelation probe(keys_from(0, rows, 5, test_seed()), key_width, {}, test_seed(), 0.2);
            check_bits(build, probe, 1000, 1998, what);
            // Keys below and above 0, whose range is small by signed order alone.
            const KeyedRelation around(keys_from(0 - uint64_t{250}, 500, 1, test_seed()), key_width, {}, test_seed());
            const KeyedRelation wider(keys_from(0 - uint64_t{rows}, rows, 2, test_seed()), key_width, {}, test_seed());
            check_bits(around, wider, 0 - uint64_t{250}, 249, what + ", around zero");
        }
    }
    // Keys at both ends of what they can be.
    const KeyedRelation ends({0, ~0ULL}, 8, {}, test_seed());
    const KeyedRelation some(keys_from(1ULL << 40, 5000, 1, test_seed()), 8, {}, test_seed());
    check_bits(ends, some, ~0ULL, 0, "both ends");
}

GPU_TEST("range filter: not where it would leave few rows out, nor for few rows or without keys") {
    cuda::Device& device = test_device();
    const KeyedRelation build(keys_from(0, 3000, 1, test_seed()), 4, {}, test_seed());
    const KeyedRelation probe(keys_from(0, 3300, 1, test_seed()), 4, {}, test_seed());
    const KeyedRelation far(keys_from(9000, 3300, 1, test_seed()), 4, {}, test_seed());
    const KeyedRelation keyless(keys_from(0, 3000, 1, test_seed()), 4, {}, test_seed(), 1.0);
    const KeyedRelation none({}, 4, {}, test_seed());
    CHECK(!cuda::rows_in_range(device, build.device(), probe.device(), 1));
    CHECK(!cuda::rows_in_range(device, build.device(), far.device(), 5000));
    CHECK(!cuda::rows_in_range(device, keyless.device(), far.device(), 1));
    CHECK(!cuda::rows_in_range(device, none.device(), far.device(), 1));
    CHECK(!cuda::rows_in_range(device, build.device(), none.device(), 1));
    CHECK(static_cast<bool>(cuda::rows_in_range(device, build.device(), far.device(), 1)));
}

GPU_TEST("range filter: few rows that stay are gathered, with their row numbers, and many are not") {
    cuda::Device& device = test_device();
    const KeyedRelation build(keys_from(50, 100, 1, test_seed()), 8, {}, test_seed());
    for (const uint64_t rows : {uint64_t{1200}, uint64_t{40001}}) {
        const KeyedRelation probe(keys_from(0, rows, 1, test_seed()), 8, {1, 2, 4, 8, 16}, test_seed(), 0.1);
        const cuda::RowsInRange in_range = cuda::rows_in_range(device, build.device(), probe.device(), 1);
        cuda::DeviceRelation relation = probe.device();
        relation.columns.push_back({nullptr, 4});
        const cuda::KeptRows none = cuda::keep_rows(device, relation, in_range.bits, 0, 1, rows + 1);
        CHECK_EQ(none.relation.rows, rows);
        CHECK(none.relation.key_valid == in_range.bits.as<const uint32_t>());
        const cuda::KeptRows kept = cuda::keep_rows(device, relation, in_range.bits, 0, 1, 1);
        CHECK(kept.relation.key_valid == nullptr);
        const auto numbers =
            download(static_cast<const uint32_t*>(kept.relation.columns.back().data), kept.relation.rows);
        const auto keys = download(static_cast<const uint64_t*>(kept.relation.key.data), kept.relation.rows);
        const auto bytes = download(static_cast<const uint8_t*>(kept.relation.columns[0].data), kept.relation.rows);
        std::vector<uint64_t> expected;
        for (uint64_t row = 0; row < rows; ++row) {
            const uint64_t key = key_of(probe, row);
            if (probe.host().columns[0].is_valid(row) && key >= 50 && key < 150) expected.push_back(row);
        }
        CHECK_EQ(kept.relation.rows, expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
            CHECK_EQ(numbers[i], expected[i]);
            CHECK_EQ(keys[i], key_of(probe, expected[i]));
            CHECK_EQ(bytes[i], probe.host().columns[1].value<uint8_t>(expected[i]));
        }
        CHECK(cuda::keep_rows(device, relation, in_range.bits, 0.5, 0.4, 1).memory.empty());
    }
}

GPU_TEST("range filter: build rows whose key a probe row has") {
    cuda::Device& device = test_device();
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint64_t rows : {uint64_t{33}, uint64_t{5000}}) {
            // Keys around zero, some of them twice, and a third of them on the probe side.
            const uint64_t first = 0 - rows / 2;
            const KeyedRelation build(repeated_keys(keys_from(first, rows, 1, test_seed()), 2, test_seed()), key_width,
                                      {}, test_seed(), 0.1);
            const KeyedRelation probe(keys_from(first, rows / 3, 3, test_seed()), key_width, {}, test_seed(), 0.1);
            const cuda::KeyRange range = cuda::find_key_range(device, build.device());
            std::set<uint64_t> keys;
            for (uint64_t row = 0; row < rows / 3; ++row) {
                if (probe.host().columns[0].is_valid(row)) keys.insert(key_of(probe, row));
            }
            const cuda::Allocation bits = cuda::rows_with_partner(device, build.device(), probe.device(), range);
            const auto words = download(bits.as<uint32_t>(), (build.device().rows + 31) / 32);
            for (uint64_t row = 0; row < words.size() * 32; ++row) {
                bool expected = row < build.device().rows && build.host().columns[0].is_valid(row);
                expected = expected && keys.count(key_of(build, row)) > 0;
                CHECK_EQ(words[row / 32] >> row % 32 & 1, expected ? 1U : 0U);
            }
        }
    }
}

GPU_TEST("range filter: joins leave out what it says, and keep what they must") {
    // Enough probe rows to be asked for; else joins are made without it, and the small suite has the bits alone.
    const uint64_t rows = full_suite() ? cuda::kRangeFilterRowsMin + 5 : 2000;
    const KeyedRelation build(repeated_keys(keys_from(7, rows / 10, 3, test_seed()), 2, test_seed()), 4, {4, 8},
                              test_seed(), 0.1);
    const KeyedRelation probe(keys_from(0, rows, 3, test_seed()), 4, {8}, test_seed() + 1, 0.1);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        if (named.kind.keeps_unmatched_probe()) continue;  // those never ask
        cuda::EquiJoin join;
        join.kind = named.kind;
        join.output = all_columns_and_presence(build, probe);
        const HostTable expected = expected_table(build, probe, named.kind);
        join.expected_rows = expected.rows();
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), expected.rows());
        // Whole rows, and by packs.
        for (const uint32_t words : {0U, 1U}) {
            join.row_words_max = words;
            check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected,
                         named.name + std::string(words == 0 ? ", whole rows" : ", packs"));
        }
    }
}

GPU_TEST("range filter: joins that gather the rows with a partner, of any widths, packed and not") {
    cuda::Device& device = test_device();
    const uint64_t rows = full_suite() ? 30'000 : 3000;
    // One of 20 keys of the probe side is in the range, where every third key of the build side is met, every twelfth,
    // so that build rows are gathered too, or every one; the last probe side has no key there.
    for (const auto& [first, step] :
         std::vector<std::pair<uint64_t, uint64_t>>{{0, 3}, {0, 12}, {0, 1}, {1 << 30, 1}}) {
        const KeyedRelation build(repeated_keys(keys_from(1000, rows / 2, 1, test_seed()), 2, test_seed()), 4,
                                  {4, 8, 1, 16, 2}, test_seed(), 0.1);
        const KeyedRelation probe(keys_from(first, rows * 10 / step, step, test_seed()), 4, {8, 2, 1, 16},
                                  test_seed() + 1, 0.1);
        const cuda::FilteredSides sides = cuda::filter_sides(device, build.device(), probe.device(), {}, 1, 1);
        CHECK_EQ(sides.build.memory.empty(), step != 12);
        for (const NamedJoinKind& named : kNamedJoinKinds) {
            const HostTable expected = expected_table(build, probe, named.kind);
            for (const uint32_t words : {0U, 1U}) {
                cuda::RadixJoinWish wish;
                wish.kind = named.kind;
                wish.output = all_columns_and_presence(build, probe);
                wish.row_words_max = words;
                wish.filter_rows_min = 1;
                wish.gathered_rows_min = 1;
                cuda::RadixHashJoin join(device, build.device(), probe.device(), wish);
                CHECK_EQ(join.count(), expected.rows());
                check_result(join.materialize(expected.rows(), cuda::OutputPlan::kOnePass), expected,
                             named.name + std::string(", keys from ") + std::to_string(first) + " by " +
                                 std::to_string(step) + (words == 0 ? ", whole rows" : ", packs"));
            }
        }
    }
}

GPU_TEST("range filter: rows that are more than a sample expected are not gathered") {
    cuda::Device& device = test_device();
    // All keys of the probe side are in the range, for whose end the build side has a single key.
    std::vector<uint64_t> keys = keys_from(0, 20'000, 1, test_seed());
    keys[keys.size() / 2 + 1] = 1'000'000;  // no row of the sample
    const KeyedRelation build(keys, 4, {4}, test_seed());
    const KeyedRelation probe(keys_from(0, 50'000, 20, test_seed()), 4, {4}, test_seed());
    const cuda::FilteredSides sides = cuda::filter_sides(device, build.device(), probe.device(), {}, 1, 1);
    CHECK(sides.in_range.kept_share < cuda::kGatheredShareMax);
    CHECK_EQ(sides.probe.relation.rows, probe.device().rows);
    CHECK(sides.probe.memory.empty());
}

GPU_TEST("range filter: more rows are gathered if both sides get smaller, or have more bytes") {
    cuda::Device& device = test_device();
    const uint64_t rows = 6000;
    // A sixth of the probe rows is in the range, with a sixth of its keys. Rows have 8 bytes, 20, and 36, which is more
    // than what is moved whole.
    const std::vector<uint64_t> build_keys = keys_from(0, rows, 1, test_seed());
    const std::vector<uint64_t> probe_keys = keys_from(0, rows, 6, test_seed());
    const std::vector<std::vector<uint32_t>> columns = {{4}, {8, 8}, {8, 8, 16}};
    cuda::JoinKind keeps_build;
    keeps_build.keep_unmatched_build = true;
    for (size_t i = 0; i < columns.size(); ++i) {
        const KeyedRelation build(build_keys, 4, columns[i], test_seed());
        const KeyedRelation probe(probe_keys, 4, columns[i], test_seed());
        const cuda::FilteredSides both = cuda::filter_sides(device, build.device(), probe.device(), {}, 1, 1);
        CHECK_EQ(both.probe.relation.rows, rows / 6);
        CHECK_EQ(both.build.relation.rows, rows / 6);
        const cuda::FilteredSides one = cuda::filter_sides(device, build.device(), probe.device(), keeps_build, 1, 1);
        CHECK_EQ(one.probe.relation.rows, i == 1 ? rows / 6 : rows);
        CHECK_EQ(one.build.relation.rows, rows);
    }
}

}  // namespace spillway::gpu_test
