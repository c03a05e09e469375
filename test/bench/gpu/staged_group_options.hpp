// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "api/stream_spec.hpp"

namespace spillway::gpu_bench {

enum class FarAggregate { kSum, kMax, kMin, kCount };

struct FarGroupOptions {
    uint32_t key_bytes = 8;
    uint32_t payload_bytes = 8;  // of the one column
    uint32_t value_bits = 31;    // of its values: sums must fit 63 bits
    uint64_t rows = 0;
    uint64_t groups = 0;
    double zipf = 0;  // exponent, 0 = every key equally often
    FarAggregate aggregate = FarAggregate::kSum;
    cuda::StreamSizes sizes;
    uint64_t memory_limit = 0;  // bytes; 0 = what is free
    uint64_t samples = 3;
    uint64_t warmup = 1;
    uint64_t seed = 1;
    int device = 0;

    uint64_t input_bytes() const { return rows * (key_bytes + payload_bytes); }
    uint32_t result_bytes() const {
        return aggregate == FarAggregate::kSum || aggregate == FarAggregate::kCount ? 8 : payload_bytes;
    }
};

// Throws std::invalid_argument. The first argument is "out-of-core-group-by".
FarGroupOptions parse_far_group_options(int count, char** arguments);

}  // namespace spillway::gpu_bench
