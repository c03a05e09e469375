// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "far_partition/far_partition.hpp"

// Partitioners over far memory: from a tier, into a tier.
namespace spillway::gpu_bench {

enum class TuplePlace { kDevice, kHost, kPeer };

struct PartitionBenchOptions {
    uint64_t rows = 0;
    uint32_t tuple_bytes = 16;
    std::vector<int> bits;                  // a line for each of these with each partitioner
    std::vector<std::string> partitioners;  // a line for each of these with each number of bits
    TuplePlace source = TuplePlace::kHost;
    TuplePlace destination = TuplePlace::kHost;
    bool has_pages = true;
    bool cpu_histogram = false;
    uint64_t page_bytes = 1ULL << 21;
    uint32_t grid = 0;
    uint32_t second_level_bytes = 0;
    uint32_t buffer_bytes = 0;
    uint64_t samples = 5;
    uint64_t warmup = 1;
    uint64_t budget_ms = 3000;  // once so much is spent on a line, there are no more runs for it
    uint64_t memory_limit = 0;
    uint64_t seed = 1;
    int device = 0;

    int bits_most() const { return *std::max_element(bits.begin(), bits.end()); }
};

// Throws std::invalid_argument. The first argument is "partition".
PartitionBenchOptions parse_partition_options(int count, char** arguments);
cuda::FarPartitioner find_partitioner(const std::string& name);
const char* far_place_name(TuplePlace place);

// Memory that the device reaches: its own, a peer's, or pinned memory of the host.
class FarBlock {
  public:
    FarBlock(cuda::Device& device, TuplePlace place, uint64_t bytes);
    ~FarBlock();
    FarBlock(const FarBlock&) = delete;
    FarBlock& operator=(const FarBlock&) = delete;

    char* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }

  private:
    TuplePlace place_;
    uint64_t bytes_;
    char* data_ = nullptr;
    cuda::Allocation memory_;
};

// Rows with different keys, shuffled, and payloads that say which row it is.
struct PartitionInput {
    PartitionInput(cuda::Device& device, const PartitionBenchOptions& options);

    FarBlock columns;
    cuda::FarRelation relation;
    uint64_t expected[2] = {};  // two sums of independent hashes of all rows
};

// Keys of a host column per partition, on all cores.
std::vector<uint64_t> count_on_cpu(const cuda::FarRelation& relation, int bits);

// Empty, or what is wrong: a row in a partition that is not its own, or other rows than those of the input.
std::string verify_partitions(cuda::Device& device, const PartitionInput& input, const cuda::FarPartitions& partitions);

// What kernels that stream through memory behind a link reach, GB/s; both: of each direction. 0: it is not used.
struct StreamRates {
    double read = 0;
    double write = 0;
    double both = 0;
};
struct FarStreamRates {
    StreamRates host;
    StreamRates peer;
};
FarStreamRates measure_far_streams(cuda::Device& device, const PartitionBenchOptions& options);

struct PartitionMeasurement {
    std::vector<double> samples_ms;
    std::vector<double> histogram_ms;  // of the CPU, as a part of them
    uint64_t peak_bytes = 0;
    uint64_t pages_used = 0;
    std::string problem;
};
std::string partition_json(cuda::Device& device, const PartitionBenchOptions& options, const std::string& name,
                           int bits, const FarStreamRates& rates, const PartitionMeasurement& measurement);

// A line of JSON for each partitioner and number of bits; the exit code.
int run_partition_bench(int count, char** arguments);

}  // namespace spillway::gpu_bench
