// SPDX-License-Identifier: Apache-2.0
// What racecheck watches of the paths beyond GPU memory (watched.hpp): each partitioner and each path once, at the
// smallest sizes at which blocks still share buffers, locks and tables with each other. Under that tool a kernel takes
// some hundred times as long; how the results hold at real sizes is what the other tests of these rooms are for.
#include <cstdint>
#include <string>
#include <vector>

#include "support/coherent_check.hpp"
#include "support/far_partition_check.hpp"
#include "support/staged_group_by_check.hpp"
#include "support/staged_join_check.hpp"

namespace spillway::gpu_test {

namespace {

constexpr uint64_t kRows = 1200;

cuda::FarPartitionOptions small_buffers(int radix_bits) {
    cuda::FarPartitionOptions options;
    options.radix_bits = radix_bits;
    // Buffers of a few rows are full all the time, so that warps flush them while others fill them.
    options.buffer_bytes = 64;
    options.second_level_bytes = 128;
    options.grid = 3;
    return options;
}

}  // namespace

GPU_TEST("far partition: flushes while other warps write, by each partitioner") {
    for (const uint32_t column_bytes : {4U, 8U}) {
        FarInput input(zipf_keys(kRows, kRows, 1.0, test_seed()), column_bytes, test_seed());
        FarOutput pages = FarOutput::pages({FarTier::kHost, FarTier::kDevice}, input, 4, 32);
        check_every_far(input, FarTier::kHost, pages, small_buffers(4), "small buffers, pages");
        FarOutput piece = FarOutput::piece(FarTier::kHost, input, 4);
        check_every_far(input, FarTier::kDevice, piece, small_buffers(4), "small buffers, one piece");
    }
}

GPU_TEST("far partition: all warps of a block write to one partition") {
    FarInput input(std::vector<uint64_t>(kRows, 12345), 8, test_seed());
    FarOutput pages = FarOutput::pages({FarTier::kHost}, input, 3, 16);
    check_every_far(input, FarTier::kHost, pages, small_buffers(3), "one key");
}

GPU_TEST("coherent join: a small one by each partitioner, in two passes and by an index") {
    const std::vector<uint64_t> keys = sparse_keys(kRows / 2, test_seed());
    const CoherentCheck check(repeated_keys(keys, 2, test_seed()), foreign_keys(keys, kRows, 0.7, test_seed()));
    for (int p = 0; p < cuda::kFarPartitioners; ++p) {
        BaselineSpec spec = check.spec(JoinResultKind::kRows, 3, kRows / 3, kMixed);
        spec.coherent.partitioner = static_cast<cuda::FarPartitioner>(p);
        check.expect(spec, cuda::kFarPartitionerNames[p]);
    }
    BaselineSpec indexed = check.spec(JoinResultKind::kRows, 3, kRows / 3, kFarOnly);
    indexed.coherent.second_pass = false;
    check.expect(indexed, "indexed");
}

GPU_TEST("staged join: a small one along each path") {
    const std::vector<uint64_t> keys = sparse_keys(kRows / 2, test_seed());
    const KeyedRelation build(repeated_keys(keys, 2, test_seed()), 8, {8}, test_seed(), 0.05);
    const KeyedRelation probe(foreign_keys(keys, kRows, 0.7, test_seed()), 8, {4}, test_seed() + 1, 0.05);
    const StagedJoinCheck full(build, probe, {JoinEmit::kPairs, false, true, true});
    full.rows(ample_sizes(kRows, 3), "resident");
    full.rows(spilled_sizes(kRows, 3, 3), "some partitions spilled");
    full.rows(least_sizes(2), "partitions that leave while rows come in");
    full.rows(least_sizes(0), "one partition in parts");
    const StagedJoinCheck inner(build, probe);
    StreamSizes filtered = spilled_sizes(kRows, 3, 0);
    filtered.filter_words = 256;
    inner.rows(filtered, "spilled rows behind a filter");
    inner.sums(spilled_sizes(kRows, 3, 4), "sums");
    inner.count(spilled_sizes(kRows, 3, 4), "count");
}

GPU_TEST("staged group-by: a small one along each path") {
    const std::vector<WantedAggregate> aggregates = {{Aggregate::kSum, 1}, {Aggregate::kCountRows}};
    for (const uint64_t groups : {uint64_t{7}, kRows / 2}) {
        const std::string what = std::to_string(groups) + " groups";
        const StagedGroupByCheck check(keyed_values(drawn_keys(kRows, groups, test_seed()), 8, 0.05), aggregates, true);
        for (const auto pre : {PreAggregation::kAlways, PreAggregation::kNever}) {
            check.run(with_pre_aggregation(ample_group_sizes(kRows, 3), pre), what + ", resident");
            check.run(with_pre_aggregation(least_group_sizes(2), pre), what + ", least pages");
        }
    }
    // One partition with more groups than pages comes back in slices.
    const StagedGroupByCheck distinct(keyed_values(sparse_keys(kRows, test_seed())), aggregates);
    distinct.run(least_group_sizes(0), "a partition in slices");
}

}  // namespace spillway::gpu_test
