// SPDX-License-Identifier: Apache-2.0
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

// Payloads of a side, 0 for strings; those at odd places have NULLs.
using Payloads = std::vector<uint32_t>;

struct JoinTest {
    TestTable build;
    TestTable probe;
    OwnedTableJoin join;

    JoinTest(KeyCase key, uint64_t build_rows, uint64_t probe_rows, double null_share, const Payloads& build_payloads,
             const Payloads& probe_payloads) {
        const auto build_numbers = small_numbers(build_rows, build_rows / 2 + 3, test_seed());
        const auto probe_numbers = small_numbers(probe_rows, build_rows + 5, test_seed() + 1);
        add_payloads(build, build_rows, build_payloads, test_seed() + 2);
        join.build_keys = KeyMaker(build, build_numbers, null_share, true, test_seed() + 3).add(key);
        join.probe_keys = KeyMaker(probe, probe_numbers, null_share, false, test_seed() + 4).add(key);
        add_payloads(probe, probe_rows, probe_payloads, test_seed() + 5);
    }

    void check(const JoinKind& kind, const std::string& what) {
        join.kind = kind;
        join.output = all_output(build, probe, join);
        check_join(build, probe, join, what);
    }

  private:
    static void add_payloads(TestTable& table, uint64_t rows, const Payloads& widths, uint64_t seed) {
        for (size_t c = 0; c < widths.size(); ++c) {
            const bool has_nulls = c % 2 == 1;
            if (widths[c] == 0) {
                const auto bits = has_nulls ? null_mask(rows, 0.3, seed + c) : std::vector<uint8_t>();
                table.add_strings(texts(rows, 20, seed + c), bits);
                continue;
            }
            const HostColumn column = payload_column(rows, widths[c], seed, c);
            table.add(has_nulls ? with_nulls(column, 0.3, seed + c) : column);
        }
    }
};

}  // namespace

GPU_TEST("relation: joins of every kind by keys of every kind") {
    const uint64_t rows = small_or_full(150, 1500);
    uint64_t turn = 0;
    for (const KeyCase key : kAllKeyCases) {
        const std::string name = "key " + std::to_string(static_cast<int>(key));
        JoinTest plain(key, rows, 2 * rows, 0, {4}, {8, 2});
        // NULLs that are equal make as many rows as the product of their numbers.
        JoinTest with_nulls(key, rows, 2 * rows, 0.06, {4, 1}, {2, 8});
        for (const JoinKind& kind : kAllJoinKinds) {
            // A third of the cases where kernels are slow, the others by turns.
            ++turn;
            for (JoinTest* test : {&plain, &with_nulls}) {
                for (const bool nulls_equal : {false, true}) {
                    if (!full_suite() && (turn + nulls_equal + 2 * (test == &plain)) % 5 != 0) continue;
                    test->join.nulls_equal = nulls_equal;
                    test->join.algorithm =
                        kind.inner() && nulls_equal ? JoinAlgorithm::kNoPartitioning : JoinAlgorithm::kRadixHash;
                    test->check(kind, name);
                }
            }
        }
    }
}

GPU_TEST("relation: payloads that fit the rows of a join and payloads that are gathered") {
    const uint64_t rows = small_or_full(200, 5000);
    const Payloads all_narrow = {4, 4, 2, 1};
    const std::pair<Payloads, Payloads> payloads[] = {
        {{}, {}},
        {all_narrow, {8, 8, 4}},
        {{16, 4}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},  // more than 8 columns with NULLs
        {{8, 8, 8}, {16, 16, 16}},
        {Payloads(9, 8), {0, 16, 16, 2, 4, 8}},
        {Payloads(30, 4), Payloads(70, 1)},  // more than a MatchOutput has, and than a field of NULLs
        {{12, 12, 5}, {0, 0}},               // none can
        {{0, 0, 4, 4}, {8, 12, 0, 2, 16}}};
    uint64_t turn = 0;
    for (const auto& [build, probe] : payloads) {
        for (const KeyCase key : {KeyCase::kInt32, KeyCase::kString}) {
            JoinTest test(key, rows, 2 * rows, 0.1, build, probe);
            for (const JoinAlgorithm algorithm : {JoinAlgorithm::kRadixHash, JoinAlgorithm::kNoPartitioning,
                                                  JoinAlgorithm::kSortMergeGather, JoinAlgorithm::kSortMergeColumns}) {
                test.join.algorithm = algorithm;
                for (const JoinKind& kind : kAllJoinKinds) {
                    if (++turn % 7 != 0 && !full_suite()) continue;
                    test.check(kind,
                               std::to_string(build.size()) + " and " + std::to_string(probe.size()) + " columns");
                }
            }
        }
    }
}

