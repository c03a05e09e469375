// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The names of the joins of this room. Without any CUDA.
namespace spillway::cuda { inline namespace baseline_join {

enum class BaselineAlgorithm : uint8_t {
    kTriton,          // StagedJoin itself
    kTritonUncached,  // uncached_join.hpp
    kStreamProbe,     // table_join.hpp
    kNpjFar,          // table_join.hpp, with a table of linear probing
    kNpjFarPerfect,   // table_join.hpp, with an array by key
    kCpuPartitioned,  // cpu_partitioned_join.hpp
    kTritonCoherent   // CoherentJoin, coherent_far_join.hpp
};

struct BaselineName {
    const char* name;
    BaselineAlgorithm algorithm;
};
constexpr BaselineName kBaselineNames[] = {{"triton", BaselineAlgorithm::kTriton},
                                           {"triton-uncached", BaselineAlgorithm::kTritonUncached},
                                           {"stream-probe", BaselineAlgorithm::kStreamProbe},
                                           {"npj-far", BaselineAlgorithm::kNpjFar},
                                           {"npj-far-perfect", BaselineAlgorithm::kNpjFarPerfect},
                                           {"cpu-partitioned", BaselineAlgorithm::kCpuPartitioned},
                                           {"triton-coherent", BaselineAlgorithm::kTritonCoherent}};

}}  // namespace spillway::cuda::baseline_join
