// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

// What an out-of-core join of the benchmark is given of its memory, as long as no planner says it.
namespace spillway::gpu_bench {

struct OutOfCoreShape {
    uint64_t build_rows = 0;
    uint64_t probe_rows = 0;
    uint32_t build_row_bytes = 0;  // key and columns, in whole words of 4 bytes
    uint32_t probe_row_bytes = 0;
    uint64_t memory_limit_bytes = 0;
    uint64_t host_limit_bytes = 0;  // for spilled rows; 0 = for all rows of both sides
    bool second_pass = false;       // partitions of both sides are partitioned once more, by 8 bits, not indexed
    bool fast_link = false;         // inputs come from another GPU, some times faster than from the host
    uint64_t filter_bits = 0;       // of a Bloom filter for each of build_keys; 0 = there is none
    uint64_t build_keys = 0;        // different ones
    double match_ratio = 1;         // share of the probe rows that have a partner
};

// What somebody has decided already.
struct GivenSizes {
    std::optional<uint64_t> radix_bits;
    std::optional<uint64_t> chunk_rows;
    std::optional<uint64_t> chunk_slots;
    std::optional<uint64_t> page_rows;
    std::optional<uint64_t> pages;
    std::optional<uint64_t> resident_partitions;
};

// As cuda::StreamSizes, for code without CUDA.
struct ChosenSizes {
    uint64_t radix_bits = 0;
    uint64_t chunk_rows = 0;
    uint64_t chunk_slots = 3;
    uint64_t filter_words = 0;
    uint64_t page_rows = 0;
    uint64_t pages = 0;
    uint64_t resident_partitions = 0;
    uint64_t spill_block_bytes = 0;
    uint64_t spill_bytes = 0;
    uint64_t result_rows = 0;
    uint64_t result_slots = 2;
};

// The device memory that sizes take; never less for more rows or pages.
using DeviceBytes = std::function<uint64_t(const ChosenSizes&)>;

ChosenSizes choose_sizes(const OutOfCoreShape& shape, const GivenSizes& given, const DeviceBytes& device_bytes);

}  // namespace spillway::gpu_bench
