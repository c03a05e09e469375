// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "sort_merge_join/sort_merge_policy.hpp"
#include "support/sort_merge_join_check.hpp"

namespace spillway::gpu_test {

namespace {

constexpr NamedJoinKind kInner = kNamedJoinKinds[0];
constexpr NamedJoinKind kFullOuter = kNamedJoinKinds[3];

uint64_t value_at(const std::vector<uint8_t>& bytes, uint32_t width, uint64_t row) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + row * width, width);
    return value;
}

}  // namespace

GPU_TEST("sort-merge join: every kind, key widths, match ratios, NULL keys") {
    const uint64_t rows = small_or_full(1200, 30000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    uint64_t turn = 0;
    for (const double share : {0.0, 0.5, 1.0}) {
        const auto foreign = foreign_keys(keys, 2 * rows, share, test_seed());
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation build(keys, key_width, {4, 1, 8}, test_seed(), 0.1);
            const KeyedRelation probe(foreign, key_width, {4, 4}, test_seed() + 1, 0.2);
            const KeyedRelation keyed(foreign, key_width, {2}, test_seed() + 1);
            for (const SortMergeScheme scheme : kSortMergeSchemes) {
                // Every scheme, width and share once where kernels are slow, though not each with each other.
                if (!full_suite() && turn++ % 5 != 0) continue;
                check_sort_merge_kinds(build, probe, scheme, "match ratio " + std::to_string(share));
                check_sort_merge(keyed, build, kFullOuter, scheme, "keys on one side");
            }
        }
    }
}

GPU_TEST("sort-merge join: payloads of every width on both sides") {
    const uint64_t rows = small_or_full(400, 10000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const auto foreign = foreign_keys(keys, rows, 0.9, test_seed());
    const std::vector<std::vector<uint32_t>> layouts = {{},
                                                        {1},
                                                        {2},
                                                        {4},
                                                        {8},
                                                        {16},
                                                        {kRowNumber4},
                                                        {kRowNumber8},
                                                        {1, 2, 4, 8, 16, kRowNumber4, kRowNumber8},
                                                        {16, 1, 8, 8, 16}};
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        for (size_t b = 0; b < layouts.size(); ++b) {
            const size_t p = (b + test_seed()) % layouts.size();  // pairs that differ from seed to seed
            const uint32_t key_width = (b + p) % 2 == 0 ? 4 : 8;
            const KeyedRelation build(keys, key_width, layouts[b], test_seed(), 0.05 * (b % 3));
            const KeyedRelation probe(foreign, key_width, layouts[p], test_seed() + 1, 0.05 * (p % 2));
            SortMergeOptions options;
            options.scheme = scheme;
            options.expected_rows = rows;
            const HostTable expected = expected_table(build, probe, kFullOuter.kind);
            check_sort_merge_one(build, probe, kFullOuter.kind, options, expected, "layout " + std::to_string(b));
        }
    }
}

GPU_TEST("sort-merge join: m:n, Zipf, one hot key on both sides") {
    const uint64_t distinct = small_or_full(60, 2000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto skewed = zipf_keys(distinct * 20, distinct * 4, 1.0, test_seed());
    const std::vector<uint64_t> dense = dense_permutation(distinct * 4, test_seed());
    // More pairs of one key than several units hold, runs that end in the middle of nothing.
    const uint64_t hot_rows = small_or_full(300, 900);
    std::vector<uint64_t> hot_build(hot_rows, 7);
    hot_build.insert(hot_build.end(), {6, 8, 9, 9});
    std::vector<uint64_t> hot_probe(hot_rows / 2, 7);
    hot_probe.insert(hot_probe.end(), {9, 6, 6, 5});
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        for (const uint64_t multiplicity : {2, 33}) {
            if (!full_suite() && (multiplicity == 2) == (scheme == SortMergeScheme::kGather)) continue;
            check_sort_merge(KeyedRelation(repeated_keys(keys, multiplicity, test_seed()), 8, {8}, test_seed()),
                             KeyedRelation(repeated_keys(keys, 3, test_seed() + 1), 8, {4, 2}, test_seed()), kInner,
                             scheme, "m:n");
        }
        check_sort_merge(KeyedRelation(dense, 4, {4}, test_seed()), KeyedRelation(skewed, 4, {4}, test_seed()),
                         kFullOuter, scheme, "Zipf probe side");
        check_sort_merge(KeyedRelation(skewed, 4, {4}, test_seed()), KeyedRelation(dense, 4, {4}, test_seed()),
                         kFullOuter, scheme, "Zipf build side");
        check_sort_merge(KeyedRelation(hot_build, 4, {4}, test_seed()), KeyedRelation(hot_probe, 4, {4}, test_seed()),
                         kFullOuter, scheme, "hot key on both sides");
    }
}

GPU_TEST("sort-merge join: runs of equal keys over several tiles, on either side") {
    const std::vector<uint64_t> few = {7, 8, 7, 9, 1000};
    for (const uint64_t rows : {uint64_t{cuda::kMergeTileRows} - 2, uint64_t{cuda::kMergeTileRows} * 2 + 33}) {
        std::vector<uint64_t> hot(rows, 7);
        for (uint64_t key = 0; key < 40; ++key) hot.push_back(key);
        const KeyedRelation many(hot, 8, {4}, test_seed());
        const KeyedRelation small(few, 8, {4}, test_seed());
        for (const NamedJoinKind& kind : kNamedJoinKinds) {
            if (!full_suite() && kind.kind.inner()) continue;  // the outer ones have its pairs
            check_sort_merge(many, small, kind, SortMergeScheme::kGather, "long run of the build side");
            check_sort_merge(small, many, kind, SortMergeScheme::kColumns, "long run of the probe side");
        }
    }
}

