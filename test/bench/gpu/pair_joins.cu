// SPDX-License-Identifier: Apache-2.0
// Partitioned joins of (key, row number), whose payloads are gathered by pairs of row numbers.
#include "algorithm.hpp"
#include "bucket_chain_join/bucket_chain_join.hpp"
#include "materialize/match_pairs.hpp"
#include "shared_histogram_join/shared_histogram_join.hpp"

namespace spillway::gpu_bench {

namespace {

// Transform: both partitionings. Join: finding the pairs, and gathering keys and payloads.
template <class Partition>
cuda::JoinResult run_pairs(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                           cuda::PhaseTimer& timer, cuda::PairJoinOptions options, const Partition& partition) {
    const std::vector<cuda::JoinOutputColumn> output = all_payloads(workload);
    options.expected_rows = workload.result_rows_estimate();
    const cuda::DeviceRelation& build = inputs.build.columns;
    const cuda::DeviceRelation& probe = inputs.probe.columns;
    timer.begin(kTransformPhase);
    cuda::JoinResult result =
        cuda::materialize_pairs(device, build, probe, workload.kind, output, [&](const cuda::MatchWish& wish) {
            const uint32_t row_width = cuda::tuple_row_width(build, probe, options);
            const int bits = cuda::tuple_radix_bits(build.rows, options);
            const cuda::PartitionedTuples build_tuples = partition(build, row_width, bits);
            const cuda::PartitionedTuples probe_tuples = partition(probe, row_width, bits);
            timer.begin(kJoinPhase);
            return cuda::join_tuples(device, build_tuples, probe_tuples, wish, options);
        });
    timer.end();
    return result;
}

cuda::JoinResult run_bucket_chains(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                                   cuda::PhaseTimer& timer) {
    return run_pairs(device, workload, inputs, timer, {},
                     [&](const cuda::DeviceRelation& relation, uint32_t row_width, int bits) {
                         return cuda::bucket_chain_partition(device, relation, row_width, bits);
                     });
}

struct HistogramVariant {
    bool first_pass_of_1024;
    bool staged;
    bool small_parts;
    cuda::PairOutput output;
    bool double_probe;
    bool child_kernels = false;
};

constexpr cuda::PairOutput kByWarp = cuda::PairOutput::kWarpChunks;
constexpr cuda::PairOutput kByBlock = cuda::PairOutput::kBlockChunks;
constexpr cuda::PairOutput kByThread = cuda::PairOutput::kThreadPages;
constexpr HistogramVariant kHistogramVariants[] = {
    {false, false, false, kByWarp, false},    {true, false, false, kByWarp, false},
    {true, true, false, kByWarp, false},      {false, true, false, kByBlock, false},
    {false, true, false, kByThread, false},   {false, true, false, kByWarp, true},
    {true, false, true, kByBlock, false},     {true, false, true, kByThread, false},
    {true, false, true, kByWarp, true},       {true, true, true, kByBlock, false},
    {true, true, true, kByBlock, false, true}};

template <int kVariant>
cuda::JoinResult run_histograms(cuda::Device& device, const Workload& workload, const Inputs& inputs,
                                cuda::PhaseTimer& timer) {
    cuda::PairJoinOptions options;
    cuda::HistogramOptions passes;
    if constexpr (kVariant >= 0) {
        constexpr HistogramVariant kOptions = kHistogramVariants[kVariant];
        options.parts = kOptions.small_parts ? cuda::TupleParts::kSmall : cuda::TupleParts::kLarge;
        options.output = kOptions.output;
        options.child_kernels = kOptions.child_kernels;
        options.plan = kOptions.double_probe ? cuda::OutputPlan::kCountFirst : cuda::OutputPlan::kOnePass;
        passes.first_pass_bits = kOptions.first_pass_of_1024 ? 10 : -1;
        passes.staged = kOptions.staged;
    }
    return run_pairs(device, workload, inputs, timer, options,
                     [&](const cuda::DeviceRelation& relation, uint32_t row_width, int bits) {
                         return cuda::shared_histogram_partition(device, relation, row_width, bits, passes);
                     });
}

}  // namespace

const Algorithm kBucketChainJoin = {"phj-ur", true, run_bucket_chains};
const Algorithm kSharedHistogramJoin = {"phj-shared", true, run_histograms<-1>};
const std::vector<Algorithm> kSharedHistogramVariants = {{"phj-shared-direct", true, run_histograms<0>},
                                                         {"phj-shared-direct-1024", true, run_histograms<1>},
                                                         {"phj-shared-1024", true, run_histograms<2>},
                                                         {"phj-shared-block-chunks", true, run_histograms<3>},
                                                         {"phj-shared-thread-pages", true, run_histograms<4>},
                                                         {"phj-shared-double-probe", true, run_histograms<5>},
                                                         {"phj-shared-paper-block-chunks", true, run_histograms<6>},
                                                         {"phj-shared-paper-thread-pages", true, run_histograms<7>},
                                                         {"phj-shared-paper-double-probe", true, run_histograms<8>},
                                                         {"phj-shared-paper-staged", true, run_histograms<9>},
                                                         {"phj-shared-child-kernels", true, run_histograms<10>}};

}  // namespace spillway::gpu_bench
