// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "device/host_clock.hpp"
#include "measure.hpp"
#include "staged_group_bench.hpp"
#include "stream_options.hpp"

namespace spillway::gpu_bench {

namespace {

class FarGroupSource final : public cuda::ChunkSource {
  public:
    FarGroupSource(const FarRelation& input, uint64_t chunk_rows) : input_(input), chunk_rows_(chunk_rows) {}

    bool next(cuda::Chunk& chunk) override {
        if (at_ == input_.rows) return false;
        chunk.rows = std::min(chunk_rows_, input_.rows - at_);
        chunk.key = static_cast<const char*>(input_.key.data()) + at_ * input_.key_bytes;
        chunk.key_valid = nullptr;
        chunk.columns = {static_cast<const char*>(input_.columns[0].data()) + at_ * input_.widths[0]};
        at_ += chunk.rows;
        return true;
    }

  private:
    const FarRelation& input_;
    const uint64_t chunk_rows_;
    uint64_t at_ = 0;
};

class FarGroupSink final : public cuda::ResultSink {
  public:
    explicit FarGroupSink(const FarRelation& result) : result_(result) {}

    std::vector<void*> open(uint64_t rows) override {
        if (rows > result_.rows - opened_) {
            throw cuda::Error(cuda::ErrorCode::kInternal, "the result has more groups than the input has keys");
        }
        std::vector<void*> columns = {static_cast<char*>(result_.key.data()) + opened_ * result_.key_bytes,
                                      static_cast<char*>(result_.columns[0].data()) + opened_ * result_.widths[0]};
        opened_ += rows;
        ++open_;
        return columns;
    }
    void close() override { --open_; }

    bool complete() const { return opened_ == result_.rows && open_ == 0; }

  private:
    const FarRelation& result_;
    uint64_t opened_ = 0;
    int64_t open_ = 0;
};

cuda::StagedGroupBySpec make_group_spec(const FarGroupOptions& options) {
    cuda::StagedGroupBySpec spec;
    spec.key_bytes = options.key_bytes;
    spec.widths = {options.payload_bytes};
    cuda::StagedAggregate aggregate;
    aggregate.kind = options.aggregate == FarAggregate::kSum   ? cuda::GroupAggregateKind::kSum
                     : options.aggregate == FarAggregate::kMax ? cuda::GroupAggregateKind::kMax
                     : options.aggregate == FarAggregate::kMin ? cuda::GroupAggregateKind::kMin
                                                               : cuda::GroupAggregateKind::kCountRows;
    spec.aggregates = {aggregate};
    spec.sizes = options.sizes;
    return spec;
}

FarGroupSample run_far_group_by(cuda::Device& device, const cuda::StagedGroupBySpec& spec, const FarRelation& input,
                                const FarRelation& result, FarGroupMeasurement& measurement) {
    FarGroupSource source(input, spec.sizes.chunk_rows);
    FarGroupSink sink(result);
    device.synchronize();
    FarGroupSample sample;
    const cuda::HostClock setup;
    cuda::StagedGroupBy group_by(device, spec);
    device.synchronize();
    sample.setup_ms = setup.passed_ms();
    const cuda::HostClock clock;
    group_by.run(0, source, &sink);
    sample.wall_ms = clock.passed_ms();
    measurement.report = group_by.report();
    measurement.problem = sink.complete() ? "" : "groups of the result are missing, or blocks of it were not closed";
    const cuda::StreamReport& report = measurement.report;
    if (report.rows[0] != input.rows || report.result_rows != result.rows) {
        measurement.problem = "the report counts other rows or groups than there are";
    }
    sample.read_ms = report.input_ms[0];
    sample.resident_ms = report.resident_ms;
    sample.spilled_ms = report.spilled_ms;
    return sample;
}

FarGroupMeasurement measure_far_group_by(const FarGroupOptions& options, const FarRelation& input,
                                         const FarRelation& result) {
    // The spill memory may be the device's pool of pinned memory, whose limit is its only one.
    const uint64_t host_bytes =
        std::max(options.sizes.spill_bytes, 2 * options.rows * (options.key_bytes + 8) + (uint64_t{2} << 30));
    cuda::Device device(options.device, options.memory_limit, std::max(cuda::kStagingLimitBytes, host_bytes));
    const cuda::StagedGroupBySpec spec = make_group_spec(options);
    FarGroupMeasurement measurement;
    measurement.device = device.properties().name;
    for (uint64_t run = 0; run < options.warmup + options.samples; ++run) {
        if (run + 1 == options.warmup + options.samples) spoil_far_group_rows(device, result);
        const FarGroupSample sample = run_far_group_by(device, spec, input, result, measurement);
        if (run >= options.warmup) measurement.samples.push_back(sample);
    }
    measurement.peak_device_bytes = device.memory().peak_bytes();
    measurement.peak_host_bytes = device.staging().peak_bytes();
    return measurement;
}

}  // namespace

int run_out_of_core_group_bench(int count, char** arguments) {
    const FarGroupOptions options = parse_far_group_options(count, arguments);
    const std::string obstacle = device_obstacle(options.device);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    FarRelation input;
    FarRelation result;
    LinkRates rates;
    {
        // Not limited: what checks the result is no part of what is measured, and its memory is free meanwhile.
        cuda::Device device(options.device, 0);
        input = make_far_group_input(device, options);
        result = make_far_group_rows(device, options, expected_far_groups(device, options, input).groups);
        OutOfCoreOptions link;
        link.bench.device = options.device;
        rates = measure_links(device, link);
    }
    FarGroupMeasurement measurement = measure_far_group_by(options, input, result);
    measurement.rates = rates;
    if (measurement.problem.empty()) {
        cuda::Device device(options.device, 0);
        measurement.problem = check_far_groups(device, options, result, expected_far_groups(device, options, input));
    }
    std::printf("%s\n", far_group_json(options, measurement).c_str());
    return measurement.problem.empty() ? 0 : 1;
}

}  // namespace spillway::gpu_bench
