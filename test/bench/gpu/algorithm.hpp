// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "materialize/join_output.hpp"
#include "relations.hpp"
#include "workload.hpp"

namespace spillway::gpu_bench {

constexpr const char* kTransformPhase = "transform";
constexpr const char* kJoinPhase = "join";

// From columns in device memory to a result in device memory, whose columns are all_payloads().
struct Algorithm {
    const char* name;
    bool m_to_n;  // joins relations in which both sides repeat keys
    // Begins both phases of the timer.
    cuda::JoinResult (*run)(cuda::Device&, const Workload&, const Inputs&, cuda::PhaseTimer&);
    // Columns are transformed when they are gathered, so that no event parts the phases: the transform's time is what
    // it took in a last run, whose phases are listened to.
    bool mixes_phases = false;
    bool inner_only = false;
};

extern const Algorithm kRadixHashJoin;
extern const Algorithm kRadixHashCount;  // how many rows it would have
extern const Algorithm kBucketChainJoin;
extern const Algorithm kSharedHistogramJoin;
// The same in other ways. "direct": tuples are written one by one; "1024": so many partitions of a first pass; who
// takes places for pairs, or a probe before that counts them; "paper": direct, 1,024 partitions and then such of less
// than 512 tuples ("paper-staged": not direct); "child-kernels": as "paper-staged", large partitions by kernels that
// kernels launch.
extern const std::vector<Algorithm> kSharedHistogramVariants;
extern const Algorithm kNoPartitioningJoin;
extern const Algorithm kPerfectHashJoin;
extern const Algorithm kSortMergeGather;
extern const Algorithm kSortMergeColumns;
// The same with the papers' sorts, by all bits of the keys.
extern const Algorithm kSortMergeGatherAllBits;
extern const Algorithm kSortMergeColumnsAllBits;
extern const Algorithm kMergeSortJoin;
extern const Algorithm kGftrJoin;
extern const Algorithm kGftrJoinByBlock;
extern const Algorithm kCubSortMerge;
// Stand-ins of ours for what others do, made from descriptions, and none of their code: cuDF's hash join, and the radix
// hash join of He et al.
extern const Algorithm kCudfLikeJoin;
extern const Algorithm kHeEtAlJoin;

// The columns of a result: the key, the payloads of the build side and of the probe side, and for outer joins a byte
// that says which sides of a row are there.
inline std::vector<cuda::JoinOutputColumn> all_payloads(const Workload& workload) {
    using cuda::OutputSide;
    std::vector<cuda::JoinOutputColumn> output = {{OutputSide::kKey, 0}};
    for (uint32_t c = 0; c < workload.build_payload.size(); ++c) output.push_back({OutputSide::kBuild, c});
    for (uint32_t c = 0; c < workload.probe_payload.size(); ++c) output.push_back({OutputSide::kProbe, c});
    if (workload.kind.pairs() && !workload.kind.inner()) output.push_back({OutputSide::kPresence, 0});
    return output;
}

// Throws std::invalid_argument for a name that there is not, and for a workload that the algorithm cannot do.
const Algorithm& find_algorithm(const std::string& name, const Workload& workload);

}  // namespace spillway::gpu_bench
