// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "measure.hpp"
#include "out_of_core_group_bench.hpp"
#include "out_of_core_options.hpp"

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

cuda::StreamSizes to_group_sizes(const ChosenGroupSizes& chosen, FarPreAggregation pre_aggregation) {
    cuda::StreamSizes sizes;
    sizes.radix_bits = static_cast<int>(chosen.radix_bits);
    sizes.chunk_rows = chosen.chunk_rows;
    sizes.chunk_slots = static_cast<uint32_t>(chosen.chunk_slots);
    sizes.page_rows = chosen.page_rows;
    sizes.pages = chosen.pages;
    sizes.merge_rows = chosen.merge_rows;
    sizes.spill_block_bytes = chosen.spill_block_bytes;
    sizes.spill_bytes = chosen.spill_bytes;
    sizes.result_rows = chosen.result_rows;
    sizes.result_slots = static_cast<uint32_t>(chosen.result_slots);
    sizes.pre_aggregation = pre_aggregation == FarPreAggregation::kAuto     ? cuda::PreAggregation::kAuto
                            : pre_aggregation == FarPreAggregation::kAlways ? cuda::PreAggregation::kAlways
                                                                            : cuda::PreAggregation::kNever;
    return sizes;
}

cuda::StagedGroupBySpec make_group_spec(const FarGroupOptions& options, uint64_t memory_limit_bytes) {
    cuda::StagedGroupBySpec spec;
    spec.key_bytes = options.key_bytes;
    spec.widths = {options.payload_bytes};
    cuda::StagedAggregate aggregate;
    aggregate.kind = options.aggregate == FarAggregate::kSum   ? cuda::GroupAggregateKind::kSum
                     : options.aggregate == FarAggregate::kMax ? cuda::GroupAggregateKind::kMax
                     : options.aggregate == FarAggregate::kMin ? cuda::GroupAggregateKind::kMin
                                                               : cuda::GroupAggregateKind::kCountRows;
    spec.aggregates = {aggregate};
    const auto device_bytes = [&](const ChosenGroupSizes& sizes) {
        cuda::StagedGroupBySpec sized = spec;
        sized.sizes = to_group_sizes(sizes, options.pre_aggregation);
        return cuda::StagedGroupBy::device_bytes(sized);
    };
    spec.sizes = to_group_sizes(choose_group_sizes(options, memory_limit_bytes, device_bytes), options.pre_aggregation);
    return spec;
}

using GroupClock = std::chrono::steady_clock;
double group_milliseconds(GroupClock::time_point begin, GroupClock::time_point end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
}

FarGroupSample run_far_group_by(cuda::Device& device, const cuda::StagedGroupBySpec& spec, const FarRelation& input,
                                const FarRelation& result, FarGroupMeasurement& measurement) {
    FarGroupSource source(input, spec.sizes.chunk_rows);
    FarGroupSink sink(result);
    device.synchronize();
    const GroupClock::time_point start = GroupClock::now();
    cuda::StagedGroupBy group_by(device, spec);
    device.synchronize();
    const GroupClock::time_point begin = GroupClock::now();
    measurement.report = group_by.run(source, sink);
    const GroupClock::time_point end = GroupClock::now();
    measurement.problem = sink.complete() ? "" : "groups of the result are missing, or blocks of it were not closed";
    const cuda::StreamReport& report = measurement.report;
    if (report.rows != input.rows || report.groups != result.rows) {
        measurement.problem = "the report counts other rows or groups than there are";
    }
    return {group_milliseconds(begin, end), group_milliseconds(start, begin), report.read_ms, report.resident_ms,
            report.spilled_ms};
}

FarGroupMeasurement measure_far_group_by(const FarGroupOptions& options, const FarRelation& input,
                                         const FarRelation& result) {
    // The spill memory may be the device's pool of pinned memory, whose limit is its only one.
    const uint64_t host_bytes =
        options.host_limit > 0 ? options.host_limit : 2 * options.rows * (options.key_bytes + 8) + (2ULL << 30);
    cuda::Device device(options.device, options.memory_limit, std::max(cuda::kStagingLimitBytes, host_bytes));
    const cuda::StagedGroupBySpec spec = make_group_spec(options, device.memory().limit_bytes());
    FarGroupMeasurement measurement;
    measurement.sizes = spec.sizes;
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
