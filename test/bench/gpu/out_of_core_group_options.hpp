// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace spillway::gpu_bench {

// Sizes that somebody has decided already.
struct GivenGroupSizes {
    std::optional<uint64_t> radix_bits;
    std::optional<uint64_t> chunk_rows;
    std::optional<uint64_t> chunk_slots;
    std::optional<uint64_t> page_rows;
    std::optional<uint64_t> pages;
    std::optional<uint64_t> merge_rows;
    std::optional<uint64_t> result_rows;
    std::optional<uint64_t> result_slots;
};

enum class FarAggregate { kSum, kMax, kMin, kCount };
enum class FarPreAggregation { kAuto, kAlways, kNever };

struct FarGroupOptions {
    uint32_t key_bytes = 8;
    uint32_t payload_bytes = 8;  // of the one column
    uint32_t value_bits = 31;    // of its values: sums must fit 63 bits
    uint64_t rows = 0;
    uint64_t groups = 0;
    double zipf = 0;  // exponent, 0 = every key equally often
    FarAggregate aggregate = FarAggregate::kSum;
    FarPreAggregation pre_aggregation = FarPreAggregation::kAuto;
    GivenGroupSizes sizes;
    uint64_t memory_limit = 0;  // bytes; 0 = what is free
    uint64_t host_limit = 0;    // bytes for spilled rows; 0 = as many as there can be
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

// As cuda::StreamSizes, for code without CUDA.
struct ChosenGroupSizes {
    uint64_t radix_bits = 0;
    uint64_t chunk_rows = 0;
    uint64_t chunk_slots = 3;
    uint64_t page_rows = 0;
    uint64_t pages = 0;
    uint64_t merge_rows = 0;
    uint64_t spill_block_bytes = 0;
    uint64_t spill_bytes = 0;
    uint64_t result_rows = 0;
    uint64_t result_slots = 2;
};

// device_bytes: what sizes take, never less for more rows or pages. memory_limit_bytes: that there are.
ChosenGroupSizes choose_group_sizes(const FarGroupOptions& options, uint64_t memory_limit_bytes,
                                    const std::function<uint64_t(const ChosenGroupSizes&)>& device_bytes);

}  // namespace spillway::gpu_bench
