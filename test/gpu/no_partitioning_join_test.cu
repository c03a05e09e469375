// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "no_partitioning_join/npj_policy.hpp"
#include "support/no_partitioning_join_check.hpp"

namespace spillway::gpu_test {

namespace {

const std::vector<std::vector<uint32_t>> kLayouts = {
    {}, {1}, {2}, {4}, {8}, {16}, {kRowNumber4}, {kRowNumber8}, {1, 2, 4, 8, 16, kRowNumber4}, {16, 1, 8, 8}};

}  // namespace

GPU_TEST("no-partitioning join: linear probing, match ratios, key widths") {
    const uint64_t rows = small_or_full(2000, 30000);
    const std::vector<uint64_t> primary = sparse_keys(rows, test_seed());
    for (const double share : {0.0, 0.25, 1.0}) {
        const auto foreign = foreign_keys(primary, 2 * rows, share, test_seed());
        for (const uint32_t key_width : {4U, 8U}) {
            check(KeyedRelation(primary, key_width, {4, 4}, test_seed()),
                  KeyedRelation(foreign, key_width, {4, 8}, test_seed() + 1), {},
                  "match ratio " + std::to_string(share));
        }
    }
}

GPU_TEST("no-partitioning join: perfect hashing, match ratios, key widths, ranges") {
    const uint64_t rows = small_or_full(2000, 30000);
    for (const uint64_t first : {uint64_t{0}, uint64_t{1000}, uint64_t{0} - 700}) {  // the last from -700 on
        std::vector<uint64_t> primary = dense_permutation(rows, test_seed());
        for (uint64_t& key : primary) key += first;
        for (const double share : {0.0, 0.25, 1.0}) {
            auto foreign = foreign_keys(primary, 2 * rows, share, test_seed());
            // The neighbours of the range, also of the one that the table may be larger by.
            for (const uint64_t key : {first - 1, first + rows, first + rows + 5}) foreign.push_back(key);
            for (const uint32_t key_width : {4U, 8U}) {
                const KeyedRelation build(primary, key_width, {4, 4}, test_seed());
                const KeyedRelation probe(foreign, key_width, {4, 8}, test_seed() + 1);
                check(build, probe, perfect(first, rows), "exact range");
                check(build, probe, perfect(first - 3, rows + 9), "larger range");
            }
        }
    }
}

GPU_TEST("no-partitioning join: payloads of every width on both sides, both schemes") {
    const uint64_t rows = small_or_full(500, 10000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const auto foreign = foreign_keys(keys, rows, 0.9, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const auto& build_widths : kLayouts) {
            for (const auto& probe_widths : kLayouts) {
                const KeyedRelation build(keys, key_width, build_widths, test_seed());
                const KeyedRelation probe(foreign, key_width, probe_widths, test_seed() + 1);
                const HostTable expected = expected_rows(build, probe);
                check_one(build, probe, {}, expected, "linear probing");
                check_one(build, probe, perfect(0, rows), expected, "perfect hashing");
            }
        }
    }
}

GPU_TEST("no-partitioning join: empty and tiny sides") {
    for (const uint64_t build_rows : {0, 1, 2, 40}) {
        for (const uint64_t probe_rows : {0, 1, 31, 33}) {
            for (const uint32_t key_width : {4U, 8U}) {
                const KeyedRelation build(dense_permutation(build_rows, test_seed()), key_width, {4}, test_seed());
                const KeyedRelation probe(dense_permutation(probe_rows, test_seed() + 1), key_width, {8}, test_seed());
                check(build, probe, {}, "linear probing");
                check(build, probe, perfect(0, build_rows), "perfect hashing");
            }
        }
    }
}

GPU_TEST("no-partitioning join: sizes around tiles, and no columns at all") {
    constexpr uint64_t kTile = cuda::kNpjThreads * cuda::kNpjUnroll;
    for (const uint64_t rows : {kTile - 1, kTile, kTile + 1, 3 * kTile + 77}) {
        const auto keys = dense_permutation(rows, test_seed());
        check(KeyedRelation(keys, 4, {4}, test_seed()), KeyedRelation(keys, 4, {4}, test_seed() + 1), {}, "tiles");
        const KeyedRelation relation(keys, 8, {}, test_seed());
        CHECK_EQ(cuda::no_partitioning_join(test_device(), relation.device(), relation.device(), {}).rows, rows);
    }
}

GPU_TEST("no-partitioning join: m:n and Zipf") {
    const uint64_t distinct = small_or_full(100, 2000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const uint64_t multiplicity : {2, 7, 33}) {
            check(KeyedRelation(repeated_keys(keys, multiplicity, test_seed()), key_width, {8}, test_seed()),
                  KeyedRelation(repeated_keys(keys, 3, test_seed() + 1), key_width, {4, 2}, test_seed()), {},
                  "m:n, " + std::to_string(multiplicity) + " x 3");
        }
    }
    const auto dense = dense_permutation(distinct * 4, test_seed());
    const KeyedRelation primary(dense, 4, {4, 4}, test_seed());
    for (const double exponent : {0.5, 1.0, 2.0}) {
        const auto skewed = zipf_keys(distinct * 20, distinct * 4, exponent, test_seed());
        const KeyedRelation foreign(skewed, 4, {4}, test_seed());
        check(primary, foreign, {}, "Zipf probe side " + std::to_string(exponent));
        check(primary, foreign, perfect(0, distinct * 4), "Zipf probe side, perfect " + std::to_string(exponent));
    }
    const KeyedRelation skewed(zipf_keys(distinct * 5, distinct * 4, 1.0, test_seed()), 8, {4}, test_seed());
    check(skewed, KeyedRelation(dense, 8, {4}, test_seed()), {}, "Zipf build side");
}

