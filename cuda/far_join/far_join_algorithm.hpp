// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The names of the joins of this room. Without any CUDA.
namespace spillway::cuda {

enum class FarJoinAlgorithm : uint8_t {
    kTriton,          // OutOfCoreJoin itself
    kTritonUncached,  // uncached_join.hpp
    kStreamProbe,     // table_join.hpp
    kNpjFar,          // ... a table of linear probing
    kNpjFarPerfect,   // ... an array by key
    kCpuPartitioned,  // cpu_partitioned_join.hpp
    kTritonCoherent   // CoherentJoin, coherent_far_join.hpp
};

struct FarJoinName {
    const char* name;
    FarJoinAlgorithm algorithm;
};
constexpr FarJoinName kFarJoinNames[] = {{"triton", FarJoinAlgorithm::kTriton},
                                         {"triton-uncached", FarJoinAlgorithm::kTritonUncached},
                                         {"stream-probe", FarJoinAlgorithm::kStreamProbe},
                                         {"npj-far", FarJoinAlgorithm::kNpjFar},
                                         {"npj-far-perfect", FarJoinAlgorithm::kNpjFarPerfect},
                                         {"cpu-partitioned", FarJoinAlgorithm::kCpuPartitioned},
                                         {"triton-coherent", FarJoinAlgorithm::kTritonCoherent}};

}  // namespace spillway::cuda
