// SPDX-License-Identifier: Apache-2.0
#include "bucket_chain_join/bucket_chain_join.hpp"
#include "gpu_test.hpp"
#include "support/pair_join_cases.hpp"

namespace spillway::gpu_test {

namespace {

constexpr PairJoin kJoin = {"bucket-chain join", cuda::bucket_chain_pairs, cuda::bucket_chain_partition};

}  // namespace

GPU_TEST("bucket-chain join: match ratios, NULL keys, key widths, radix bits") {
    check_match_ratios(kJoin);
}

GPU_TEST("bucket-chain join: repeated keys, Zipf, hot keys on each side and on both") {
    check_skew(kJoin);
}

GPU_TEST("bucket-chain join: marks alone of a key that all rows have") {
    check_hot_marks(kJoin);
}

GPU_TEST("bucket-chain join: empty and tiny sides") {
    check_tiny(kJoin);
}

GPU_TEST("bucket-chain join: every row in the chain of its partition, once, and no bucket in two") {
    check_partitionings(kJoin);
}

GPU_TEST("bucket-chain join: every kind by name, payloads of every width") {
    check_kinds_and_payloads(cuda::JoinAlgorithm::kBucketChain);
}

GPU_TEST("bucket-chain join: arguments that no caller may give") {
    check_refusals(kJoin);
}

GPU_TEST("bucket-chain join: no allocation that fails leaves a block behind, nor does too little memory") {
    check_failing_allocations(kJoin, 30);
    check_small_memory(kJoin);
}

}  // namespace spillway::gpu_test
