// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "algorithm.hpp"
#include "sort_merge_join/sort_merge_join.hpp"

namespace spillway::gpu_bench {

namespace {

template <cuda::SortMergeScheme kScheme, bool kAllKeyBits = false>
cuda::JoinResult run(cuda::Device& device, const Workload& workload, const Inputs& inputs, cuda::PhaseTimer& timer) {
    cuda::SortMergeOptions options;
    options.scheme = kScheme;
    options.all_key_bits = kAllKeyBits;
    options.expected_rows = workload.result_rows_estimate();
    const std::vector<cuda::JoinOutputColumn> output = all_payloads(workload);
    timer.begin(kTransformPhase);
    cuda::SortedRelations sorted =
        cuda::sort_relations(device, inputs.build.columns, inputs.probe.columns, workload.kind, output, options);
    timer.begin(kJoinPhase);
    cuda::JoinResult result = cuda::join_sorted(device, std::move(sorted), workload.kind, output, options);
    timer.end();
    return result;
}

}  // namespace

const Algorithm kSortMergeGather = {"smj-ur", true, run<cuda::SortMergeScheme::kGather>};
const Algorithm kSortMergeColumns = {"smj-tr", true, run<cuda::SortMergeScheme::kColumns>};
const Algorithm kSortMergeGatherAllBits = {"smj-ur-all-bits", true, run<cuda::SortMergeScheme::kGather, true>};
const Algorithm kSortMergeColumnsAllBits = {"smj-tr-all-bits", true, run<cuda::SortMergeScheme::kColumns, true>};
const Algorithm kMergeSortJoin = {"smj-merge", true, run<cuda::SortMergeScheme::kMergeSort>};

}  // namespace spillway::gpu_bench
