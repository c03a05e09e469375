// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The names of the joins of this room. Without any CUDA.
namespace spillway::cuda { inline namespace baseline_join {

enum class BaselineAlgorithm : uint8_t {
    kStaged,          // StagedJoin itself
    kStagedUncached,  // StagedJoin with no resident partition and nothing packed
    kStreamProbe,     // table_join.cu
    kNpjFar,          // table_join.cu, with a table of linear probing
    kNpjFarPerfect,   // table_join.cu, with an array by key
    kCpuPartitioned,  // cpu_partitioned_join.cu
    kTriton           // CoherentJoin
};

struct BaselineName {
    const char* name;
    BaselineAlgorithm algorithm;
};
constexpr BaselineName kBaselineNames[] = {{"staged", BaselineAlgorithm::kStaged},
                                           {"staged-uncached", BaselineAlgorithm::kStagedUncached},
                                           {"stream-probe", BaselineAlgorithm::kStreamProbe},
                                           {"npj-far", BaselineAlgorithm::kNpjFar},
                                           {"npj-far-perfect", BaselineAlgorithm::kNpjFarPerfect},
                                           {"cpu-partitioned", BaselineAlgorithm::kCpuPartitioned},
                                           {"triton", BaselineAlgorithm::kTriton}};

}}  // namespace spillway::cuda::baseline_join
