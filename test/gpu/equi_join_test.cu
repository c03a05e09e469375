// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::EquiJoin;
using cuda::JoinAlgorithm;

void check_kinds(const KeyedRelation& build, const KeyedRelation& probe, EquiJoin join, const std::string& what) {
    join.output = all_columns_and_presence(build, probe);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        // A full join has all that outer ones have; semi joins differ from anti joins by a condition.
        const bool is_full = named.kind.keep_unmatched_build == named.kind.keep_unmatched_probe;
        if (watched_suite() && (!is_full || named.kind.anti)) continue;
        join.kind = named.kind;
        const HostTable expected = expected_table(build, probe, named.kind);
        const std::string text = what + ", " + named.name;
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), expected.rows());
        for (const uint64_t expected_rows : {expected.rows(), uint64_t{0}}) {
            join.expected_rows = expected_rows;
            check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected, text);
        }
    }
}

EquiJoin with_bits(int radix_bits) {
    EquiJoin join;
    join.radix_bits = radix_bits;
    return join;
}

EquiJoin with_algorithm(JoinAlgorithm algorithm) {
    EquiJoin join;
    join.algorithm = algorithm;
    return join;
}

constexpr std::pair<const char*, JoinAlgorithm> kOtherAlgorithms[] = {{"npj", JoinAlgorithm::kNoPartitioning},
                                                                      {"smj-ur", JoinAlgorithm::kSortMergeGather},
                                                                      {"smj-tr", JoinAlgorithm::kSortMergeColumns},
                                                                      {"smj-merge", JoinAlgorithm::kMergeSort}};

}  // namespace

