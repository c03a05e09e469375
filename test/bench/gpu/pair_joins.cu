// SPDX-License-Identifier: Apache-2.0
// Partitioned joins of (key, row number), whose payloads are gathered by pairs of row numbers.
#include "algorithm.hpp"
#include "bucket_chain_join/bucket_chain_join.hpp"
#include "materialize/match_pairs.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"

namespace spillway::gpu_bench {

namespace {

using Partition = cuda::PartitionedTuples (*)(cuda::Device&, const cuda::DeviceRelation&, uint32_t, int);

// Transform: both partitionings. Join: finding the pairs, and gathering keys and payloads.
template <Partition kPartition>
cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    using cuda::OutputSide;
    std::vector<cuda::JoinOutputColumn> output = {{OutputSide::kKey, 0}};
    for (uint32_t c = 0; c < workload.build_payload.size(); ++c) output.push_back({OutputSide::kBuild, c});
    for (uint32_t c = 0; c < workload.probe_payload.size(); ++c) output.push_back({OutputSide::kProbe, c});
    cuda::PairJoinOptions options;
    options.expected_rows = workload.result_rows_estimate();
    const cuda::DeviceRelation& build = inputs.build.columns;
    const cuda::DeviceRelation& probe = inputs.probe.columns;
    timer.begin(kTransformPhase);
    cuda::JoinResult result =
        cuda::materialize_pairs(device, build, probe, {}, output, [&](const cuda::MatchWish& wish) {
            const uint32_t row_width = cuda::tuple_row_width(build, probe, options);
            const int bits = cuda::tuple_radix_bits(build.rows, options);
            const cuda::PartitionedTuples build_tuples = kPartition(device, build, row_width, bits);
            const cuda::PartitionedTuples probe_tuples = kPartition(device, probe, row_width, bits);
            timer.begin(kJoinPhase);
            return cuda::join_tuples(device, build_tuples, probe_tuples, wish, options);
        });
    timer.end();
    return result;
}

}  // namespace

const Algorithm kBucketChainJoin = {"phj-ur", true, run<cuda::bucket_chain_partition>};
const Algorithm kSharedHistogramJoin = {"phj-shared", true, run<cuda::shared_histogram_partition>};

}  // namespace spillway::gpu_bench
