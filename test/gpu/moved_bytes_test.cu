// SPDX-License-Identifier: Apache-2.0
// What operations say that they move: no less than they read and write in any case, the same for equal runs, and no
// more than memory can have moved in the time that they took.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/phase_times.hpp"
#include "device/sector_bytes.hpp"
#include "equi_join/equi_join.hpp"
#include "gpu_test.hpp"
#include "group_by/group_by.hpp"
#include "support/join_kinds.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::Phase;

struct Moved {
    uint64_t bytes = 0;
    uint64_t transform_bytes = 0;
    double ms = 0;
};

template <class Operation>
Moved moved_by(const Operation& operation) {
    cuda::Device& device = test_device();
    const cuda::PhaseTimes times(device);
    cuda::Event begin(cuda::EventTiming::kOn);
    cuda::Event end(cuda::EventTiming::kOn);
    device.synchronize();
    begin.record(device.stream());
    operation();
    end.record(device.stream());
    device.synchronize();
    return {times.moved_bytes(), times.moved_bytes(Phase::kTransform), end.milliseconds_since(begin)};
}

// Bytes per ms, read and written together, the best of some copies that no cache holds.
double copy_rate() {
    cuda::Device& device = test_device();
    constexpr uint64_t kBytes = 1ULL << 30;
    const cuda::Allocation from = device.memory().allocate(kBytes, "a copy to be timed");
    const cuda::Allocation to = device.memory().allocate(kBytes, "a copy to be timed");
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(from.as(), 0, kBytes, device.stream()));
    double best_ms = 1e9;
    for (int run = 0; run < 4; ++run) {
        const Moved copy = moved_by([&] {
            SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to.as(), from.as(), kBytes, cudaMemcpyDeviceToDevice, device.stream()));
        });
        best_ms = std::min(best_ms, copy.ms);
    }
    return 2.0 * kBytes / best_ms;
}

// at_least: what is in the inputs and in the result.
template <class Operation>
void check_moved(const std::string& name, uint64_t at_least, const Operation& operation) {
    const Moved first = moved_by(operation);
    const Moved again = moved_by(operation);
    if (first.bytes != again.bytes) {
        fail(name + ": " + text_of(first.bytes) + " bytes, then " + text_of(again.bytes), __FILE__, __LINE__);
    }
    // Merge sorts are the worst, which move each key and row number a dozen times.
    if (first.bytes < at_least || first.bytes > 100 * at_least) {
        fail(name + ": " + text_of(first.bytes) + " bytes where columns have " + text_of(at_least), __FILE__, __LINE__);
    }
    if (!full_suite()) return;
    static const double most = copy_rate();
    const double share = static_cast<double>(first.bytes) / std::min(first.ms, again.ms) / most;
    if (share > 1.2) fail(name + ": " + text_of(share) + " of the rate of copies", __FILE__, __LINE__);
}

constexpr const char* kJoinNames[] = {"phj-tr", "npj",       "npj-perfect", "phj-ur",  "smj-ur",
                                      "smj-tr", "smj-merge", "phj-shared",  "phj-gftr"};

cuda::EquiJoin join_of(int algorithm, uint64_t rows) {
    cuda::EquiJoin join;
    join.algorithm = static_cast<cuda::JoinAlgorithm>(algorithm);
    join.key_range = rows;
    join.expected_rows = rows;
    return join;
}

bool partitions_or_sorts(cuda::JoinAlgorithm algorithm) {
    return algorithm != cuda::JoinAlgorithm::kNoPartitioning && algorithm != cuda::JoinAlgorithm::kPerfectHash;
}

}  // namespace

GPU_TEST("moved bytes: sectors of random accesses, arrays in the cache, places that rise") {
    const cuda::Device& device = test_device();
    const uint64_t large = (device.properties().l2_bytes / 4096 + 1) * 4096;
    CHECK_EQ(cuda::sector_bytes(device, 0, 4, large), uint64_t{0});
    CHECK_EQ(cuda::sector_bytes(device, 10, 4, 0), uint64_t{320});
    CHECK_EQ(cuda::sector_bytes(device, 10, 4, large), uint64_t{320});
    CHECK_EQ(cuda::sector_bytes(device, 10, 40, large), uint64_t{640});
    CHECK_EQ(cuda::sector_bytes(device, large, 4, large), 32 * large);
    CHECK_EQ(cuda::sector_bytes(device, large, 4, large, 1), large);
    CHECK_EQ(cuda::sector_bytes(device, large, 4, large, 3), 3 * large);
    CHECK_EQ(cuda::sector_bytes(device, large, 4, large, uint64_t{1} << 60), 32 * large);
    CHECK_EQ(cuda::sector_bytes(device, 1000, 4, 1000), uint64_t{1024});
    CHECK_EQ(cuda::sector_bytes(device, 10, 4, 1000), uint64_t{320});
}

