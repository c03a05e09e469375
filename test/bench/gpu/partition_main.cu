// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "measure.hpp"
#include "partition_bench.hpp"

namespace spillway::gpu_bench {

namespace {

// Where partitions go, for the largest number of bits.
struct PartitionOutput {
    PartitionOutput(cuda::Device& device, const PartitionBenchOptions& options)
        : page_rows(options.page_bytes / options.tuple_bytes),
          pages(options.has_pages ? cuda::far_pages_needed(options.rows, page_rows, options.bits_most()) : 0),
          block(device, options.destination,
                options.has_pages ? pages * options.page_bytes
                                  : cuda::far_piece_bytes(options.rows, options.tuple_bytes / 2, options.bits_most())) {
        if (!options.has_pages) {
            destination.piece.data = block.data();
            destination.piece.bytes = block.bytes();
            return;
        }
        std::vector<char*> list(pages);
        for (uint64_t page = 0; page < pages; ++page) list[page] = block.data() + page * options.page_bytes;
        addresses = device.memory().allocate(pages * sizeof(char*), "addresses of pages");
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(addresses.as(), list.data(), pages * sizeof(char*), cudaMemcpyHostToDevice,
                                            device.stream()));
        device.synchronize();
        destination.pages.addresses = addresses.as<char*>();
        destination.pages.pages = pages;
        destination.pages.page_rows = page_rows;
    }

    uint64_t page_rows;
    uint64_t pages;
    FarBlock block;
    cuda::Allocation addresses;
    cuda::FarDestination destination;
};

PartitionMeasurement measure_partitioner(cuda::Device& device, const PartitionBenchOptions& options,
                                         const PartitionInput& input, const PartitionOutput& output,
                                         const cuda::FarPartitionOptions& how) {
    PartitionMeasurement measurement;
    device.memory().reset_peak();
    cuda::FarPartitions partitions;
    double spent_ms = 0;
    for (uint64_t run = 0; run < options.warmup + options.samples; ++run) {
        partitions = {};
        device.synchronize();
        cuda::Event begin(cuda::EventTiming::kOn);
        cuda::Event end(cuda::EventTiming::kOn);
        begin.record(device.stream());
        cuda::FarDestination destination = output.destination;
        std::vector<uint64_t> counts;
        double histogram_ms = 0;
        if (options.cpu_histogram && !options.has_pages) {
            const auto start = std::chrono::steady_clock::now();
            counts = count_on_cpu(input.relation, how.radix_bits);
            destination.piece.counts = counts.data();
            const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
            histogram_ms = taken.count();
        }
        partitions = cuda::far_partition(device, input.relation, destination, how);
        end.record(device.stream());
        device.synchronize();
        const double run_ms = end.milliseconds_since(begin);
        spent_ms += run_ms;
        // Scattered stores over the link can take a hundred times as long as others: such a run needs no warm-up, and
        // as few repetitions as there is time for.
        const bool late = spent_ms >= static_cast<double>(options.budget_ms);
        if (run < options.warmup && !late) continue;
        measurement.samples_ms.push_back(run_ms);
        measurement.histogram_ms.push_back(histogram_ms);
        if (late) break;
    }
    measurement.peak_bytes = device.memory().peak_bytes();
    measurement.pages_used = partitions.pages_used;
    measurement.problem = verify_partitions(device, input, partitions);
    return measurement;
}

}  // namespace

int run_partition_bench(int count, char** arguments) {
    const PartitionBenchOptions options = parse_partition_options(count, arguments);
    const std::string obstacle = device_obstacle(options.device);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    cuda::Device device(options.device, options.memory_limit);
    const PartitionInput input(device, options);
    const PartitionOutput output(device, options);
    const FarStreamRates rates = measure_far_streams(device, options);
    bool is_right = true;
    for (const std::string& name : options.partitioners) {
        cuda::FarPartitionOptions how;
        how.partitioner = find_partitioner(name);
        how.grid = options.grid;
        how.second_level_bytes = options.second_level_bytes;
        how.buffer_bytes = options.buffer_bytes;
        const int most = cuda::far_bits_max(device.properties(), how.partitioner, options.tuple_bytes / 2);
        for (const int bits : options.bits) {
            if (bits > most) continue;  // shared memory has no room for so many partitions
            how.radix_bits = bits;
            const PartitionMeasurement measurement = measure_partitioner(device, options, input, output, how);
            std::printf("%s\n", partition_json(device, options, name, bits, rates, measurement).c_str());
            std::fflush(stdout);  // what is measured stays so whatever comes next
            is_right = is_right && measurement.problem.empty();
        }
    }
    return is_right ? 0 : 1;
}

}  // namespace spillway::gpu_bench
