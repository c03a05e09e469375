// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <iterator>

#include "gpu_test.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"
#include "support/pair_join_cases.hpp"

namespace spillway::gpu_test {

namespace {

constexpr PairJoin kJoin = {"shared-histogram join", cuda::shared_histogram_pairs, cuda::shared_histogram_partition};

// The ways of Rui and Tu's paper, and those in between.
template <int kFirstBits, bool kStaged, cuda::TupleParts kParts, cuda::PairOutput kOutput>
MatchPairs pairs_by(cuda::Device& device, const cuda::DeviceRelation& build, const cuda::DeviceRelation& probe,
                    const MatchWish& wish, const PairJoinOptions& options) {
    PairJoinOptions with = options;
    with.parts = kParts;
    with.output = kOutput;
    return cuda::shared_histogram_pairs(device, build, probe, wish, with, {kFirstBits, kStaged});
}
template <int kFirstBits, bool kStaged>
PartitionedTuples partition_by(cuda::Device& device, const cuda::DeviceRelation& relation, uint32_t row_width,
                               int radix_bits) {
    return cuda::shared_histogram_partition(device, relation, row_width, radix_bits, {kFirstBits, kStaged});
}
template <int kFirstBits, bool kStaged, cuda::TupleParts kParts, cuda::PairOutput kOutput>
constexpr PairJoin way(const char* name) {
    return {name, pairs_by<kFirstBits, kStaged, kParts, kOutput>, partition_by<kFirstBits, kStaged>};
}
constexpr PairJoin kWays[] = {
    way<-1, true, cuda::TupleParts::kLarge, cuda::PairOutput::kBlockChunks>("staged, chunks of blocks"),
    way<10, false, cuda::TupleParts::kSmall, cuda::PairOutput::kThreadPages>("1,024 partitions, small parts, pages"),
    way<10, true, cuda::TupleParts::kSmall, cuda::PairOutput::kBlockChunks>("1,024 staged, small parts, chunks"),
    way<10, true, cuda::TupleParts::kLarge, cuda::PairOutput::kThreadPages>("1,024 staged, pages"),
    way<10, false, cuda::TupleParts::kSmall, cuda::PairOutput::kWarpChunks>("1,024 partitions, small parts")};

// All of them, or one that the seed chooses where kernels are slow.
template <class Body>
void for_ways(const Body& body) {
    for (size_t way = 0; way < std::size(kWays); ++way) {
        if (full_suite() || (way + test_seed()) % std::size(kWays) == 0) body(kWays[way]);
    }
}

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

GPU_TEST("shared-histogram join: pairs in every way of partitions, passes and places") {
    for_ways([](const PairJoin& join) {
        check_match_ratios(join);
        check_tiny(join);
    });
}

GPU_TEST("shared-histogram join: skew in every way of partitions, passes and places") {
    for_ways([](const PairJoin& join) {
        check_skew(join);
        check_hot_marks(join);
    });
}

GPU_TEST("shared-histogram join: partitions in every way, of up to 20 bits") {
    for_ways([](const PairJoin& join) { check_partitionings(join); });
    const auto keys = sparse_keys(small_or_full(5000, 900000), test_seed());
    for (const int bits : {17, 20}) {
        if (!full_suite() && bits == 20) continue;
        for (const PairJoin& join : {kWays[1], kWays[2]}) check_partitions(join, keys, 8, bits, "small parts", 0.1);
        const KeyedRelation relation(keys, 4, {}, test_seed());
        check_pairs(kWays[1], relation, relation, {bits, -1}, "small parts");
    }
    const KeyedRelation few({1, 2, 3}, 4, {}, test_seed());
    CHECK_THROWS(cuda::shared_histogram_partition(test_device(), few.device(), 4, 20, {9, false}),
                 cuda::ErrorCode::kInvalid);
    CHECK_THROWS(cuda::shared_histogram_partition(test_device(), few.device(), 4, 12, {12, false}),
                 cuda::ErrorCode::kInvalid);
}

GPU_TEST("shared-histogram join: no allocation that fails leaves a block behind, nor does too little memory") {
    check_failing_allocations(kJoin, 40);
    check_small_memory(kJoin);
}

}  // namespace spillway::gpu_test
