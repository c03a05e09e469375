// SPDX-License-Identifier: Apache-2.0
// Joins of tuples whose large partitions go to kernels that kernels launch.
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "gpu_test.hpp"
#include "pair_join/pair_policy.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"
#include "support/pair_join_cases.hpp"

namespace spillway::gpu_test {

namespace {

using cuda::PairOutput;

// kBlocks: of all child kernels together.
template <PairOutput kOutput, int kBlocks>
MatchPairs with_children(cuda::Device& device, const cuda::DeviceRelation& build, const cuda::DeviceRelation& probe,
                         const MatchWish& wish, const PairJoinOptions& options) {
    PairJoinOptions with = options;
    with.parts = cuda::TupleParts::kSmall;
    with.child_kernels = true;
    with.child_blocks = kBlocks;
    with.output = kOutput;
    return cuda::shared_histogram_pairs(device, build, probe, wish, with, {});
}

template <PairOutput kOutput, int kBlocks>
constexpr PairJoin way(const char* name) {
    return {name, with_children<kOutput, kBlocks>, cuda::shared_histogram_partition};
}
constexpr PairJoin kWays[] = {way<PairOutput::kWarpChunks, -1>("child kernels, chunks of warps"),
                              way<PairOutput::kBlockChunks, -1>("child kernels, chunks of blocks"),
                              way<PairOutput::kThreadPages, -1>("child kernels, pages of threads"),
                              way<PairOutput::kBlockChunks, 0>("child kernels that none is left for"),
                              way<PairOutput::kWarpChunks, 3>("child kernels for few partitions")};

}  // namespace

GPU_TEST("child kernels: match ratios, NULL keys, key widths, tiny sides") {
    check_match_ratios(kWays[0]);
    check_tiny(kWays[0]);
}

GPU_TEST("child kernels: repeated keys, Zipf, hot keys on each side and on both, in every way") {
    // The full suite has many rows for each way, and takes every second one.
    for (size_t way = 0; way < std::size(kWays); way += full_suite() ? 2 : 1) check_skew(kWays[way]);
    check_hot_marks(kWays[0]);
}

// One partition, of as many units as its sizes say: below kChildUnitsMin its block joins it, else a kernel does.
GPU_TEST("child kernels: a partition just below, at and above the limit, by build rows and by probe rows") {
    using Parts = cuda::SmallParts;
    const auto check = [](uint64_t build_rows, uint64_t probe_rows) {
        const auto keys = sparse_keys(build_rows, test_seed());
        const KeyedRelation build(keys, 4, {}, test_seed());
        const KeyedRelation probe(foreign_keys(keys, probe_rows, 0.5, test_seed()), 4, {}, test_seed());
        const std::string what = std::to_string(build_rows) + " x " + std::to_string(probe_rows);
        for (const PairJoin& join : {kWays[0], kWays[1], kWays[4]}) check_pairs(join, build, probe, {0}, what);
    };
    for (const uint64_t units : {uint64_t{1}, cuda::kChildUnitsMin - 1, cuda::kChildUnitsMin}) {
        for (const int more : {-1, 0, 1}) {
            check(units * Parts::kBuildTuples + more, 700);
            check(300, units * Parts::kProbeTuples + more);
        }
    }
    check(2 * Parts::kBuildTuples, 2 * Parts::kProbeTuples);
    check(2 * Parts::kBuildTuples + 1, 2 * Parts::kProbeTuples + 1);
}

// 4,096 partitions of so many build rows each are more than the 2,048 launches that a device keeps by default.
GPU_TEST("child kernels: more large partitions than kernels can wait") {
    const int bits = full_suite() ? 12 : 4;
    const uint64_t partitions = 1ULL << bits;
    const auto keys =
        sparse_keys(partitions * (cuda::kChildUnitsMin + 1) * cuda::SmallParts::kBuildTuples, test_seed());
    const KeyedRelation build(keys, 4, {}, test_seed());
    const KeyedRelation probe(foreign_keys(keys, partitions * 64, 0.5, test_seed()), 4, {}, test_seed());
    check_pairs(kWays[0], build, probe, {bits}, "large partitions alone");
    check_pairs(kWays[1], build, probe, {bits}, "large partitions alone");
}

GPU_TEST("child kernels: refused for large parts") {
    const KeyedRelation few({1, 2, 3}, 4, {}, test_seed());
    PairJoinOptions options;
    options.child_kernels = true;
    CHECK_THROWS(cuda::shared_histogram_pairs(test_device(), few.device(), few.device(), {}, options),
                 cuda::ErrorCode::kInvalid);
}

}  // namespace spillway::gpu_test
