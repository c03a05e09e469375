// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "pair_join/pair_policy.hpp"
#include "support/join_kinds.hpp"
#include "support/pair_join_check.hpp"

// The cases that every join of pairs has to pass.
namespace spillway::gpu_test {

inline PairJoinOptions with_radix_bits(int bits) {
    PairJoinOptions options;
    options.radix_bits = bits;
    return options;
}

inline void check_pairs(const PairJoin& join, const KeyedRelation& build, const KeyedRelation& probe,
                        const std::vector<int>& radix_bits, const std::string& what) {
    const PairCheck check(join, build, probe);
    for (const int bits : radix_bits) check.all(with_radix_bits(bits), what + ", bits " + std::to_string(bits));
}

inline void check_match_ratios(const PairJoin& join) {
    const uint64_t rows = small_or_full(1500, 60000);
    const std::vector<uint64_t> primary = sparse_keys(rows, test_seed());
    // One pass, and two.
    const std::vector<int> bits = full_suite() ? std::vector<int>{-1, 0, 8, 9, 13, 16} : std::vector<int>{5, 9};
    for (const uint32_t key_width : {4U, 8U}) {
        if (watched_suite() && key_width == 8) continue;
        for (const double share : {0.0, 0.25, 1.0}) {
            if (!full_suite() && share == 1.0) continue;
            if (watched_suite() && share == 0.0) continue;
            const auto foreign = foreign_keys(primary, 2 * rows, share, test_seed());
            check_pairs(join, KeyedRelation(primary, key_width, {}, test_seed(), 0.1),
                        KeyedRelation(foreign, key_width, {}, test_seed() + 1, share == 1.0 ? 0 : 0.3), bits,
                        "match ratio " + std::to_string(share));
        }
        const KeyedRelation nobody(primary, key_width, {}, test_seed(), 1.0);
        check_pairs(join, nobody, KeyedRelation(primary, key_width, {}, test_seed()), {3}, "NULL keys alone");
    }
    std::vector<uint64_t> extremes = {0, ~0ULL, 1, ~1ULL, 0x80000000ULL, 0x7fffffffULL, 0xffffffffULL, 1ULL << 63};
    extremes = repeated_keys(extremes, 3, test_seed());
    check_pairs(join, KeyedRelation(extremes, 8, {}, test_seed()), KeyedRelation(extremes, 8, {}, test_seed()), {0, 9},
                "extremes");
}

inline void check_skew(const PairJoin& join) {
    const uint64_t distinct = small_or_full(150, 4000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const std::vector<int> bits = full_suite() ? std::vector<int>{-1, 0, 7, 11} : std::vector<int>{9};
    for (const uint32_t key_width : {4U, 8U}) {
        check_pairs(join, KeyedRelation(repeated_keys(keys, 5, test_seed()), key_width, {}, test_seed()),
                    KeyedRelation(repeated_keys(keys, 7, test_seed() + 1), key_width, {}, test_seed()), bits, "m:n");
    }
    for (const double exponent : {1.0, 2.0}) {
        const auto skewed = zipf_keys(distinct * 20, distinct, exponent, test_seed());
        check_pairs(join, KeyedRelation(dense_permutation(distinct, test_seed()), 4, {}, test_seed()),
                    KeyedRelation(skewed, 4, {}, test_seed()), bits, "Zipf " + std::to_string(exponent));
    }
    // More build rows of one key than a block holds, more probe rows than a unit has, and both at once.
    const std::vector<uint64_t> few = {7, 8, 7, 9};
    const std::vector<uint64_t> build_hot(2 * cuda::kBuildPartTuples + small_or_full(3, 5000), 7);
    const std::vector<uint64_t> probe_hot(cuda::kProbePartTuples + small_or_full(3, 50000), 7);
    check_pairs(join, KeyedRelation(build_hot, 4, {}, test_seed()), KeyedRelation(few, 4, {}, test_seed()), {0, 9},
                "hot build key");
    check_pairs(join, KeyedRelation(few, 8, {}, test_seed()), KeyedRelation(probe_hot, 8, {}, test_seed()), {9},
                "hot probe key");
    const std::vector<uint64_t> some(small_or_full(20, 300), 7);
    check_pairs(join, KeyedRelation(build_hot, 8, {}, test_seed()), KeyedRelation(some, 8, {}, test_seed()), {3},
                "hot on both sides");
}

// Marks alone take no time for pairs that nobody asked for: 10^10 of them in the full suite.
inline void check_hot_marks(const PairJoin& join) {
    const uint64_t rows = small_or_full(cuda::kBuildPartTuples + 5, 100000);
    const KeyedRelation hot(std::vector<uint64_t>(rows, 7), 4, {}, test_seed());
    const std::vector<uint32_t> words((rows + 31) / 32);
    const DeviceArray<uint32_t> build_marks = upload(words);
    const DeviceArray<uint32_t> probe_marks = upload(words);
    join.pairs(test_device(), hot.device(), hot.device(), {false, build_marks.data(), probe_marks.data()}, {});
    for (const auto* marks : {&build_marks, &probe_marks}) {
        const auto found = download(*marks);
        for (uint64_t row = 0; row < words.size() * 32; ++row) {
            CHECK_EQ(found[row / 32] >> row % 32 & 1, row < rows ? 1U : 0U);
        }
    }
}

inline void check_tiny(const PairJoin& join) {
    for (const uint64_t build_rows : {0, 1, 33}) {
        for (const uint64_t probe_rows : {0, 1, 70}) {
            const KeyedRelation build(dense_permutation(build_rows, test_seed()), 4, {}, test_seed());
            const KeyedRelation probe(dense_permutation(probe_rows, test_seed()), 4, {}, test_seed());
            check_pairs(join, build, probe, full_suite() ? std::vector<int>{-1, 8, 16} : std::vector<int>{9}, "tiny");
        }
    }
}

inline void check_partitions(const PairJoin& join, const std::vector<uint64_t>& keys, uint32_t key_width, int bits,
                             const std::string& what, double null_share = 0) {
    const KeyedRelation relation(keys, key_width, {}, test_seed(), null_share);
    for (const uint32_t row_width : {4U, 8U}) {
        const std::string text = std::string(join.name) + ", partitions, " + what + ", " + std::to_string(key_width) +
                                 "-byte keys, " + std::to_string(row_width) + "-byte row numbers, bits " +
                                 std::to_string(bits);
        const PartitionedTuples tuples = join.partition(test_device(), relation.device(), row_width, bits);
        CHECK_EQ(tuples.key_width, key_width);
        CHECK_EQ(tuples.row_width, row_width);
        CHECK_EQ(tuples.radix_bits, bits);
        PartitionCheck(tuples, relation, text);
    }
}

// Sizes around those of buckets, tiles and chunks (all multiples of 512), few and many partitions, one key.
inline void check_partitionings(const PairJoin& join) {
    const std::vector<uint64_t> sizes = full_suite()
                                            ? std::vector<uint64_t>{0, 1, 511, 512, 513, 4096, 4097, 16385, 700000}
                                            : std::vector<uint64_t>{0, 513, 8193};
    for (const uint64_t rows : sizes) {
        const auto keys = sparse_keys(rows, test_seed());
        for (const int bits : {0, 3, 8, 9, 16}) {
            if (!full_suite() && (bits == 8 || bits == 16)) continue;
            check_partitions(join, keys, bits % 2 == 0 ? 4 : 8, bits, "distinct keys", 0.1);
            check_partitions(join, std::vector<uint64_t>(rows, 5), bits % 2 == 0 ? 8 : 4, bits, "one key");
        }
    }
    const uint64_t rows = small_or_full(6000, 2000000);
    check_partitions(join, one_hot_key(rows, 0.5, test_seed()), 4, 9, "a hot key");
    check_partitions(join, zipf_keys(rows, rows / 10, 1.0, test_seed()), 8, 13, "Zipf");
}

// Every kind of join by its name, payloads of every width gathered.
inline void check_by_name(cuda::JoinAlgorithm algorithm, const KeyedRelation& build, const KeyedRelation& probe,
                          const std::string& what) {
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        cuda::EquiJoin join;
        join.algorithm = algorithm;
        join.kind = named.kind;
        join.output = all_columns_and_presence(build, probe);
        const HostTable expected = expected_table(build, probe, named.kind);
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), expected.rows());
        for (const OutputPlan plan : {OutputPlan::kOnePass, OutputPlan::kCountFirst}) {
            if (!full_suite() && plan == OutputPlan::kCountFirst) continue;
            join.plan = plan;
            join.radix_bits = plan == OutputPlan::kOnePass ? -1 : 9;
            check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected,
                         what + ", " + named.name);
        }
    }
}