GPU_TEST("no-partitioning join: NULL keys and keys of all zeros and ones") {
    const uint64_t rows = small_or_full(1500, 40000);
    const auto dense = dense_permutation(rows, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        for (const double null_share : {0.3, 1.0}) {
            const KeyedRelation build(dense, key_width, {4}, test_seed(), null_share);
            const KeyedRelation probe(dense, key_width, {4}, test_seed() + 1, 0.4);
            check(build, probe, {}, "NULL keys, linear probing");
            check(build, probe, perfect(0, rows), "NULL keys, perfect hashing");
        }
        // Slots of the keys 0 and all ones, and their neighbours across the end of the table.
        std::vector<uint64_t> extremes = {0, ~0ULL, 1, ~1ULL, 0x80000000ULL, 0x7fffffffULL, 5};
        if (key_width == 8) extremes.insert(extremes.end(), {0xffffffffULL, 1ULL << 63, 1ULL << 32});
        const KeyedRelation build(extremes, key_width, {4}, test_seed());
        check(build, build, {}, "extremes");
        const KeyedRelation twice(repeated_keys(extremes, 9, test_seed()), key_width, {4}, test_seed());
        check(twice, build, {}, "extremes, repeated");
        const KeyedRelation around({~0ULL, 0, 1, ~1ULL}, key_width, {4}, test_seed());
        check(around, build, perfect(~1ULL, 4), "from -2 to 1");
    }
}

GPU_TEST("no-partitioning join: the probe key may come twice, and alone") {
    const auto keys = dense_permutation(small_or_full(1000, 50000), test_seed());
    const KeyedRelation build(keys, 8, {4}, test_seed());
    const std::vector<JoinOutputColumn> output = {{OutputSide::kKey, 0}, {OutputSide::kKey, 0}};
    const auto result = cuda::no_partitioning_join(test_device(), build.device(), build.device(), output);
    CHECK_EQ(result.rows, keys.size());
    const auto first = download(result.columns[0].as<uint64_t>(), result.rows);
    CHECK(first == download(result.columns[1].as<uint64_t>(), result.rows));
    CHECK_EQ(row_difference(HostTable{{column_of(first)}}, HostTable{{column_of(keys)}}), "");
}

}  // namespace spillway::gpu_test
