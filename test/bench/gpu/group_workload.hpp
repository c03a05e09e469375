// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Group-bys: the max, or the sum, of each payload column per key.
namespace spillway::gpu_bench {

struct GroupWorkload {
    uint32_t key_bytes = 4;
    std::vector<uint32_t> payload = {4, 4};  // bytes of each column
    uint64_t rows = 0;
    uint64_t groups = 0;           // keys are 0 .. groups - 1; with few rows or much skew some do not come
    bool sum = false;              // the sums of the payloads in 64 bits, not their maxima
    double zipf = 0;               // exponent of their frequencies, 0 = uniform
    double hot_share = 0;          // share of the rows that have one key, beside uniform ones; 0 = none
    uint64_t expected_groups = 0;  // what the group-by is told; 0 = the number of keys
};

struct GroupBenchOptions {
    GroupWorkload workload;
    std::vector<std::string> algorithms;
    uint64_t samples = 7;
    uint64_t warmup = 2;
    uint64_t memory_limit = 0;  // bytes; 0 = what is free
    uint64_t seed = 1;
    int device = 0;
};

// Throws std::invalid_argument. The first argument is "group-by".
GroupBenchOptions parse_group_options(int count, char** arguments);

}  // namespace spillway::gpu_bench
