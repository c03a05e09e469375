// SPDX-License-Identifier: Apache-2.0
#include "json_object.hpp"
#include "measure.hpp"

namespace spillway::gpu_bench {

namespace {

std::string widths_json(const std::vector<uint32_t>& widths) {
    return list(widths, [](uint32_t width) { return std::to_string(width); });
}

std::string workload_json(const BenchOptions& options) {
    const Workload& workload = options.workload;
    Object object;
    object.add("key_bytes", uint64_t{workload.key_bytes});
    object.add("payload_bytes", Object()
                                    .add("build", widths_json(workload.build_payload))
                                    .add("probe", widths_json(workload.probe_payload))
                                    .close());
    object.add("build_rows", workload.build_rows).add("probe_rows", workload.probe_rows);
    object.add("match_ratio", number(workload.match_ratio)).add("zipf", number(workload.zipf));
    if (!workload.unique_build_keys()) object.add("distinct_keys", workload.distinct);
    if (workload.type != "inner") object.add("type", gpu_test::json_text(workload.type));
    if (options.memory_limit > 0) object.add("memory_limit_bytes", options.memory_limit);
    return object.add("seed", options.seed).close();
}

// Read and written bytes per phase; on an H200 also the share of what copying reaches.
void add_traffic(Object& object, const Traffic& traffic, const std::string& device, double transform_ms,
                 double join_ms) {
    const auto rate = [](uint64_t bytes, double ms) { return ms > 0 ? static_cast<double>(bytes) / ms : 0; };
    const double transform = rate(traffic.transform_bytes, transform_ms);
    const double join = rate(traffic.join_bytes, join_ms);
    const auto phases = [](const std::string& first, const std::string& second) {
        return Object().add("transform", first).add("join", second).close();
    };
    object.add("bytes_moved", phases(std::to_string(traffic.transform_bytes), std::to_string(traffic.join_bytes)));
    object.add("tb_per_s", phases(number(transform / 1e9), number(join / 1e9)));
    if (device.find("H200") == std::string::npos) return;
    object.add("share_of_copy_rate", phases(number(transform / kH200BytesPerMs), number(join / kH200BytesPerMs)));
}

}  // namespace

std::string to_json(cuda::Device& device, const Algorithm& algorithm, const BenchOptions& options,
                    const Measurement& measurement) {
    const std::vector<Sample>& samples = measurement.samples;
    const double median_ms = median(times_of(samples, &Sample::total_ms));
    const double transform_ms = median(times_of(samples, &Sample::transform_ms));
    const double join_ms = median(times_of(samples, &Sample::join_ms));
    const uint64_t rows_in = options.workload.build_rows + options.workload.probe_rows;
    Object object;
    object.add("workload", workload_json(options));
    object.add("algorithm", gpu_test::json_text(algorithm.name));
    object.add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(times_of(samples, &Sample::total_ms), milliseconds));
    object.add("host_median_ms", milliseconds(median(times_of(samples, &Sample::host_ms))));
    object.add("phases",
               Object().add("transform_ms", milliseconds(transform_ms)).add("join_ms", milliseconds(join_ms)).close());
    object.add("rows_in", rows_in).add("rows_out", measurement.result_rows);
    if (!options.workload.kind.inner()) object.add("pairs", measurement.verdict.pairs);
    object.add("g_tuples_per_s", number(static_cast<double>(rows_in) / median_ms / 1e6));
    object.add("verified", std::string(measurement.verdict.problem.empty() ? "true" : "false"));
    if (!measurement.verdict.problem.empty()) {
        object.add("problem", gpu_test::json_text(measurement.verdict.problem));
    }
    object.add("peak_bytes", Object().add("device", measurement.peak_bytes).close());
    if (measurement.traffic.join_bytes > 0) {
        add_traffic(object, measurement.traffic, device.properties().name, transform_ms, join_ms);
    }
    object.add("device", gpu_test::json_text(device.properties().name));
    return object.close();
}

}  // namespace spillway::gpu_bench
