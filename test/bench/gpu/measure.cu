// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "device/phase_times.hpp"
#include "measure.hpp"

namespace spillway::gpu_bench {

namespace {

Sample run_once(cuda::Device& device, const Algorithm& algorithm, const Workload& workload, const Inputs& inputs,
                cuda::JoinResult& result) {
    result = {};  // its memory is free again before the clock starts
    cuda::PhaseTimer timer(device.stream());
    cuda::Event begin(cuda::EventTiming::kOn);
    cuda::Event end(cuda::EventTiming::kOn);
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    begin.record(device.stream());
    result = algorithm.run(device, workload, inputs, timer);
    end.record(device.stream());
    device.synchronize();
    const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now() - start;
    Sample sample;
    sample.total_ms = end.milliseconds_since(begin);
    sample.host_ms = host.count();
    sample.transform_ms = timer.milliseconds(kTransformPhase);
    sample.join_ms = timer.milliseconds(kJoinPhase);
    return sample;
}

Traffic traffic_of(const cuda::PhaseTimes& times) {
    const uint64_t transform_bytes = times.moved_bytes(cuda::Phase::kTransform);
    return {transform_bytes, times.moved_bytes() - transform_bytes};
}

void part_phases(cuda::Device& device, const Algorithm& algorithm, const BenchOptions& options, const Inputs& inputs,
                 cuda::JoinResult& result, std::vector<Sample>& samples) {
    cuda::PhaseTimes times(device);
    run_once(device, algorithm, options.workload, inputs, result);
    const double transform_ms = times.milliseconds(cuda::Phase::kTransform);
    for (Sample& sample : samples) {
        sample.transform_ms = std::min(transform_ms, sample.total_ms);
        sample.join_ms = sample.total_ms - sample.transform_ms;
    }
}

}  // namespace

Measurement measure(cuda::Device& device, const Algorithm& algorithm, const BenchOptions& options,
                    const Inputs& inputs) {
    Measurement measurement;
    cuda::JoinResult result;
    device.memory().reset_peak();
    {
        // A run of its own, which does not count: who listens has events between the kernels.
        const cuda::PhaseTimes times(device);
        run_once(device, algorithm, options.workload, inputs, result);
        measurement.traffic = traffic_of(times);
    }
    for (uint64_t run = 1; run < options.warmup + options.samples + (options.warmup == 0 ? 1 : 0); ++run) {
        const Sample sample = run_once(device, algorithm, options.workload, inputs, result);
        if (run >= options.warmup) measurement.samples.push_back(sample);
    }
    if (algorithm.mixes_phases) part_phases(device, algorithm, options, inputs, result, measurement.samples);
    measurement.peak_bytes = device.memory().peak_bytes();
    measurement.result_rows = result.rows;
    measurement.verdict = verify(device, options.workload, inputs, result);
    return measurement;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> times_of(const std::vector<Sample>& samples, double Sample::*time) {
    std::vector<double> times;
    for (const Sample& sample : samples) times.push_back(sample.*time);
    return times;
}

}  // namespace spillway::gpu_bench
