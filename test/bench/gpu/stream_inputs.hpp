// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "stream_memory.hpp"
#include "stream_options.hpp"

namespace spillway::gpu_bench {

struct FarRelation {
    uint64_t rows = 0;
    uint32_t key_bytes = 0;
    FarMemory key;
    std::vector<uint32_t> widths;
    std::vector<FarMemory> columns;
};

struct FarInputs {
    FarRelation build;
    FarRelation probe;
};

// Written by kernels of the device, at the speed of the link.
FarInputs make_far_inputs(cuda::Device& device, const OutOfCoreOptions& options);

// What copies of 256 MiB reach, one direction at a time, and the sum of both at once: GB/s.
struct LinkRates {
    double h2d = 0;
    double d2h = 0;
    double both = 0;
    double peer = 0;  // from there; 0: nothing is there
    double peer_out = 0;
    double peer_both = 0;
};
LinkRates measure_links(cuda::Device& device, const OutOfCoreOptions& options);

}  // namespace spillway::gpu_bench
