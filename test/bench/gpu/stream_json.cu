// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "json_object.hpp"
#include "measure.hpp"
#include "stream_bench.hpp"

namespace spillway::gpu_bench {

namespace {

// By link and direction; peer: from there.
struct FarLinkBytes {
    uint64_t h2d = 0;
    uint64_t d2h = 0;
    uint64_t peer = 0;
    uint64_t peer_out = 0;

    // The directions and links work at the same time.
    double milliseconds(const LinkRates& rates) const {
        const auto time_ms = [](uint64_t bytes, double rate) {
            return bytes == 0 ? 0 : static_cast<double>(bytes) / rate / 1e6;
        };
        return std::max({time_ms(h2d, rates.h2d), time_ms(d2h, rates.d2h), time_ms(peer, rates.peer),
                         time_ms(peer_out, rates.peer_out)});
    }
};

// What must pass each link at least: every input byte once, spilled rows as packed out and in again, the result.
FarLinkBytes planned_links(const OutOfCoreOptions& options, const cuda::StreamReport& report) {
    FarLinkBytes bytes;
    const uint64_t spilled_bytes = report.spilled_bytes[0] + report.spilled_bytes[1];
    const bool spills_to_peer = options.spill_place() == FarPlace::kPeer;
    (options.inputs == FarPlace::kPeer ? bytes.peer : bytes.h2d) += options.input_bytes();
    (spills_to_peer ? bytes.peer : bytes.h2d) += spilled_bytes;
    (spills_to_peer ? bytes.peer_out : bytes.d2h) += spilled_bytes;
    if (options.result != FarResult::kRows) return bytes;
    // The key comes once for both sides.
    const uint64_t row_bytes = options.build_row_bytes() + options.probe_row_bytes() - options.bench.workload.key_bytes;
    bytes.d2h += report.result_rows * row_bytes;
    return bytes;
}

// What did. The join counts bytes in and bytes out, and does not know what lies where.
FarLinkBytes actual_links(const OutOfCoreOptions& options, const cuda::StreamReport& report) {
    FarLinkBytes bytes;
    const uint64_t inputs = std::min(report.h2d_bytes, options.input_bytes());
    const uint64_t back = report.h2d_bytes - inputs;
    const bool spills_to_peer = options.spill_place() == FarPlace::kPeer;
    (options.inputs == FarPlace::kPeer ? bytes.peer : bytes.h2d) += inputs;
    (spills_to_peer ? bytes.peer : bytes.h2d) += back;
    const uint64_t spilled_bytes = report.spilled_bytes[0] + report.spilled_bytes[1];
    bytes.peer_out = spills_to_peer ? std::min(report.d2h_bytes, spilled_bytes) : 0;
    bytes.d2h = report.d2h_bytes - bytes.peer_out;
    return bytes;
}

std::string out_of_core_workload_json(const OutOfCoreOptions& options) {
    const Workload& workload = options.bench.workload;
    const auto widths = [](const std::vector<uint32_t>& list_of) {
        return list(list_of, [](uint32_t width) { return std::to_string(width); });
    };
    const auto word = [](const char* text) { return gpu_test::json_text(text); };
    Object payload;
    payload.add("build", widths(workload.build_payload)).add("probe", widths(workload.probe_payload));
    Object object;
    object.add("key_bytes", uint64_t{workload.key_bytes}).add("payload_bytes", payload.close());
    object.add("payload_values", word(options.payload_values == FarPayloadValues::kDense ? "dense" : "random"));
    object.add("build_rows", workload.build_rows).add("probe_rows", workload.probe_rows);
    object.add("match_ratio", number(workload.match_ratio)).add("zipf", number(workload.zipf));
    if (!workload.unique_build_keys()) object.add("distinct_keys", workload.distinct);
    object.add("result", word(options.result == FarResult::kCount  ? "count"
                              : options.result == FarResult::kSums ? "sums"
                                                                   : "rows"));
    object.add("inputs", word(options.inputs == FarPlace::kHost ? "host" : "peer"));
    object.add("spill", word(options.spill_place() == FarPlace::kHost ? "host" : "peer"));
    if (options.bench.memory_limit > 0) object.add("memory_limit_bytes", options.bench.memory_limit);
    return object.add("seed", options.bench.seed).close();
}

std::string sizes_json(const cuda::StreamSizes& sizes) {
    Object object;
    object.add("radix_bits", static_cast<uint64_t>(sizes.radix_bits)).add("chunk_rows", sizes.chunk_rows);
    object.add("chunk_slots", uint64_t{sizes.chunk_slots}).add("page_rows", sizes.page_rows);
    if (sizes.filter_words > 0) object.add("filter_words", sizes.filter_words);
    object.add("pages", sizes.pages).add("resident_partitions", uint64_t{sizes.resident_partitions});
    object.add("spill_block_bytes", sizes.spill_block_bytes).add("spill_bytes", sizes.spill_bytes);
    object.add("result_rows", sizes.result_rows).add("result_slots", uint64_t{sizes.result_slots});
    return object.close();
}

const char* baseline_name(cuda::BaselineAlgorithm algorithm) {
    for (const cuda::BaselineName& named : cuda::kBaselineNames) {
        if (named.algorithm == algorithm) return named.name;
    }
    return "";
}

std::string both_sides(const uint64_t (&values)[2]) {
    return Object().add("build", values[0]).add("probe", values[1]).close();
}

// Bytes, what they were at the clock's end, what was planned of them.
void add_links(Object& object, const OutOfCoreOptions& options, const OutOfCoreMeasurement& measurement,
               double median_ms) {
    const FarLinkBytes actual = actual_links(options, measurement.report);
    const FarLinkBytes plan = planned_links(options, measurement.report);
    const auto by_link = [&](const auto& of, const auto& format) {
        Object values;
        values.add("h2d", format(of.h2d)).add("d2h", format(of.d2h));
        if (options.uses_peer()) values.add("peer", format(of.peer)).add("peer_out", format(of.peer_out));
        return values.close();
    };
    const auto whole = [](uint64_t bytes) { return std::to_string(bytes); };
    const auto rate = [&](uint64_t bytes) { return number(static_cast<double>(bytes) / median_ms / 1e6); };
    const double planned_ms = plan.milliseconds(measurement.rates);
    object.add("link_bytes", by_link(actual, whole)).add("link_gb_per_s", by_link(actual, rate));
    object.add("copy_gb_per_s", by_link(measurement.rates, number)).add("planned_link_bytes", by_link(plan, whole));
    Object both;
    both.add("host", number(measurement.rates.both));
    if (options.uses_peer()) both.add("peer", number(measurement.rates.peer_both));
    object.add("copy_both_gb_per_s", both.close());
    object.add("planned_link_ms", milliseconds(planned_ms)).add("link_efficiency", number(planned_ms / median_ms));
}

void add_coherent_choices(Object& object, const OutOfCoreOptions& options, const OutOfCoreMeasurement& measurement) {
    const CoherentChoices& chosen = options.coherent;
    Object coherent, stages;
    const char* const partitioner = cuda::kFarPartitionerNames[static_cast<int>(chosen.partitioner)];
    coherent.add("partitioner", gpu_test::json_text(partitioner));
    coherent.add("grid", chosen.partition_grid).add("gather_grid", chosen.gather_grid);
    coherent.add("gather_alone", chosen.gather_alone).add("gather_probe", chosen.gather_probe);
    coherent.add("second_pass", chosen.second_pass).add("group_rows", chosen.group_rows);
    coherent.add("device_pages", chosen.device_pages).add("far_pages", chosen.far_pages);
    for (const cuda::PhaseTimer::Phase& stage : measurement.stages) {
        stages.add(stage.name.c_str(), milliseconds(stage.milliseconds));
    }
    object.add("coherent", coherent.close()).add("stages_ms", stages.close());
}

}  // namespace

std::string out_of_core_json(const OutOfCoreOptions& options, const OutOfCoreMeasurement& measurement) {
    const auto times = [&](double OutOfCoreSample::*time) {
        std::vector<double> values;
        for (const OutOfCoreSample& sample : measurement.samples) values.push_back(sample.*time);
        return values;
    };
    const auto middle = [&](double OutOfCoreSample::*time) { return milliseconds(median(times(time))); };
    const cuda::StreamReport& report = measurement.report;
    const double median_ms = median(times(&OutOfCoreSample::wall_ms));
    const uint64_t rows_in = options.bench.workload.build_rows + options.bench.workload.probe_rows;
    Object phases;
    phases.add("build_ms", middle(&OutOfCoreSample::build_ms)).add("probe_ms", middle(&OutOfCoreSample::probe_ms));
    phases.add("spilled_ms", middle(&OutOfCoreSample::spilled_ms));
    Object object;
    object.add("workload", out_of_core_workload_json(options));
    object.add("algorithm", gpu_test::json_text(baseline_name(options.algorithm)));
    object.add("median_ms", milliseconds(median_ms));
    object.add("samples_ms", list(times(&OutOfCoreSample::wall_ms), milliseconds));
    object.add("setup_ms", middle(&OutOfCoreSample::setup_ms)).add("phases", phases.close());
    object.add("rows_in", rows_in).add("rows_out", report.result_rows);
    object.add("g_tuples_per_s", number(static_cast<double>(rows_in) / median_ms / 1e6));
    object.add("verified", std::string(measurement.problem.empty() ? "true" : "false"));
    if (!measurement.problem.empty()) object.add("problem", gpu_test::json_text(measurement.problem));
    add_links(object, options, measurement, median_ms);
    object.add("spilled_rows", both_sides(report.spilled_rows)).add("spilled_bytes", both_sides(report.spilled_bytes));
    if (options.sizes.filter_words > 0) object.add("dropped_rows", report.dropped_rows);
    object.add("resident_partitions", uint64_t{report.resident_partitions});
    object.add("sizes", sizes_json(options.sizes));
    if (options.busy_multiprocessors > 0) object.add("busy_multiprocessors", options.busy_multiprocessors);
    if (!measurement.stages.empty()) add_coherent_choices(object, options, measurement);
    Object peak;
    peak.add("device", measurement.peak_device_bytes);
    if (measurement.peak_host_bytes > 0) peak.add("host", measurement.peak_host_bytes);
    if (measurement.peak_peer_bytes > 0) peak.add("peer", measurement.peak_peer_bytes);
    object.add("peak_bytes", peak.close());
    object.add("device", gpu_test::json_text(measurement.device));
    return object.close();
}

}  // namespace spillway::gpu_bench
