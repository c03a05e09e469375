// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stream/stream_operator.hpp"
#include "stream_inputs.hpp"
#include "stream_verify.hpp"

namespace spillway::gpu_bench {

struct OutOfCoreSample {
    double wall_ms = 0;   // both inputs on the host's clock
    double setup_ms = 0;  // before that: device memory is taken, spill memory perhaps
    double build_ms = 0;
    double probe_ms = 0;
    double spilled_ms = 0;
};

struct OutOfCoreMeasurement {
    LinkRates rates;
    std::vector<OutOfCoreSample> samples;
    cuda::StreamReport report;  // of the last sample
    cuda::StageTimes stages;    // of the last sample; empty for algorithms that do not tell them
    uint64_t peak_device_bytes = 0;
    uint64_t peak_host_bytes = 0;  // pinned by the join; inputs and result are the caller's
    uint64_t peak_peer_bytes = 0;  // spilled rows there
    std::string device;
    std::string problem;  // empty: the last sample's result is right
};

// One line of JSON; the exit code.
int run_out_of_core_bench(int count, char** arguments);

std::string out_of_core_json(const OutOfCoreOptions& options, const OutOfCoreMeasurement& measurement);

}  // namespace spillway::gpu_bench
