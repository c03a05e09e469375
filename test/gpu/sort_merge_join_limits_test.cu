// SPDX-License-Identifier: Apache-2.0
// Arguments that the sort-merge joins refuse, and memory that they do not get.
#include <cstdint>
#include <vector>

#include "gpu_test.hpp"
#include "support/sort_merge_join_check.hpp"

namespace spillway::gpu_test {

using cuda::ErrorCode;

GPU_TEST("sort-merge join: arguments that no caller may give") {
    cuda::Device& device = test_device();
    const KeyedRelation narrow({1, 2, 3}, 4, {4}, test_seed());
    const KeyedRelation other({1, 2, 3}, 8, {4}, test_seed());
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        SortMergeOptions options;
        options.scheme = scheme;
        const auto join = [&](const cuda::DeviceRelation& build, const std::vector<JoinOutputColumn>& output) {
            cuda::sort_merge_join(device, build, narrow.device(), {}, output, options);
        };
        CHECK_THROWS(join(other.device(), {}), ErrorCode::kInvalid);
        CHECK_THROWS(join(narrow.device(), {{OutputSide::kBuild, 1}}), ErrorCode::kInvalid);
        cuda::DeviceRelation bad = narrow.device();
        bad.columns[0].width = 3;
        CHECK_THROWS(join(bad, {}), ErrorCode::kInvalid);
        bad.columns[0] = {nullptr, 2};
        CHECK_THROWS(join(bad, {}), ErrorCode::kInvalid);
        bad = narrow.device();
        bad.key.data = static_cast<const uint8_t*>(bad.key.data) + 4;
        CHECK_THROWS(join(bad, {}), ErrorCode::kInvalid);
        bad = narrow.device();
        bad.key.data = nullptr;
        CHECK_THROWS(join(bad, {}), ErrorCode::kInvalid);
        options.expected_rows = 1ULL << 62;
        CHECK_THROWS(join(narrow.device(), {}), ErrorCode::kInvalid);
    }
    SortMergeOptions wide;
    wide.scheme = SortMergeScheme::kMergeSort;
    wide.wide_row_numbers = true;
    CHECK_THROWS(cuda::sort_merge_count(device, narrow.device(), narrow.device(), {}, wide), ErrorCode::kInvalid);
}

GPU_TEST("sort-merge join: an abort ends it") {
    cuda::Device& device = test_device();
    const KeyedRelation relation(dense_permutation(500, test_seed()), 4, {4}, test_seed());
    device.set_cancelled(true);
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        SortMergeOptions options;
        options.scheme = scheme;
        options.expected_rows = 500;
        CHECK_THROWS(cuda::sort_merge_join(device, relation.device(), relation.device(), {},
                                           all_columns(relation, relation), options),
                     ErrorCode::kCancelled);
    }
    device.set_cancelled(false);
}

GPU_TEST("sort-merge join: no allocation that fails leaves a block behind") {
    cuda::Device& device = test_device();
    const auto keys = dense_permutation(small_or_full(1000, 30000), test_seed());
    const KeyedRelation build(repeated_keys(keys, 3, test_seed()), 8, {4, 16}, test_seed(), 0.1);
    const KeyedRelation probe(keys, 8, {8}, test_seed(), 0.1);
    const auto output = all_columns_and_presence(build, probe);
    const JoinKind kind = kNamedJoinKinds[3].kind;  // the full outer join takes most kinds of memory
    const HostTable expected = expected_table(build, probe, kind);
    const uint64_t blocks = device.memory().blocks();
    for (const SortMergeScheme scheme : kSortMergeSchemes) {
        SortMergeOptions options;
        options.scheme = scheme;
        options.expected_rows = 1;
        uint64_t failures = 0;
        for (bool done = false; !done;) {
            device.memory().fail_after(failures + 1);
            try {
                const auto result =
                    cuda::sort_merge_join(device, build.device(), probe.device(), kind, output, options);
                CHECK_EQ(result.rows, expected.rows());
                done = true;
            } catch (const cuda::Error& error) {
                CHECK(error.code() == ErrorCode::kOutOfMemory);
                ++failures;
            }
            CHECK_EQ(device.memory().blocks(), blocks);
        }
        device.memory().fail_after(0);
        // Per side at least a list of keyed rows, their keys, sorted keys and values, scratch, marks; tiles, counters,
        // pairs twice and five columns.
        CHECK(failures >= 2 * 6 + 2 + 4 + 5);
    }
}

}  // namespace spillway::gpu_test
