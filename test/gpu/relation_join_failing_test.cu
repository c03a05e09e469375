// SPDX-License-Identifier: Apache-2.0
// Joins of whole tables whose allocations fail, from the making of keys to the gathering of strings.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gpu_test.hpp"
#include "relation/join_tables.hpp"
#include "support/failing_allocations.hpp"
#include "support/table_join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::JoinAlgorithm;

constexpr std::pair<const char*, JoinAlgorithm> kJoins[] = {
    {"phj-tr", JoinAlgorithm::kRadixHash},        {"npj", JoinAlgorithm::kNoPartitioning},
    {"npj-perfect", JoinAlgorithm::kPerfectHash}, {"phj-ur", JoinAlgorithm::kBucketChain},
    {"smj-ur", JoinAlgorithm::kSortMergeGather},  {"smj-tr", JoinAlgorithm::kSortMergeColumns},
    {"smj-merge", JoinAlgorithm::kMergeSort},     {"phj-shared", JoinAlgorithm::kSharedHistogram},
    {"phj-gftr", JoinAlgorithm::kGftrColumns}};
// As many as are prime to the number of kinds: by turns each algorithm has all of them.
constexpr KeyCase kKeys[] = {KeyCase::kString, KeyCase::kMixed, KeyCase::kInt32, KeyCase::kWide, KeyCase::kPacked};

// More than fits the row of a join, of widths that cannot travel in one, and strings; or little.
void add_payloads(TestTable& table, uint64_t rows, bool is_wide, uint64_t seed) {
    table.add(payload_column(rows, 4, seed, 1));
    table.add(with_nulls(payload_column(rows, 1, seed, 2), 0.3, seed + 2));
    if (!is_wide) return;
    table.add_strings(texts(rows, 20, seed), null_mask(rows, 0.2, seed));
    table.add(with_nulls(payload_column(rows, 16, seed, 3), 0.3, seed + 3));
    table.add(payload_column(rows, 12, seed, 4));
    table.add(payload_column(rows, 8, seed, 5));
    table.add_strings(texts(rows, 100, seed + 99));
}

struct FailingJoin {
    TestTable build;
    TestTable probe;
    OwnedTableJoin join;
    std::string name;

    FailingJoin(const std::pair<const char*, JoinAlgorithm>& named, const JoinKind& kind, uint64_t turn) {
        const uint64_t rows = small_or_full(100, 700);
        const bool is_array = named.second == JoinAlgorithm::kPerfectHash;
        const KeyCase key = is_array ? KeyCase::kInt32 : kKeys[turn % std::size(kKeys)];
        const bool is_wide = turn % 3 != 0;
        const auto build_numbers =
            is_array ? dense_permutation(rows, test_seed()) : small_numbers(rows, rows / 2, test_seed());
        const auto probe_numbers = small_numbers(2 * rows, rows, test_seed() + 1);
        add_payloads(build, rows, is_wide, test_seed() + 2);
        join.build_keys = KeyMaker(build, build_numbers, 0.05, true, test_seed() + 3).add(key);
        join.probe_keys = KeyMaker(probe, probe_numbers, 0.05, false, test_seed() + 4).add(key);
        add_payloads(probe, 2 * rows, is_wide, test_seed() + 5);
        join.algorithm = named.second;
        join.kind = kind;
        // NULL has no place in an array.
        join.nulls_equal = !is_array && turn / 3 % 2 == 1;
        if (is_array) set_range();
        // Pairs may be more than the rows of a semi or anti join, which are made of them: a second run for want of room
        // would depend on who was faster.
        OwnedTableJoin inner = join;
        inner.kind = kAllJoinKinds[0];
        join.expected_rows = std::max(expected_pairs(build.host(), probe.host(), join).size(),
                                      expected_pairs(build.host(), probe.host(), inner).size());
        name = std::string(named.first) + ", key " + text_of(key) + ", " + text_of_kind(kind);
    }

  private:
    // Tells the join the range of the build side's keys. A range that nobody knows (npj) is a matter of its own, not
    // one of memory.
    void set_range() {
        const HostColumn& keys = build.host().columns[join.build_keys[0].column];
        int32_t least = INT32_MAX;
        int32_t most = INT32_MIN;
        for (uint64_t row = 0; row < keys.rows(); ++row) {
            least = std::min(least, keys.value<int32_t>(row));
            most = std::max(most, keys.value<int32_t>(row));
        }
        join.first_key = static_cast<uint32_t>(least);
        join.key_range = static_cast<uint64_t>(int64_t{most} - least) + 1;
    }
};

// Every `every`-th of all algorithms and kinds, from a place that the seed chooses.
template <class Body>
void for_joins(uint64_t every, const Body& body) {
    uint64_t turn = 0;
    for (const auto& named : kJoins) {
        for (const JoinKind& kind : kAllJoinKinds) {
            if ((++turn + test_seed()) % every == 0) body(FailingJoin(named, kind, turn));
        }
    }
}

}  // namespace

GPU_TEST("relation: every allocation of a join by any algorithm, of any kind, fails once") {
    for_joins(small_or_full(13, 1), [](FailingJoin test) {
        const cuda::DeviceTable& build = test.build.device();
        const cuda::DeviceTable& probe = test.probe.device();
        test.join.output = all_output(test.build, test.probe, test.join);
        const HostTable expected = expected_join(test.build.host(), test.probe.host(), test.join);
        const uint64_t allocations = check_failing_allocations(
            test.name, [&] { return cuda::join_tables(test_device(), build, probe, test.join); },
            [&](const cuda::DeviceTable& result) {
                CHECK_EQ(result.rows, expected.rows());
                const std::string difference = row_difference(download(result), expected);
                if (!difference.empty()) fail(test.name + ": " + difference, __FILE__, __LINE__);
            });
        CHECK(allocations > 5);
    });
}

GPU_TEST("relation: every allocation of a count of joined rows fails once") {
    for_joins(small_or_full(21, 3), [](const FailingJoin& test) {
        const cuda::DeviceTable& build = test.build.device();
        const cuda::DeviceTable& probe = test.probe.device();
        const uint64_t rows = expected_pairs(test.build.host(), test.probe.host(), test.join).size();
        const uint64_t allocations = check_failing_allocations(
            test.name + ", counted", [&] { return cuda::join_tables(test_device(), build, probe, test.join).rows; },
            [&](uint64_t counted) { CHECK_EQ(counted, rows); }, {5});
        CHECK(allocations > 1);  // a table of keys and counters at the very least
    });
}

}  // namespace spillway::gpu_test
