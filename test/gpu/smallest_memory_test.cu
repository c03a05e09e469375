// SPDX-License-Identifier: Apache-2.0
// Joins and group-bys by every algorithm on devices of ever less memory: the result is right down to the smallest that
// works, and below it the error is one of memory that leaves nothing behind.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "support/group_by_check.hpp"
#include "support/join_check.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::EquiJoin;
using cuda::JoinAlgorithm;

// Devices take memory from the driver in segments of MiB (device_policy.hpp): finer steps would tell nothing.
constexpr uint64_t kStepBytes = 2ULL << 20;

constexpr std::pair<const char*, JoinAlgorithm> kJoins[] = {
    {"phj-tr", JoinAlgorithm::kRadixHash},        {"npj", JoinAlgorithm::kNoPartitioning},
    {"npj-perfect", JoinAlgorithm::kPerfectHash}, {"phj-ur", JoinAlgorithm::kBucketChain},
    {"smj-ur", JoinAlgorithm::kSortMergeGather},  {"smj-tr", JoinAlgorithm::kSortMergeColumns},
    {"smj-merge", JoinAlgorithm::kMergeSort},     {"phj-shared", JoinAlgorithm::kSharedHistogram},
    {"phj-gftr", JoinAlgorithm::kGftrColumns}};

// A third of the algorithms where kernels are slow: which, is the seed's choice.
bool is_turn_of(uint64_t algorithm) {
    return (algorithm + test_seed()) % 3 == 0;
}

// run(device) computes and compares. True if this much memory is enough; with less it must fail cleanly.
template <class Run>
bool works_with(uint64_t limit_bytes, const Run& run) {
    cuda::Device device(test_device().ordinal(), limit_bytes);
    bool works = true;
    try {
        run(device);
    } catch (const cuda::Error& error) {
        CHECK_EQ(error.code(), cuda::ErrorCode::kOutOfMemory);
        works = false;
    }
    CHECK_EQ(device.memory().blocks(), 0);
    CHECK_EQ(device.memory().used_bytes(), 0);
    return works;
}

// The smallest number of steps that works, by bisection.
template <class Run>
void check_down_to_smallest(const std::string& what, const Run& run) {
    uint64_t enough = 1;
    while (!works_with(enough * kStepBytes, run)) {
        enough *= 2;
        if (enough * kStepBytes > (16ULL << 30)) fail(what + ": no memory is enough", __FILE__, __LINE__);
    }
    if (!full_suite()) return;
    uint64_t too_little = enough / 2;  // 0: a device without memory was not tried
    while (enough - too_little > 1) {
        const uint64_t steps = too_little + (enough - too_little) / 2;
        (works_with(steps * kStepBytes, run) ? enough : too_little) = steps;
    }
    if (!works_with(2 * enough * kStepBytes, run)) fail(what + ": more memory is refused", __FILE__, __LINE__);
}

}  // namespace

GPU_TEST("smallest memory: joins by every algorithm") {
    const uint64_t rows = small_or_full(600, 200000);
    const std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
    const uint32_t key_width = test_seed() % 2 == 0 ? 4 : 8;
    const KeyedRelation build(keys, key_width, {4, 8}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, 2 * rows, 0.5, test_seed()), key_width, {2, 8}, test_seed() + 1);
    const HostTable expected = expected_rows(build, probe);
    for (const auto& named : kJoins) {
        const std::string name = named.first;
        if (!full_suite() && !is_turn_of(static_cast<uint64_t>(named.second))) continue;
        EquiJoin join;
        join.algorithm = named.second;
        join.output = all_columns(build, probe);
        join.key_range = rows;
        check_down_to_smallest(name, [&](cuda::Device& device) {
            const cuda::JoinResult result = cuda::equi_join(device, build.device(), probe.device(), join);
            check_result(result, expected, name);
        });
    }
}

GPU_TEST("smallest memory: group-bys by every algorithm") {
    const uint64_t rows = small_or_full(3000, 400000);
    HostTable table;
    table.columns.push_back(group_keys_column(drawn_keys(rows, rows / 5, test_seed()), 8));
    table.columns.push_back(value_column(rows, 4, ValueKind::kSigned, test_seed(), 1));
    table.columns.push_back(value_column(rows, 8, ValueKind::kSigned, test_seed(), 2));
    const GroupInput input(std::move(table));
    const std::vector<WantedAggregate> aggregates = {
        {Aggregate::kSum, 1}, {Aggregate::kMax, 2}, {Aggregate::kCountRows}};
    const HostTable expected = reference_group_by(input.keyed_rows(), {0}, aggregates);
    std::vector<uint32_t> widths;
    for (size_t c = 1; c < expected.columns.size(); ++c) widths.push_back(expected.columns[c].width);
    for (const GroupByAlgorithm algorithm : kGroupByAlgorithms) {
        if (!full_suite() && !is_turn_of(static_cast<uint64_t>(algorithm))) continue;
        const cuda::GroupByRequest request = input.request(algorithm, aggregates, 0);
        const std::string name = "algorithm " + text_of(algorithm);
        check_down_to_smallest(name, [&](cuda::Device& device) {
            const HostTable actual = download_groups(cuda::group_by(device, request), 8, widths);
            const std::string difference = row_difference(actual, expected);
            if (!difference.empty()) fail(name + ": " + difference, __FILE__, __LINE__);
        });
    }
}

}  // namespace spillway::gpu_test
