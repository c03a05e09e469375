// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "json_object.hpp"
#include "measure.hpp"
#include "staged_group_bench.hpp"

namespace spillway::gpu_bench {

namespace {

std::string far_group_workload_json(const FarGroupOptions& options) {
    const auto word = [](const char* text) { return gpu_test::json_text(text); };
    Object object;
    object.add("key_bytes", uint64_t{options.key_bytes}).add("payload_bytes", uint64_t{options.payload_bytes});
    object.add("value_bits", uint64_t{options.value_bits});
    object.add("rows", options.rows).add("groups", options.groups).add("zipf", number(options.zipf));
    object.add("aggregate", word(options.aggregate == FarAggregate::kSum   ? "sum"
                                 : options.aggregate == FarAggregate::kMax ? "max"
                                 : options.aggregate == FarAggregate::kMin ? "min"
                                                                           : "count"));
    object.add("pre_aggregation", word(options.sizes.pre_aggregation == cuda::PreAggregation::kAuto     ? "auto"
                                       : options.sizes.pre_aggregation == cuda::PreAggregation::kAlways ? "always"
                                                                                                        : "never"));
    if (options.memory_limit > 0) object.add("memory_limit_bytes", options.memory_limit);
    return object.add("seed", options.seed).close();
}

std::string far_group_sizes_json(const cuda::StreamSizes& sizes) {
    Object object;
    object.add("radix_bits", static_cast<uint64_t>(sizes.radix_bits)).add("chunk_rows", sizes.chunk_rows);
    object.add("chunk_slots", uint64_t{sizes.chunk_slots}).add("page_rows", sizes.page_rows);
    object.add("pages", sizes.pages).add("merge_rows", sizes.merge_rows);
    object.add("spill_block_bytes", sizes.spill_block_bytes).add("spill_bytes", sizes.spill_bytes);
    return object.add("result_rows", sizes.result_rows).add("result_slots", uint64_t{sizes.result_slots}).close();
}

// What passes each link at least: every input byte once, spilled rows as packed out and in again, the result.
void add_group_links(Object& object, const FarGroupOptions& options, const FarGroupMeasurement& measurement,
                     double median_ms) {
    const cuda::StreamReport& report = measurement.report;
    const uint64_t h2d_bytes = options.input_bytes() + report.spilled_bytes[0];
    const uint64_t d2h_bytes =
        report.spilled_bytes[0] + report.result_rows * (options.key_bytes + options.result_bytes());
    // The directions work at the same time.
    const double planned_ms = std::max(static_cast<double>(h2d_bytes) / measurement.rates.h2d,
                                       static_cast<double>(d2h_bytes) / measurement.rates.d2h) /
                              1e6;
    const auto rate = [&](uint64_t bytes) { return number(static_cast<double>(bytes) / median_ms / 1e6); };
    Object bytes, rates, copies, planned;
    bytes.add("h2d", report.h2d_bytes).add("d2h", report.d2h_bytes);
    rates.add("h2d", rate(report.h2d_bytes)).add("d2h", rate(report.d2h_bytes));
    copies.add("h2d", number(measurement.rates.h2d)).add("d2h", number(measurement.rates.d2h));
    planned.add("h2d", h2d_bytes).add("d2h", d2h_bytes);
    object.add("link_bytes", bytes.close()).add("link_gb_per_s", rates.close());
    object.add("copy_gb_per_s", copies.close()).add("planned_link_bytes", planned.close());
    object.add("planned_link_ms", milliseconds(planned_ms)).add("link_efficiency", number(planned_ms / median_ms));
}

}  // namespace

std::string far_group_json(const FarGroupOptions& options, const FarGroupMeasurement& measurement) {
    const auto times = [&](double FarGroupSample::*time) {
        std::vector<double> values;
        for (const FarGroupSample& sample : measurement.samples) values.push_back(sample.*time);
        return values;
    };
    const auto middle = [&](double FarGroupSample::*time) { return milliseconds(median(times(time))); };
    const cuda::StreamReport& report = measurement.report;
    const double median_ms = median(times(&FarGroupSample::wall_ms));
    Object phases;
    phases.add("read_ms", middle(&FarGroupSample::read_ms)).add("resident_ms", middle(&FarGroupSample::resident_ms));
    phases.add("spilled_ms", middle(&FarGroupSample::spilled_ms));
    Object object;
    object.add("workload", far_group_workload_json(options));
    object.add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(times(&FarGroupSample::wall_ms), milliseconds));
    object.add("setup_ms", middle(&FarGroupSample::setup_ms)).add("phases", phases.close());
    object.add("rows_in", report.rows[0]).add("groups", report.result_rows);
    object.add("g_rows_per_s", number(static_cast<double>(report.rows[0]) / median_ms / 1e6));
    object.add("verified", std::string(measurement.problem.empty() ? "true" : "false"));
    if (!measurement.problem.empty()) object.add("problem", gpu_test::json_text(measurement.problem));
    add_group_links(object, options, measurement, median_ms);
    object.add("chunks", report.chunks).add("grouped_chunks", report.grouped_chunks);
    object.add("partial_rows", report.partial_rows).add("compacted_rows", report.compacted_rows);
    object.add("spilled_rows", report.spilled_rows[0]).add("spilled_bytes", report.spilled_bytes[0]);
    object.add("resident_partitions", uint64_t{report.resident_partitions});
    object.add("narrowed_parts", report.narrowed_parts).add("sizes", far_group_sizes_json(options.sizes));
    Object peak;
    peak.add("device", measurement.peak_device_bytes).add("host", measurement.peak_host_bytes);
    object.add("peak_bytes", peak.close()).add("device", gpu_test::json_text(measurement.device));
    return object.close();
}

}  // namespace spillway::gpu_bench
