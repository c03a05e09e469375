// SPDX-License-Identifier: Apache-2.0
#include "far_join/coherent_far_join.hpp"
#include "far_join/cpu_partitioned_join.hpp"
#include "far_join/far_join.hpp"
#include "far_join/table_join.hpp"
#include "far_join/uncached_join.hpp"

namespace spillway::cuda {

std::unique_ptr<FarJoin> open_far_join(Device& device, FarJoinAlgorithm algorithm, const FarJoinSpec& spec) {
    device.make_current();
    switch (algorithm) {
        case FarJoinAlgorithm::kTriton:
            return open_triton_join(device, spec);
        case FarJoinAlgorithm::kTritonUncached:
            return open_uncached_join(device, spec);
        case FarJoinAlgorithm::kStreamProbe:
            return open_stream_probe(device, spec);
        case FarJoinAlgorithm::kNpjFar:
            return open_npj_far(device, spec);
        case FarJoinAlgorithm::kNpjFarPerfect:
            return open_npj_far_perfect(device, spec);
        case FarJoinAlgorithm::kCpuPartitioned:
            return open_cpu_partitioned_join(device, spec);
        case FarJoinAlgorithm::kTritonCoherent:
            return open_coherent_join(device, spec);
    }
    throw Error(ErrorCode::kInvalid, "an algorithm that does not exist");
}

}  // namespace spillway::cuda
