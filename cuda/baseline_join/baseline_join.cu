// SPDX-License-Identifier: Apache-2.0
#include "baseline_join/baseline_join.hpp"
#include "coherent_join/coherent_join.hpp"
#include "staged_join/staged_join.hpp"

namespace spillway::cuda { inline namespace baseline_join {

namespace {

// The two-pass radix join of Lutz, Breß, Zeuch, Rabl and Markl ("Triton Join", SIGMOD 2022) as it is without the cache
// of their section 5.3, the left end of their figure 19: both sides are partitioned and leave device memory whole, as
// rows of all their bytes, and come back partition by partition. Every row passes the link three times. It is the
// staged join with no resident partition and nothing packed, so that the difference is what residency and packing gain,
// and no other.
std::unique_ptr<StreamOperator> open_uncached_join(Device& device, const BaselineSpec& spec) {
    check_inner(spec.join);
    StagedJoinSpec uncached = spec.join;
    uncached.sizes.resident_partitions = 0;
    uncached.sizes.packed = false;
    uncached.sizes.filter_words = 0;
    return std::make_unique<StagedJoin>(device, uncached, spec.peer);
}

std::unique_ptr<StreamOperator> open_coherent_join(Device& device, const BaselineSpec& spec) {
    CoherentJoinSpec coherent;
    coherent.join = spec.join;
    coherent.rows[kBuildSide] = spec.build_rows;
    coherent.rows[kProbeSide] = spec.probe_rows;
    coherent.options = spec.coherent;
    coherent.options.shares = spec.shares;
    return std::make_unique<CoherentJoin>(device, coherent, spec.peer);
}

}  // namespace

std::unique_ptr<StreamOperator> open_baseline_join(Device& device, BaselineAlgorithm algorithm,
                                                   const BaselineSpec& spec) {
    device.make_current();
    switch (algorithm) {
        case BaselineAlgorithm::kStaged:
            return std::make_unique<StagedJoin>(device, spec.join, spec.peer);
        case BaselineAlgorithm::kStagedUncached:
            return open_uncached_join(device, spec);
        case BaselineAlgorithm::kStreamProbe:
            return open_stream_probe(device, spec);
        case BaselineAlgorithm::kNpjFar:
            return open_npj_far(device, spec);
        case BaselineAlgorithm::kNpjFarPerfect:
            return open_npj_far_perfect(device, spec);
        case BaselineAlgorithm::kCpuPartitioned:
            return open_cpu_partitioned_join(device, spec);
        case BaselineAlgorithm::kTriton:
            return open_coherent_join(device, spec);
    }
    throw Error(ErrorCode::kInvalid, "an algorithm that does not exist");
}

}}  // namespace spillway::cuda::baseline_join
