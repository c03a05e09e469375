// SPDX-License-Identifier: Apache-2.0
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "device/phase_times.hpp"
#include "group_bench.hpp"
#include "json_object.hpp"
#include "measure.hpp"

namespace spillway::gpu_bench {

namespace {

template <cuda::GroupByAlgorithm kAlgorithm, bool kAllKeyBits>
cuda::GroupByResult run_product(cuda::Device& device, const GroupWorkload& workload, const GroupInputs& inputs) {
    cuda::GroupByRequest request;
    request.algorithm = kAlgorithm;
    request.is_named = true;
    request.all_key_bits = kAllKeyBits;
    request.rows = workload.rows;
    request.key = inputs.key;
    request.expected_groups = workload.expected_groups > 0 ? workload.expected_groups : workload.groups;
    request.in_parts = true;
    for (const cuda::DeviceColumn& column : inputs.payloads) {
        const auto kind = workload.sum ? cuda::GroupAggregateKind::kSum : cuda::GroupAggregateKind::kMax;
        request.aggregates.push_back({kind, cuda::ValueKind::kUnsigned, column});
    }
    return cuda::group_by(device, request);
}

// The product's group-by of this name, or in another way with a name of its own.
template <cuda::GroupByAlgorithm kAlgorithm, bool kAllKeyBits = false>
constexpr GroupAlgorithm product(const char* name = cuda::kGroupByAlgorithmNames[static_cast<int>(kAlgorithm)]) {
    return {name, run_product<kAlgorithm, kAllKeyBits>, static_cast<int>(kAlgorithm)};
}

// "-all-bits": the papers' sorts, by all bits of the keys. A sort by the numbers of a dictionary is by as many bits as
// these have in any case, as the paper's is.
constexpr GroupAlgorithm kGroupAlgorithms[] = {product<cuda::GroupByAlgorithm::kHash>(),
                                               product<cuda::GroupByAlgorithm::kHashGlobal>(),
                                               product<cuda::GroupByAlgorithm::kPartitioned>(),
                                               product<cuda::GroupByAlgorithm::kPartitionedGather>(),
                                               product<cuda::GroupByAlgorithm::kSorted>(),
                                               product<cuda::GroupByAlgorithm::kSorted, true>("sgb-ur-all-bits"),
                                               product<cuda::GroupByAlgorithm::kSortedColumns>(),
                                               product<cuda::GroupByAlgorithm::kSortedColumns, true>("sgb-tr-all-bits"),
                                               product<cuda::GroupByAlgorithm::kDictionarySorted>(),
                                               {"cub-sort-reduce", run_cub_sort_reduce},
                                               {"sparse-array", run_sparse_array}};

const GroupAlgorithm& find_group_algorithm(const std::string& name) {
    std::string names;
    for (const GroupAlgorithm& algorithm : kGroupAlgorithms) {
        if (strcasecmp(name.c_str(), algorithm.name) == 0) return algorithm;
        names += std::string(names.empty() ? "'" : "', '") + algorithm.name;
    }
    throw std::invalid_argument("Expected one of " + names + "' for --algorithm but received '" + name + "'.");
}

struct GroupMeasurement {
    std::vector<double> samples_ms;
    uint64_t groups = 0;
    uint64_t peak_bytes = 0;
    uint64_t moved_bytes = 0;  // 0: not known
    const char* gave_way_to = nullptr;
    std::string problem;
};

// What ran, as the device noted it, is what was asked for. Tables in shared memory alone may give way, to the table in
// GPU memory, and the record says so.
void check_what_ran(const GroupAlgorithm& algorithm, int ran, GroupMeasurement& measurement) {
    if (algorithm.number < 0 || ran == algorithm.number) return;
    const bool is_hash = algorithm.number == static_cast<int>(cuda::GroupByAlgorithm::kHash);
    const char* const name = ran < 0 ? "nothing that was noted" : cuda::kGroupByAlgorithmNames[ran];
    if (is_hash && ran == static_cast<int>(cuda::GroupByAlgorithm::kHashGlobal)) {
        measurement.gave_way_to = name;
    } else {
        measurement.problem = std::string("what ran is ") + name;
    }
}

GroupMeasurement measure_group_by(cuda::Device& device, const GroupAlgorithm& algorithm,
                                  const GroupBenchOptions& options, const GroupInputs& inputs,
                                  const GroupReference& reference) {
    GroupMeasurement measurement;
    cuda::GroupByResult result;
    device.memory().reset_peak();
    {
        // A run of its own, which does not count: who listens has events between the kernels.
        const cuda::PhaseTimes times(device);
        result = algorithm.run(device, options.workload, inputs);
        measurement.moved_bytes = times.moved_bytes();
        check_what_ran(algorithm, times.algorithm(), measurement);
    }
    for (uint64_t run = 1; run < options.warmup + options.samples + (options.warmup == 0 ? 1 : 0); ++run) {
        result = {};  // its memory is free again before the clock starts
        cuda::Event begin(cuda::EventTiming::kOn);
        cuda::Event end(cuda::EventTiming::kOn);
        device.synchronize();
        begin.record(device.stream());
        result = algorithm.run(device, options.workload, inputs);
        end.record(device.stream());
        device.synchronize();
        if (run >= options.warmup) measurement.samples_ms.push_back(end.milliseconds_since(begin));
    }
    measurement.peak_bytes = device.memory().peak_bytes();
    measurement.groups = result.groups;
    if (measurement.problem.empty()) measurement.problem = reference.verify(device, result);
    return measurement;
}

std::string group_json(cuda::Device& device, const GroupAlgorithm& algorithm, const GroupBenchOptions& options,
                       const GroupMeasurement& measurement) {
    const GroupWorkload& workload = options.workload;
    Object described;
    described.add("key_bytes", uint64_t{workload.key_bytes});
    described.add("payload_bytes", list(workload.payload, [](uint32_t width) { return std::to_string(width); }));
    described.add("rows", workload.rows).add("groups", workload.groups).add("zipf", number(workload.zipf));
    if (workload.hot_share > 0) described.add("hot_share", number(workload.hot_share));
    if (workload.expected_groups > 0) described.add("expected_groups", workload.expected_groups);
    if (workload.sum) described.add("aggregate", gpu_test::json_text("sum"));
    if (options.memory_limit > 0) described.add("memory_limit_bytes", options.memory_limit);
    described.add("seed", options.seed);
    const double median_ms = median(measurement.samples_ms);
    uint64_t row_bytes = workload.key_bytes;
    for (const uint32_t width : workload.payload) row_bytes += width;
    Object object;
    object.add("workload", described.close());
    object.add("algorithm", gpu_test::json_text(algorithm.name));
    if (measurement.gave_way_to != nullptr) {
        object.add("gave_way_to", gpu_test::json_text(measurement.gave_way_to));
    }
    object.add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(measurement.samples_ms, milliseconds));
    object.add("rows_in", workload.rows).add("rows_out", measurement.groups);
    object.add("g_tuples_per_s", number(static_cast<double>(workload.rows) / median_ms / 1e6));
    // This rate counts each row once, however often the algorithm really reads it.
    object.add("input_tb_per_s", number(static_cast<double>(workload.rows * row_bytes) / median_ms / 1e9));
    if (measurement.moved_bytes > 0) {
        const double bytes_per_ms = static_cast<double>(measurement.moved_bytes) / median_ms;
        object.add("bytes_moved", measurement.moved_bytes).add("tb_per_s", number(bytes_per_ms / 1e9));
        if (device.properties().name.find("H200") != std::string::npos) {
            object.add("share_of_copy_rate", number(bytes_per_ms / kH200BytesPerMs));
        }
    }
    object.add("verified", std::string(measurement.problem.empty() ? "true" : "false"));
    if (!measurement.problem.empty()) object.add("problem", gpu_test::json_text(measurement.problem));
    object.add("peak_bytes", Object().add("device", measurement.peak_bytes).close());
    object.add("device", gpu_test::json_text(device.properties().name));
    return object.close();
}

}  // namespace

int run_group_bench(int count, char** arguments) {
    const GroupBenchOptions options = parse_group_options(count, arguments);
    for (const std::string& name : options.algorithms) find_group_algorithm(name);
    const std::string obstacle = device_obstacle(options.device);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    cuda::Device device(options.device, options.memory_limit);
    const GroupInputs inputs = make_group_inputs(device, options.workload, options.seed);
    const GroupReference reference(device, options.workload, inputs);
    bool is_right = true;
    for (const std::string& name : options.algorithms) {
        const GroupAlgorithm& algorithm = find_group_algorithm(name);
        const GroupMeasurement measurement = measure_group_by(device, algorithm, options, inputs, reference);
        std::printf("%s\n", group_json(device, algorithm, options, measurement).c_str());
        std::fflush(stdout);  // what is measured stays so whatever comes next
        is_right = is_right && measurement.problem.empty();
    }
    return is_right ? 0 : 1;
}

}  // namespace spillway::gpu_bench
