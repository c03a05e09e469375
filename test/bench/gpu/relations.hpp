// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "radix_partition/radix_partition.hpp"
#include "workload.hpp"

namespace spillway::gpu_bench {

struct Relation {
    cuda::DeviceRelation columns;
    std::vector<cuda::Allocation> memory;  // behind them
};

struct Inputs {
    Relation build;
    Relation probe;
};

// Keys of the build side: a shuffled dense range from 0 on or, with `distinct`, drawn uniformly from one. Keys of the
// probe side: drawn from their domain, uniformly or with frequencies after Zipf, the frequent ones anywhere in it.
// Payloads: rows.cuh.
Inputs make_inputs(cuda::Device& device, const Workload& workload, uint64_t seed);

}  // namespace spillway::gpu_bench
