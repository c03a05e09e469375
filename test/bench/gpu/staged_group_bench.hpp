// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "staged_group_by/staged_group_by.hpp"
#include "staged_group_options.hpp"
#include "stream_inputs.hpp"

namespace spillway::gpu_bench {

// What the result must be, found from the inputs by one atomic operation per row on arrays indexed by the key: no
// algorithm of the product.
struct FarGroups {
    uint64_t groups = 0;    // keys that have rows
    cuda::Allocation sums;  // [options.groups], 8 bytes: the aggregate of each key
    cuda::Allocation seen;  // [options.groups], 4 bytes: 1 = the key has rows
};

FarRelation make_far_group_input(cuda::Device& device, const FarGroupOptions& options);
FarGroups expected_far_groups(cuda::Device& device, const FarGroupOptions& options, const FarRelation& input);
// Columns of so many groups in host memory, of keys that no row has.
FarRelation make_far_group_rows(cuda::Device& device, const FarGroupOptions& options, uint64_t groups);
void spoil_far_group_rows(cuda::Device& device, const FarRelation& result);
// Empty, or what is wrong with the result. Uses up what was expected.
std::string check_far_groups(cuda::Device& device, const FarGroupOptions& options, const FarRelation& result,
                             const FarGroups& expected);

struct FarGroupSample {
    double wall_ms = 0;
    double setup_ms = 0;
    double read_ms = 0;
    double resident_ms = 0;
    double spilled_ms = 0;
};

struct FarGroupMeasurement {
    LinkRates rates;
    std::vector<FarGroupSample> samples;
    cuda::StreamReport report;  // of the last sample
    uint64_t peak_device_bytes = 0;
    uint64_t peak_host_bytes = 0;
    std::string device;
    std::string problem;  // empty: the last sample's result is right
};

std::string far_group_json(const FarGroupOptions& options, const FarGroupMeasurement& measurement);

// One line of JSON; the exit code.
int run_out_of_core_group_bench(int count, char** arguments);

}  // namespace spillway::gpu_bench
