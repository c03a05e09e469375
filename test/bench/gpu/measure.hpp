// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "algorithm.hpp"
#include "verify.hpp"

namespace spillway::gpu_bench {

constexpr int kNothingRan = 2;  // exit code

// What copying in device memory reaches on an H200, read and written bytes together.
constexpr double kH200BytesPerMs = 3.98e9;

// Why the device cannot be used; empty = it can.
std::string device_obstacle(int ordinal);

struct Sample {
    double total_ms = 0;  // between two events around the join
    double host_ms = 0;   // the same by the host's clock, with the last wait for the device
    double transform_ms = 0;
    double join_ms = 0;
};

// Bytes that a phase must read and write in GPU memory, as the product reports them; zeros: not known.
struct Traffic {
    uint64_t transform_bytes = 0;
    uint64_t join_bytes = 0;
};

struct Measurement {
    std::vector<Sample> samples;
    uint64_t result_rows = 0;
    uint64_t peak_bytes = 0;  // of device memory, inputs and result included
    Traffic traffic;
    Verdict verdict;  // on the result of the last sample
};

Measurement measure(cuda::Device& device, const Algorithm& algorithm, const BenchOptions& options,
                    const Inputs& inputs);

double median(std::vector<double> values);
std::vector<double> times_of(const std::vector<Sample>& samples, double Sample::*time);

// One JSON object: the workload, the times, what they say about throughput, and whether the result is right.
std::string to_json(cuda::Device& device, const Algorithm& algorithm, const BenchOptions& options,
                    const Measurement& measurement);

}  // namespace spillway::gpu_bench
