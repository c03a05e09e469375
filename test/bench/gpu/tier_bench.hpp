// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"

// spillway_gpu_bench tiers [--bytes N] [--samples N] [--device N] [--stripes 2,16,64]
// What memory of each tier costs to get, and how fast kernels stream through it: a line of JSON for each measurement.
namespace spillway::gpu_bench {

struct TierBenchOptions {
    uint64_t bytes = uint64_t{4} << 30;  // of each range
    uint64_t samples = 5;
    int device = 0;
    std::vector<uint64_t> stripes_mib{2, 16, 64};
};

// How the blocks of a kernel share a range. Together: all of them side by side through it, so that a few MiB are in use
// at a time. Apart: each through a part of its own, so that all of the range is, which is what spreads over the tiers
// whatever the size of stripes.
enum class StreamOrder { kTogether, kApart };
enum class StreamDirection { kRead, kWrite, kBoth };

struct StreamTimes {
    std::vector<double> samples_ms;
    bool is_right = true;  // what was read is what was written
};

// Kernels on device.stream() over `bytes` (a multiple of 16) at `data`, which any tier may hold.
StreamTimes time_stream(cuda::Device& device, void* data, uint64_t bytes, StreamDirection direction, StreamOrder order,
                        uint64_t samples);

// Lines of what memory costs.
void measure_tier_allocations(cuda::Device& device, const TierBenchOptions& options);

void print_tier_times(const std::string& fields, uint64_t bytes, const std::vector<double>& samples_ms);

int run_tier_bench(int count, char** arguments);

}  // namespace spillway::gpu_bench