GPU_TEST("relation: short strings that travel with the rows of a join, and those a byte too long") {
    const uint64_t rows = small_or_full(150, 4000);
    uint64_t turn = 0;
    for (const uint64_t longest : {0, 1, 3, 4, 7, 8, 15, 16}) {
        JoinTest test(KeyCase::kInt64, rows, 2 * rows, 0.1, {4, 2}, {8});
        for (TestTable* table : {&test.build, &test.probe}) {
            const uint64_t count = table == &test.build ? rows : 2 * rows;
            table->add_strings(texts(count, longest, test_seed() + longest), null_mask(count, 0.2, test_seed()));
            table->add_strings(texts(count, longest, test_seed() + longest + 50), {});
        }
        for (const JoinKind& kind : kAllJoinKinds) {
            if (++turn % 5 != 0 && !full_suite()) continue;
            test.check(kind, "strings of up to " + std::to_string(longest) + " bytes");
        }
    }
}

GPU_TEST("relation: joins of empty and tiny tables") {
    for (const auto& [build_rows, probe_rows] :
         {std::pair<uint64_t, uint64_t>{0, 0}, {0, 3}, {3, 0}, {1, 1}, {1, 40}, {33, 31}}) {
        for (const KeyCase key : {KeyCase::kInt32, KeyCase::kInt8, KeyCase::kMixed}) {
            JoinTest test(key, build_rows, probe_rows, 0.3, {1, 16, 12}, {0, 2, 8});
            for (const JoinKind& kind : kAllJoinKinds) {
                if (!full_suite() && (kind.anti || build_rows + probe_rows > 40)) continue;
                test.check(kind, std::to_string(build_rows) + " and " + std::to_string(probe_rows) + " rows");
            }
        }
    }
}

GPU_TEST("relation: columns that the result has more than once") {
    JoinTest test(KeyCase::kInt32, 100, 150, 0.2, {4, 4, 0}, {8});
    for (const JoinKind& kind : {kAllJoinKinds[0], kAllJoinKinds[3]}) {
        test.join.kind = kind;
        test.join.output = all_output(test.build, test.probe, test.join);
        const auto once = test.join.output;
        test.join.output.insert(test.join.output.end(), once.begin(), once.end());
        check_join(test.build, test.probe, test.join, "columns twice");
    }
}

GPU_TEST("relation: joins with no output columns have rows, and what cannot be asked for") {
    JoinTest test(KeyCase::kPacked, 100, 150, 0.2, {4}, {0, 8});
    OwnedTableJoin& join = test.join;
    for (const JoinKind& kind : kAllJoinKinds) {
        join.kind = kind;
        join.output.clear();
        const uint64_t rows = expected_pairs(test.build.host(), test.probe.host(), join).size();
        CHECK_EQ(cuda::join_tables(test_device(), test.build.device(), test.probe.device(), join).rows, rows);
    }
    const auto run = [&](const JoinKind& kind, const TableJoinColumn& column) {
        join.kind = kind;
        join.output = {column};
        return cuda::join_tables(test_device(), test.build.device(), test.probe.device(), join).rows;
    };
    const auto invalid = cuda::ErrorCode::kInvalid;
    CHECK_THROWS(run(kAllJoinKinds[0], {TableSide::kBuild, 9, 0}), invalid);
    CHECK_THROWS(run(kAllJoinKinds[0], {TableSide::kProbe, 0, 9}), invalid);
    CHECK_THROWS(run(kAllJoinKinds[4], {TableSide::kProbe, 0, 0}), invalid);
    CHECK_THROWS(run(kAllJoinKinds[7], {TableSide::kBuild, 0, 0}), invalid);
    CHECK_THROWS(run(kAllJoinKinds[5], {TableSide::kEither, 1, 0}), invalid);
    CHECK_THROWS(run(kAllJoinKinds[3], {TableSide::kEither, 0, 1}), invalid);  // 4 bytes, 2 bytes
}

}  // namespace spillway::gpu_test
