// SPDX-License-Identifier: Apache-2.0
#include "gpu_test.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"
#include "support/pair_join_cases.hpp"

namespace spillway::gpu_test {

namespace {

constexpr PairJoin kJoin = {"shared-histogram join", cuda::shared_histogram_pairs, cuda::shared_histogram_partition};

}  // namespace

GPU_TEST("shared-histogram join: match ratios, NULL keys, key widths, radix bits") {
    check_match_ratios(kJoin);
}

GPU_TEST("shared-histogram join: repeated keys, Zipf, hot keys on each side and on both") {
    check_skew(kJoin);
}

GPU_TEST("shared-histogram join: marks alone of a key that all rows have") {
    check_hot_marks(kJoin);
}

GPU_TEST("shared-histogram join: empty and tiny sides") {
    check_tiny(kJoin);
}

GPU_TEST("shared-histogram join: every row in its partition, once, and no gaps") {
    check_partitionings(kJoin);
}

GPU_TEST("shared-histogram join: every kind by name, payloads of every width") {
    check_kinds_and_payloads(cuda::JoinAlgorithm::kSharedHistogram);
}

GPU_TEST("shared-histogram join: arguments that no caller may give") {
    check_refusals(kJoin);
}

GPU_TEST("shared-histogram join: no allocation that fails leaves a block behind, nor does too little memory") {
    check_failing_allocations(kJoin, 40);
    check_small_memory(kJoin);
}

}  // namespace spillway::gpu_test