GPU_TEST("equi join: every kind, NULL keys, radix bits that chains hold keys for and others") {
    const uint64_t rows = small_or_full(150, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    for (const uint32_t key_width : {4U, 8U}) {
        const KeyedRelation build(keys, key_width, {4, 1, 8}, test_seed(), 0.1);
        const KeyedRelation probe(foreign, key_width, {4, 4}, test_seed() + 1, 0.2);
        for (const int bits : {-1, 5, 15}) {
            if (!full_suite() && bits == -1) continue;
            check_kinds(build, probe, with_bits(bits), "bits " + std::to_string(bits));
        }
    }
}

GPU_TEST("equi join: every kind with repeated keys, one hot key, empty and tiny sides") {
    const uint64_t distinct = small_or_full(100, 3000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto others = foreign_keys(keys, distinct, 0.6, test_seed());
    check_kinds(KeyedRelation(repeated_keys(keys, 5, test_seed()), 4, {2, 4}, test_seed()),
                KeyedRelation(repeated_keys(others, 3, test_seed()), 4, {8}, test_seed()), with_bits(14), "m:n");
    const std::vector<uint64_t> hot(small_or_full(9000, 40000), 7);
    const std::vector<uint64_t> few = {7, 8, 7, 9};
    check_kinds(KeyedRelation(hot, 4, {4}, test_seed()), KeyedRelation(few, 4, {4}, test_seed()), with_bits(3),
                "hot build key");
    check_kinds(KeyedRelation(few, 8, {4}, test_seed()), KeyedRelation(hot, 8, {4}, test_seed()), with_bits(3),
                "hot probe key");
    for (const uint64_t build_rows : {0, 1, 3}) {
        for (const uint64_t probe_rows : {0, 1, 40}) {
            check_kinds(KeyedRelation(dense_permutation(build_rows, test_seed()), 4, {4}, test_seed()),
                        KeyedRelation(dense_permutation(probe_rows, test_seed()), 4, {4}, test_seed()), {}, "tiny");
        }
    }
}

GPU_TEST("equi join: wide rows of either side or both, every kind, NULL keys, every width of a pack") {
    const uint64_t rows = small_or_full(300, 20000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    // Around the limit of whole rows, and packs of 1, 2, 4 and 8 words, with padding and without.
    const std::vector<std::vector<uint32_t>> wide = {
        std::vector<uint32_t>(7, 4),     std::vector<uint32_t>(8, 4),      std::vector<uint32_t>(9, 4),
        std::vector<uint32_t>(24, 4),    {16, 1, 8, 2, 16, 4, 1, 1, 2, 8}, {16, 16, 1},
        {8, 8, 8, 8, 8, 4, kRowNumber4}, {kRowNumber8, 8, 8, 8, 2, 1},     std::vector<uint32_t>(35, 1)};
    for (size_t w = 0; w < wide.size(); ++w) {
        const uint32_t key_width = (w + test_seed()) % 2 == 0 ? 4 : 8;
        const double null_share = w % 3 == 0 ? 0 : 0.15;
        const std::string what = "wide rows " + std::to_string(w) + ", keys of " + std::to_string(key_width);
        const KeyedRelation build(keys, key_width, wide[w], test_seed(), null_share);
        const KeyedRelation probe(foreign, key_width, wide[(w + 3) % wide.size()], test_seed() + 1, null_share);
        check_kinds(build, probe, with_bits(w % 2 == 0 ? -1 : 11), what);
        if (!full_suite()) continue;
        const KeyedRelation narrow(foreign, key_width, {4}, test_seed() + 2, null_share);
        check_kinds(build, narrow, with_bits(0), what + ", probe rows narrow");
        check_kinds(narrow, build, with_bits(3), what + ", build rows narrow");
    }
}

GPU_TEST("equi join: wide rows, repeated keys, one hot key, empty and tiny sides, narrow rows as packs") {
    const std::vector<uint32_t> wide = {4, 8, 16, 2, 8, 4};
    const uint64_t distinct = small_or_full(60, 3000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto others = foreign_keys(keys, distinct, 0.6, test_seed());
    check_kinds(KeyedRelation(repeated_keys(keys, 5, test_seed()), 4, wide, test_seed()),
                KeyedRelation(repeated_keys(others, 3, test_seed()), 4, wide, test_seed()), {}, "wide m:n");
    const std::vector<uint64_t> hot(small_or_full(4000, 40000), 7);
    check_kinds(KeyedRelation({7, 8, 7, 9}, 8, wide, test_seed()), KeyedRelation(hot, 8, wide, test_seed()), {},
                "wide, hot probe key");
    for (const uint64_t build_rows : {0, 1, 3}) {
        for (const uint64_t probe_rows : {0, 1, 40}) {
            check_kinds(KeyedRelation(dense_permutation(build_rows, test_seed()), 4, wide, test_seed()),
                        KeyedRelation(dense_permutation(probe_rows, test_seed()), 4, wide, test_seed()), {},
                        "wide and tiny");
        }
    }
    EquiJoin packs;
    packs.row_words_max = 1;
    check_kinds(KeyedRelation(repeated_keys(keys, 2, test_seed()), 4, {4}, test_seed(), 0.1),
                KeyedRelation(others, 4, {2, 1}, test_seed(), 0.1), packs, "narrow rows as packs");
}

GPU_TEST("equi join: wide rows in more tiles than blocks, and in a last tile of any length") {
    // Tiles of the first pass have some thousand rows, and a GPU holds a few hundred blocks.
    for (const uint64_t rows : {uint64_t{4799}, uint64_t{4800}, uint64_t{4801}, small_or_full(9'601, 1'500'003)}) {
        const KeyedRelation build(dense_permutation(rows, test_seed()), 4, {8, 8, 8, 8, 2}, test_seed());
        const KeyedRelation probe(dense_permutation(rows, test_seed() + 1), 4, {4, 4, 8, 16}, test_seed() + 1);
        EquiJoin join;
        join.output = all_columns(build, probe);
        join.expected_rows = rows;
        check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected_rows(build, probe),
                     std::to_string(rows) + " wide rows");
    }
}

GPU_TEST("equi join: rows of seven words, which passes of eight bits pad") {
    const uint64_t rows = small_or_full(150, 5000);
    const std::vector<uint64_t> keys = sparse_keys(rows, test_seed());
    const auto foreign = foreign_keys(keys, 2 * rows, 0.5, test_seed());
    const std::vector<std::vector<uint32_t>> seven = {{4, 8, 8, 4}, {8, 4, 2, 4, 1, 4, 1}, {16, kRowNumber4, 4}};
    for (size_t w = 0; w < seven.size(); ++w) {
        const KeyedRelation build(keys, 4, seven[w], test_seed(), 0.1);
        const KeyedRelation probe(foreign, 4, seven[(w + 1) % seven.size()], test_seed() + 1, 0.2);
        check_kinds(build, probe, with_bits(w == 0 ? 16 : 8), "seven words " + std::to_string(w));
        if (!full_suite()) continue;
        const KeyedRelation wide(keys, 4, {16, 16, 2, 4}, test_seed() + 2, 0.1);
        check_kinds(wide, probe, with_bits(16), "build rows wide, probe rows of seven words " + std::to_string(w));
    }
    const KeyedRelation build(keys, 8, {8, 8, 4}, test_seed(), 0.1);
    check_kinds(build, KeyedRelation(foreign, 8, {4, 8, 8}, test_seed() + 1), with_bits(15), "keys of 8 bytes");
}

GPU_TEST("equi join: columns twice, bytes in one word, no-partitioning joins by name") {
    const std::vector<uint64_t> keys = dense_permutation(small_or_full(500, 5000), test_seed());
    const KeyedRelation build(keys, 4, {1, 2, 1, 4}, test_seed());
    const KeyedRelation probe(keys, 4, {1, 1, 1, 1, 2, 8}, test_seed() + 1);
    check_kinds(build, probe, with_bits(4), "narrow columns");
    EquiJoin join;
    join.output = all_columns(build, probe);
    join.expected_rows = keys.size();
    for (const auto algorithm : {cuda::JoinAlgorithm::kNoPartitioning, cuda::JoinAlgorithm::kPerfectHash}) {
        join.algorithm = algorithm;
        join.key_range = keys.size();
        check_result(cuda::equi_join(test_device(), build.device(), probe.device(), join), expected_rows(build, probe),
                     "by name");
        CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), keys.size());
    }
    join.algorithm = static_cast<JoinAlgorithm>(99);
    CHECK_THROWS(cuda::equi_join(test_device(), build.device(), probe.device(), join), cuda::ErrorCode::kInvalid);
    CHECK_THROWS(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), cuda::ErrorCode::kInvalid);
    join = {};
    join.output = {{OutputSide::kBuild, 3}, {OutputSide::kKey, 0}, {OutputSide::kBuild, 3}, {OutputSide::kProbe, 5}};
    const cuda::JoinResult twice = cuda::equi_join(test_device(), build.device(), probe.device(), join);
    CHECK_EQ(twice.rows, keys.size());
    CHECK(download(twice.columns[0].as<uint32_t>(), twice.rows) ==
          download(twice.columns[2].as<uint32_t>(), twice.rows));
    join.row_words_max = 1;
    const cuda::JoinResult packed = cuda::equi_join(test_device(), build.device(), probe.device(), join);
    CHECK_EQ(packed.rows, keys.size());
    CHECK(download(packed.columns[0].as<uint32_t>(), packed.rows) ==
          download(packed.columns[2].as<uint32_t>(), packed.rows));
}

GPU_TEST("equi join: every kind by every other algorithm") {
    const uint64_t distinct = small_or_full(150, 4000);
    const std::vector<uint64_t> keys = sparse_keys(distinct, test_seed());
    const auto foreign = foreign_keys(keys, distinct, 0.6, test_seed());
    const uint32_t key_width = test_seed() % 2 == 0 ? 4 : 8;  // each by turns of the seed
    const KeyedRelation build(repeated_keys(keys, 2, test_seed()), key_width, {4, 1}, test_seed(), 0.1);
    const KeyedRelation probe(repeated_keys(foreign, 3, test_seed()), key_width, {16, 2}, test_seed() + 1, 0.2);
    for (const auto& [name, algorithm] : kOtherAlgorithms) check_kinds(build, probe, with_algorithm(algorithm), name);
    EquiJoin perfect = with_algorithm(JoinAlgorithm::kPerfectHash);
    perfect.key_range = distinct;
    check_kinds(KeyedRelation(dense_permutation(distinct, test_seed()), 4, {8}, test_seed(), 0.1),
                KeyedRelation(foreign, 4, {4}, test_seed(), 0.1), perfect, "npj-perfect");
    check_kinds(KeyedRelation(dense_permutation(distinct, test_seed()), 4, {8}, test_seed(), 0.1),
                KeyedRelation(dense_permutation(2 * distinct, test_seed() + 1), 4, {4}, test_seed()), perfect,
                "npj-perfect, half of the keys");
    perfect.key_range = 0;
    check_kinds(KeyedRelation(dense_permutation(distinct, test_seed()), 8, {8}, test_seed(), 0.1),
                KeyedRelation(foreign, 8, {4}, test_seed(), 0.1), perfect, "npj-perfect, range found");
}

}  // namespace spillway::gpu_test