inline void check_kinds_and_payloads(cuda::JoinAlgorithm algorithm) {
    const uint64_t rows = small_or_full(200, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        if (!full_suite() && key_width == 8) continue;
        const KeyedRelation build(keys, key_width, {4, 1, 16, kRowNumber4}, test_seed(), 0.1);
        const KeyedRelation probe(repeated_keys(foreign, 2, test_seed()), key_width, {8, 2, kRowNumber8},
                                  test_seed() + 1, 0.2);
        check_by_name(algorithm, build, probe, "foreign keys");
    }
    const KeyedRelation none({}, 4, {4}, test_seed());
    const KeyedRelation some(keys, 4, {4}, test_seed());
    check_by_name(algorithm, none, some, "no build rows");
    check_by_name(algorithm, some, none, "no probe rows");
}

inline void check_refusals(const PairJoin& join) {
    const KeyedRelation narrow({1, 2, 3}, 4, {}, test_seed());
    const KeyedRelation wide({1, 2, 3}, 8, {}, test_seed());
    const auto pairs = [&](const cuda::DeviceRelation& build, const PairJoinOptions& options) {
        join.pairs(test_device(), build, narrow.device(), {}, options);
    };
    CHECK_THROWS(pairs(wide.device(), {}), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(pairs(narrow.device(), with_radix_bits(cuda::kTupleRadixBitsMax + 1)), cuda::ErrorCode::kInvalid);
    PairJoinOptions greedy;
    greedy.expected_rows = 1ULL << 62;
    CHECK_THROWS(pairs(narrow.device(), greedy), cuda::ErrorCode::kInvalid);
    cuda::DeviceRelation bad = narrow.device();
    bad.key.width = 2;
    CHECK_THROWS(pairs(bad, {}), cuda::ErrorCode::kInvalid);
    bad = narrow.device();
    bad.key.data = nullptr;
    CHECK_THROWS(pairs(bad, {}), cuda::ErrorCode::kInvalid);
}

// Each allocation fails once (every seventh in the small suite); least: what both partitionings and the join need.
inline void check_failing_allocations(const PairJoin& join, uint64_t least) {
    cuda::Device& device = test_device();
    const auto keys = dense_permutation(small_or_full(500, 30000), test_seed());
    const KeyedRelation build(repeated_keys(keys, 2, test_seed()), 8, {}, test_seed());
    const KeyedRelation probe(keys, 8, {}, test_seed());
    const uint64_t blocks = device.memory().blocks();
    for (const OutputPlan plan : {OutputPlan::kOnePass, OutputPlan::kCountFirst}) {
        PairJoinOptions options = with_radix_bits(9);
        options.plan = plan;
        uint64_t next = 1;
        for (bool done = false; !done;) {
            device.memory().fail_after(next);
            try {
                const MatchPairs pairs = join.pairs(device, build.device(), probe.device(), {}, options);
                CHECK_EQ(pairs.count, 2 * keys.size());
                done = true;
            } catch (const cuda::Error& error) {
                CHECK(error.code() == cuda::ErrorCode::kOutOfMemory);
                next += small_or_full(7, 1);
            }
            CHECK_EQ(device.memory().blocks(), blocks);
        }
        device.memory().fail_after(0);
        CHECK(next > least);
    }
}

// A device with too little memory for the partitions or for the pairs: refused, and what fits is joined afterwards.
inline void check_small_memory(const PairJoin& join) {
    cuda::Device small(test_device().ordinal(), 48ULL << 20);
    const auto join_rows = [&](uint64_t rows, uint64_t expected_rows) {
        const KeyedRelation keys(dense_permutation(rows, test_seed()), 8, {}, test_seed());
        PairJoinOptions options;
        options.expected_rows = expected_rows;
        return join.pairs(small, keys.device(), keys.device(), {}, options).count;
    };
    if (full_suite()) CHECK_THROWS(join_rows(8000000, 0), cuda::ErrorCode::kOutOfMemory);
    CHECK_THROWS(join_rows(2000, 1ULL << 24), cuda::ErrorCode::kOutOfMemory);
    CHECK_EQ(small.memory().blocks(), uint64_t{0});
    CHECK_EQ(join_rows(2000, 0), uint64_t{2000});
    CHECK_EQ(small.memory().blocks(), uint64_t{0});
}

}  // namespace spillway::gpu_test