GPU_TEST("sort-merge join: empty and tiny sides, all keys NULL") {
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        for (const uint64_t build_rows : {0, 1, 3}) {
            for (const uint64_t probe_rows : {0, 1, 40}) {
                // By turns where kernels are slow.
                const uint64_t turn = build_rows + probe_rows + static_cast<uint64_t>(scheme);
                if (!full_suite() && turn % 3 != 0) continue;
                const KeyedRelation build(dense_permutation(build_rows, test_seed()), 4, {4}, test_seed());
                const KeyedRelation probe(dense_permutation(probe_rows, test_seed()), 4, {8}, test_seed());
                for (const NamedJoinKind& kind : kNamedJoinKinds) {
                    check_sort_merge(build, probe, kind, scheme, "tiny");
                }
            }
        }
        if (!full_suite() && scheme != SortMergeScheme::kColumns) continue;
        const KeyedRelation nothing(dense_permutation(50, test_seed()), 4, {4, 16}, test_seed(), 1.0);
        const KeyedRelation some(dense_permutation(70, test_seed()), 4, {2}, test_seed(), 0.5);
        check_sort_merge_kinds(nothing, some, scheme, "no build key");
        check_sort_merge_kinds(some, nothing, scheme, "no probe key");
    }
}

GPU_TEST("sort-merge join: sizes around tiles, keys that share bits, special keys") {
    constexpr uint64_t kTile = cuda::kMergeTileRows;
    for (const uint64_t rows : {kTile / 2 - 1, kTile / 2, kTile / 2 + 1, kTile + 17}) {
        const auto keys = dense_permutation(rows, test_seed());
        check_sort_merge(KeyedRelation(keys, 4, {4}, test_seed()), KeyedRelation(keys, 4, {4}, test_seed() + 1), kInner,
                         SortMergeScheme::kGather, "tiles");
    }
    const uint64_t rows = small_or_full(500, 5000);
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        for (const int shift : {0, 20, 50}) {
            auto keys = dense_permutation(rows, test_seed());
            for (uint64_t& key : keys) key = (key << shift) | 1;
            const KeyedRelation shifted(keys, 8, {8}, test_seed());
            check_sort_merge(shifted, shifted, kInner, scheme, "keys that share bits");
            SortMergeOptions all_bits;
            all_bits.scheme = scheme;
            all_bits.all_key_bits = true;
            check_sort_merge_one(shifted, shifted, kInner.kind, all_bits, expected_table(shifted, shifted, kInner.kind),
                                 "keys that share bits, sorted by all of them");
        }
        const std::vector<uint64_t> special = {0, ~0ULL, 1, ~1ULL, 0x80000000ULL, 0x7fffffffULL, 1ULL << 63, 5};
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation once(special, key_width, {4}, test_seed());
            const KeyedRelation more(repeated_keys(special, 9, test_seed()), key_width, {4}, test_seed());
            check_sort_merge(once, more, kFullOuter, scheme, "special keys");
        }
    }
}

GPU_TEST("sort-merge join: sorted columns are in one order, of equal keys in that of the input") {
    const uint64_t rows = small_or_full(3000, 100000);
    const std::vector<uint64_t> keys = zipf_keys(rows, rows / 8, 0.7, test_seed());
    for (const double null_share : {0.0, 0.2}) {
        for (const uint32_t key_width : {4U, 8U}) {
            const KeyedRelation relation(keys, key_width, {kRowNumber8, 1, 2, 4, 8, 16, kRowNumber4}, test_seed(),
                                         null_share);
            const JoinKind keeps_all = kFullOuter.kind;
            SortMergeOptions options;
            options.scheme = SortMergeScheme::kColumns;
            const cuda::SortedRelations sorted =
                cuda::sort_relations(test_device(), relation.device(), relation.device(), keeps_all,
                                     all_columns(relation, relation), options);
            const cuda::SortedSide& side = sorted.build;
            CHECK_EQ(side.relation.rows, rows);
            const auto sorted_keys = download(side.keys.as<uint8_t>(), rows * key_width);
            std::vector<std::vector<uint8_t>> columns;
            for (const cuda::DeviceColumn& column : side.relation.columns) {
                columns.push_back(download(static_cast<const uint8_t*>(column.data), rows * column.width));
            }
            for (uint64_t at = 0; at < rows; ++at) {
                const uint64_t row = value_at(columns[0], 8, at);
                const bool keyed = relation.host().columns[0].is_valid(row);
                CHECK_EQ(keyed, at < side.keyed_rows);
                if (keyed) {
                    CHECK_EQ(value_at(sorted_keys, key_width, at),
                             value_at(relation.host().columns[0].bytes, key_width, row));
                }
                if (at > 0 && at < side.keyed_rows) {
                    const uint64_t before = value_at(sorted_keys, key_width, at - 1);
                    const uint64_t key = value_at(sorted_keys, key_width, at);
                    CHECK(before < key || (before == key && value_at(columns[0], 8, at - 1) < row));
                }
                for (size_t c = 1; c < columns.size(); ++c) {
                    const HostColumn& from = relation.host().columns[c + 1];
                    CHECK(std::memcmp(columns[c].data() + at * from.width, from.bytes.data() + row * from.width,
                                      from.width) == 0);
                }
            }
        }
    }
}

}  // namespace spillway::gpu_test
