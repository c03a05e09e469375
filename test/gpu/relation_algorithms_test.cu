// SPDX-License-Identifier: Apache-2.0
// Joins of whole tables by every algorithm that takes any keys: of several columns and strings, with NULLs, and
// payloads of mixed widths with strings among them.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "relation/join_tables.hpp"
#include "support/table_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::JoinAlgorithm;

constexpr std::pair<const char*, JoinAlgorithm> kJoins[] = {
    {"phj-tr", JoinAlgorithm::kRadixHash},           {"npj", JoinAlgorithm::kNoPartitioning},
    {"phj-ur", JoinAlgorithm::kBucketChain},         {"smj-ur", JoinAlgorithm::kSortMergeGather},
    {"smj-tr", JoinAlgorithm::kSortMergeColumns},    {"smj-merge", JoinAlgorithm::kMergeSort},
    {"phj-shared", JoinAlgorithm::kSharedHistogram}, {"phj-gftr", JoinAlgorithm::kGftrColumns}};

// Numbers, bytes of no word's width and strings, some of them with NULLs.
void add_payloads(TestTable& table, uint64_t rows, uint64_t seed) {
    table.add_strings(texts(rows, 20, seed), null_mask(rows, 0.2, seed));
    uint64_t column = 0;
    for (const uint32_t width : {1U, 16U, 4U, 12U, 8U, 2U}) {
        const HostColumn values = payload_column(rows, width, seed, ++column);
        table.add(column % 2 == 0 ? values : with_nulls(values, 0.3, seed + column));
    }
    table.add_strings(texts(rows, 300, seed + 99));
}

struct KeyedTables {
    TestTable build;
    TestTable probe;
    OwnedTableJoin join;

    KeyedTables(KeyCase key, const std::vector<uint64_t>& build_numbers, const std::vector<uint64_t>& probe_numbers,
                double null_share) {
        add_payloads(build, build_numbers.size(), test_seed() + 2);
        join.build_keys = KeyMaker(build, build_numbers, null_share, true, test_seed() + 3).add(key);
        join.probe_keys = KeyMaker(probe, probe_numbers, null_share, false, test_seed() + 4).add(key);
        add_payloads(probe, probe_numbers.size(), test_seed() + 5);
    }

    // `every`: of the small suite.
    void check_all(uint64_t every, uint64_t& turn, const std::string& what) {
        for (const auto& [name, algorithm] : kJoins) {
            join.algorithm = algorithm;
            for (const JoinKind& kind : kAllJoinKinds) {
                if (++turn % every != 0 && !full_suite()) continue;
                join.kind = kind;
                join.output = all_output(build, probe, join);
                check_join(build, probe, join, what + " by " + name);
            }
        }
    }
};

}  // namespace

GPU_TEST("relation: every algorithm, keys of several columns and strings, mixed payloads with strings") {
    const uint64_t rows = small_or_full(120, 2500);
    uint64_t turn = 0;
    for (const KeyCase key : {KeyCase::kInt32, KeyCase::kPacked, KeyCase::kWide, KeyCase::kString, KeyCase::kMixed}) {
        KeyedTables tables(key, small_numbers(rows, rows / 2, test_seed()),
                           small_numbers(2 * rows, rows, test_seed() + 1), 0.1);
        tables.check_all(13, turn, "key " + std::to_string(static_cast<int>(key)));
    }
}

GPU_TEST("relation: every algorithm, one hot key on both sides, as a number and as a string") {
    const uint64_t others = small_or_full(60, 2000);
    uint64_t turn = 0;
    for (const KeyCase key : {KeyCase::kInt64, KeyCase::kString}) {
        // A no-partitioning join refuses long runs of one key of the build side, but not these.
        std::vector<uint64_t> build_numbers = small_numbers(others, 2 * others, test_seed());
        std::vector<uint64_t> probe_numbers = small_numbers(others, 2 * others, test_seed() + 1);
        build_numbers.insert(build_numbers.begin() + 20, small_or_full(9, 100), 7);
        probe_numbers.insert(probe_numbers.begin() + 5, small_or_full(40, 700), 7);
        KeyedTables(key, build_numbers, probe_numbers, 0.05).check_all(9, turn, "hot key on both sides");
    }
}

}  // namespace spillway::gpu_test
