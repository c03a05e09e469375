// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "json_object.hpp"
#include "measure.hpp"
#include "partition_bench.hpp"

namespace spillway::gpu_bench {

namespace {

// Where partitions go, for the largest number of bits.
struct PartitionOutput {
    PartitionOutput(cuda::Device& device, const PartitionBenchOptions& options)
        : page_rows(options.page_bytes / options.tuple_bytes),
          pages(options.has_pages ? cuda::far_pages_needed(options.rows, page_rows, options.bits_to) : 0),
          block(device, options.destination,
                options.has_pages ? pages * options.page_bytes
                                  : cuda::far_piece_bytes(options.rows, options.tuple_bytes / 2, options.bits_to)) {
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

struct PartitionMeasurement {
    std::vector<double> samples_ms;
    uint64_t peak_bytes = 0;
    uint64_t pages_used = 0;
    std::string problem;
};

PartitionMeasurement measure_partitioner(cuda::Device& device, const PartitionBenchOptions& options,
                                         const PartitionInput& input, const PartitionOutput& output,
                                         const cuda::FarPartitionOptions& how) {
    PartitionMeasurement measurement;
    device.memory().reset_peak();
    cuda::FarPartitions partitions;
    for (uint64_t run = 0; run < options.warmup + options.samples; ++run) {
        partitions = {};
        device.synchronize();
        cuda::Event begin(cuda::EventTiming::kOn);
        cuda::Event end(cuda::EventTiming::kOn);
        begin.record(device.stream());
        cuda::FarDestination destination = output.destination;
        std::vector<uint64_t> counts;
        if (options.cpu_histogram && !options.has_pages) {
            counts = count_on_cpu(input.relation, how.radix_bits);
            destination.piece.counts = counts.data();
        }
        partitions = cuda::far_partition(device, input.relation, destination, how);
        end.record(device.stream());
        device.synchronize();
        if (run >= options.warmup) measurement.samples_ms.push_back(end.milliseconds_since(begin));
    }
    measurement.peak_bytes = device.memory().peak_bytes();
    measurement.pages_used = partitions.pages_used;
    measurement.problem = verify_partitions(device, input, partitions);
    return measurement;
}

// Bytes that cross each link, by the arithmetic of the pass.
struct LinkBytes {
    uint64_t h2d = 0;
    uint64_t d2h = 0;
    uint64_t peer = 0;
};

LinkBytes link_bytes(const PartitionBenchOptions& options) {
    LinkBytes bytes;
    const uint64_t all = options.rows * options.tuple_bytes;
    const bool counts_keys = !options.has_pages && !options.cpu_histogram;
    const uint64_t read = all + (counts_keys ? all / 2 : 0);
    if (options.source == TuplePlace::kHost) bytes.h2d += read;
    if (options.source == TuplePlace::kPeer) bytes.peer += read;
    if (options.destination == TuplePlace::kHost) bytes.d2h += all;
    if (options.destination == TuplePlace::kPeer) bytes.peer += all;
    return bytes;
}

std::string partition_json(cuda::Device& device, const PartitionBenchOptions& options, const std::string& name,
                           int bits, const PartitionMeasurement& measurement) {
    const auto text = [](const std::string& value) { return gpu_test::json_text(value); };
    Object workload;
    workload.add("rows", options.rows).add("tuple_bytes", uint64_t{options.tuple_bytes});
    workload.add("bits", static_cast<uint64_t>(bits));
    workload.add("source", text(far_place_name(options.source)));
    workload.add("destination", text(far_place_name(options.destination)));
    workload.add("form", text(options.has_pages ? "pages" : "contiguous"));
    if (options.has_pages) {
        workload.add("page_bytes", options.page_bytes).add("pages_used", measurement.pages_used);
    } else {
        workload.add("histogram", text(options.cpu_histogram ? "cpu" : "gpu"));
    }
    const auto multiprocessors = static_cast<uint64_t>(device.properties().multiprocessors);
    workload.add("grid", options.grid == 0 ? multiprocessors : options.grid);
    if (options.second_level_bytes > 0) workload.add("second_level_bytes", uint64_t{options.second_level_bytes});
    if (options.buffer_bytes > 0) workload.add("buffer_bytes", uint64_t{options.buffer_bytes});
    workload.add("seed", options.seed);
    const double median_ms = median(measurement.samples_ms);
    const auto rate = [median_ms](uint64_t bytes) { return number(static_cast<double>(bytes) / median_ms / 1e6); };
    const LinkBytes bytes = link_bytes(options);
    Object object;
    object.add("workload", workload.close()).add("partitioner", text(name));
    object.add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(measurement.samples_ms, milliseconds));
    object.add("rows_in", options.rows);
    object.add("g_tuples_per_s", number(static_cast<double>(options.rows) / median_ms / 1e6));
    // Of each row once, whatever is read for a histogram.
    object.add("gb_per_s", rate(options.rows * options.tuple_bytes));
    object.add("link_bytes", Object().add("h2d", bytes.h2d).add("d2h", bytes.d2h).add("peer", bytes.peer).close());
    object.add("link_gb_per_s",
               Object().add("h2d", rate(bytes.h2d)).add("d2h", rate(bytes.d2h)).add("peer", rate(bytes.peer)).close());
    object.add("verified", std::string(measurement.problem.empty() ? "true" : "false"));
    if (!measurement.problem.empty()) object.add("problem", text(measurement.problem));
    object.add("peak_bytes", Object().add("device", measurement.peak_bytes).close());
    object.add("device", text(device.properties().name));
    return object.close();
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
    bool is_right = true;
    for (const std::string& name : options.partitioners) {
        cuda::FarPartitionOptions how;
        how.partitioner = find_partitioner(name);
        how.grid = options.grid;
        how.second_level_bytes = options.second_level_bytes;
        how.buffer_bytes = options.buffer_bytes;
        const int most = cuda::far_bits_max(device.properties(), how.partitioner, options.tuple_bytes / 2);
        for (int bits = options.bits_from; bits <= std::min(options.bits_to, most); ++bits) {
            how.radix_bits = bits;
            const PartitionMeasurement measurement = measure_partitioner(device, options, input, output, how);
            std::printf("%s\n", partition_json(device, options, name, bits, measurement).c_str());
            std::fflush(stdout);  // what is measured stays so whatever comes next
            is_right = is_right && measurement.problem.empty();
        }
    }
    return is_right ? 0 : 1;
}

}  // namespace spillway::gpu_bench