GPU_TEST("moved bytes: inner joins by every algorithm") {
    const uint64_t rows = small_or_full(6'000, 1 << 24);
    const KeyedRelation build(dense_permutation(rows, test_seed()), 4, {4, 4}, test_seed());
    const KeyedRelation probe(dense_permutation(rows, test_seed() + 1), 4, {4, 4}, test_seed() + 1);
    for (int algorithm = 0; algorithm < cuda::kJoinAlgorithms; ++algorithm) {
        cuda::EquiJoin join = join_of(algorithm, rows);
        join.output = {{cuda::OutputSide::kKey, 0},
                       {cuda::OutputSide::kBuild, 0},
                       {cuda::OutputSide::kBuild, 1},
                       {cuda::OutputSide::kProbe, 0},
                       {cuda::OutputSide::kProbe, 1}};
        const auto run = [&] {
            CHECK_EQ(cuda::equi_join(test_device(), build.device(), probe.device(), join).rows, rows);
        };
        check_moved(kJoinNames[algorithm], rows * (12 + 12 + 20), run);
        const Moved moved = moved_by(run);
        CHECK(moved.transform_bytes >= (partitions_or_sorts(join.algorithm) ? rows * (4 + 4) : 0));
        CHECK(moved.bytes - moved.transform_bytes >= rows * 20);
        const auto count = [&] {
            CHECK_EQ(cuda::equi_join_count(test_device(), build.device(), probe.device(), join), rows);
        };
        check_moved(std::string(kJoinNames[algorithm]) + ", counted", rows * (4 + 4), count);
    }
}

GPU_TEST("moved bytes: joins of wide rows") {
    const uint64_t rows = small_or_full(6'000, 1 << 23);
    const KeyedRelation build(dense_permutation(rows, test_seed()), 4, {4, 8, 8, 4, 8, 2, 1}, test_seed());
    const KeyedRelation probe(dense_permutation(rows, test_seed() + 1), 4, {16, 16, 4}, test_seed() + 1);
    cuda::EquiJoin join = join_of(0, rows);
    join.output = {{cuda::OutputSide::kKey, 0}};
    for (uint32_t c = 0; c < 7; ++c) join.output.push_back({cuda::OutputSide::kBuild, c});
    for (uint32_t c = 0; c < 3; ++c) join.output.push_back({cuda::OutputSide::kProbe, c});
    const auto run = [&] { CHECK_EQ(cuda::equi_join(test_device(), build.device(), probe.device(), join).rows, rows); };
    check_moved("wide rows", rows * (39 + 40 + 75), run);
    const Moved moved = moved_by(run);
    // Each column is read and written once by the first pass, and read and written once by the gather.
    CHECK(moved.transform_bytes >= rows * 2 * (39 + 40));
    CHECK(moved.bytes - moved.transform_bytes >= rows * 2 * (35 + 36));
}

GPU_TEST("moved bytes: every kind of join by every algorithm, keys that are NULL") {
    const uint64_t rows = small_or_full(1'000, 100'000);
    const KeyedRelation build(dense_permutation(rows, test_seed()), 4, {4, 8}, test_seed(), 0.1);
    const KeyedRelation probe(dense_permutation(2 * rows, test_seed() + 1), 4, {4}, test_seed() + 1, 0.1);
    for (const NamedJoinKind& named : kNamedJoinKinds) {
        const bool is_full = named.kind.keep_unmatched_build && named.kind.keep_unmatched_probe;
        if (watched_suite() && !is_full) continue;
        for (int algorithm = 0; algorithm < cuda::kJoinAlgorithms; ++algorithm) {
            cuda::EquiJoin join = join_of(algorithm, rows);
            join.expected_rows = 3 * rows;  // no run is short of memory and made again
            join.kind = named.kind;
            join.output = {{cuda::OutputSide::kKey, 0}};
            const auto run = [&] { cuda::equi_join(test_device(), build.device(), probe.device(), join); };
            check_moved(std::string(kJoinNames[algorithm]) + ", " + named.name, 3 * rows * 4, run);
        }
    }
}

GPU_TEST("moved bytes: group-bys by every algorithm") {
    const uint64_t rows = small_or_full(10'000, 1 << 24);
    for (const uint64_t groups : {uint64_t{4}, small_or_full(500, 1 << 20)}) {
        std::vector<uint64_t> keys = dense_permutation(rows, test_seed());
        for (uint64_t& key : keys) key %= groups;
        const KeyedRelation table(keys, 4, {4, 4}, test_seed());
        for (int algorithm = 0; algorithm < cuda::kGroupByAlgorithms; ++algorithm) {
            cuda::GroupByRequest request;
            request.algorithm = static_cast<cuda::GroupByAlgorithm>(algorithm);
            request.rows = rows;
            request.key = table.device().key;
            request.expected_groups = groups;
            for (const cuda::DeviceColumn& column : table.device().columns) {
                request.aggregates.push_back({cuda::GroupAggregateKind::kMax, cuda::ValueKind::kUnsigned, column});
            }
            const auto run = [&] { CHECK_EQ(cuda::group_by(test_device(), request).groups, groups); };
            const std::string name =
                std::string(cuda::kGroupByAlgorithmNames[algorithm]) + ", groups " + std::to_string(groups);
            check_moved(name, (rows + groups) * 12, run);
        }
    }
}

}  // namespace spillway::gpu_test
