// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "baseline_join/baseline_join.hpp"
#include "busy_multiprocessors.hpp"
#include "device/host_clock.hpp"
#include "measure.hpp"
#include "stream_bench.hpp"
#include "tier/page_pool.hpp"

namespace spillway::gpu_bench {

namespace {

class FarSource final : public cuda::ChunkSource {
  public:
    FarSource(const FarRelation& relation, uint64_t chunk_rows) : relation_(relation), chunk_rows_(chunk_rows) {}

    bool next(cuda::Chunk& chunk) override {
        if (at_ == relation_.rows) return false;
        chunk.rows = std::min(chunk_rows_, relation_.rows - at_);
        chunk.key = from_row(relation_.key, relation_.key_bytes);
        chunk.key_valid = nullptr;
        chunk.columns.clear();
        for (size_t c = 0; c < relation_.columns.size(); ++c) {
            chunk.columns.push_back(from_row(relation_.columns[c], relation_.widths[c]));
        }
        at_ += chunk.rows;
        return true;
    }

  private:
    const void* from_row(const FarMemory& column, uint32_t width) const {
        return static_cast<const char*>(column.data()) + at_ * width;
    }

    const FarRelation& relation_;
    const uint64_t chunk_rows_;
    uint64_t at_ = 0;
};

// Consecutive rows of columns that hold as many as there must be.
class FarSink final : public cuda::ResultSink {
  public:
    explicit FarSink(const FarRows& result) : result_(result) {}

    std::vector<void*> open(uint64_t rows) override {
        if (rows > result_.rows - opened_) {
            throw cuda::Error(cuda::ErrorCode::kInternal, "the result has more rows than the inputs give");
        }
        std::vector<void*> columns;
        for (size_t c = 0; c < result_.columns.size(); ++c) {
            columns.push_back(static_cast<char*>(result_.columns[c].data()) + opened_ * result_.widths[c]);
        }
        opened_ += rows;
        ++open_;
        return columns;
    }
    void close() override { --open_; }

    bool complete() const { return opened_ == result_.rows && open_ == 0; }

  private:
    const FarRows& result_;
    uint64_t opened_ = 0;
    int64_t open_ = 0;
};

void add_output(cuda::StagedJoinSpec& spec, FarResult result) {
    if (result == FarResult::kCount) return;
    if (result == FarResult::kRows) spec.output.push_back({cuda::OutputSide::kKey, 0});
    for (const auto side : {cuda::OutputSide::kBuild, cuda::OutputSide::kProbe}) {
        const size_t all = spec.widths[side == cuda::OutputSide::kBuild ? 0 : 1].size();
        const size_t columns = result == FarResult::kSums ? std::min(all, kSummedColumnsMax) : all;
        for (uint32_t c = 0; c < columns; ++c) spec.output.push_back({side, c});
    }
}

cuda::StagedJoinSpec make_spec(const OutOfCoreOptions& options) {
    const Workload& workload = options.bench.workload;
    cuda::StagedJoinSpec spec;
    spec.key_bytes = workload.key_bytes;
    spec.widths[cuda::kBuildSide].assign(workload.build_payload.begin(), workload.build_payload.end());
    spec.widths[cuda::kProbeSide].assign(workload.probe_payload.begin(), workload.probe_payload.end());
    spec.result = options.result == FarResult::kCount  ? cuda::JoinResultKind::kCount
                  : options.result == FarResult::kSums ? cuda::JoinResultKind::kSums
                                                       : cuda::JoinResultKind::kRows;
    add_output(spec, options.result);
    spec.sizes = options.sizes;
    return spec;
}

// What the algorithms need beside it.
cuda::BaselineSpec make_far_spec(const OutOfCoreOptions& options) {
    cuda::BaselineSpec spec;
    spec.join = make_spec(options);
    spec.build_rows = options.bench.workload.build_rows;
    spec.load_percent = static_cast<uint32_t>(options.load_percent);
    spec.stream_probe = options.stream_probe;
    spec.overlap = options.overlap != 0;
    spec.shares.device = static_cast<uint32_t>(options.device_stripes);
    spec.shares.host = static_cast<uint32_t>(options.host_stripes);
    spec.key_range = options.bench.workload.build_domain();
    spec.threads = static_cast<uint32_t>(options.threads);
    return spec;
}

// peer: whose memory holds inputs and pages, where the inputs are a peer's.
void add_coherent(cuda::BaselineSpec& spec, const OutOfCoreOptions& options) {
    const CoherentChoices& chosen = options.coherent;
    if (options.algorithm != cuda::BaselineAlgorithm::kTriton) return;
    spec.probe_rows = options.bench.workload.probe_rows;
    spec.coherent.partitioner = chosen.partitioner;
    spec.coherent.partition_grid = static_cast<uint32_t>(chosen.partition_grid);
    spec.coherent.gather_grid = static_cast<uint32_t>(chosen.gather_grid);
    spec.coherent.gather_alone = chosen.gather_alone != 0;
    spec.coherent.gather_probe = chosen.gather_probe != 0;
    spec.coherent.second_pass = chosen.second_pass != 0;
    spec.coherent.group_rows = chosen.group_rows;
    spec.coherent.page_rows = options.sizes.page_rows;
    spec.shares = {};
    spec.shares.device = static_cast<uint32_t>(chosen.device_pages);
    (spec.peer == nullptr ? spec.shares.host : spec.shares.peer) = static_cast<uint32_t>(chosen.far_pages);
}

OutOfCoreSample run_out_of_core(cuda::Device& device, cuda::BaselineAlgorithm algorithm, const cuda::BaselineSpec& spec,
                                const FarInputs& inputs, const FarRows* rows, uint32_t busy_multiprocessors,
                                OutOfCoreMeasurement& measurement) {
    // The CPU partitions a side at once, so that its partitions lie in one piece; kernels that read far memory need no
    // chunks.
    const bool whole =
        algorithm == cuda::BaselineAlgorithm::kCpuPartitioned || algorithm == cuda::BaselineAlgorithm::kTriton;
    FarSource build(inputs.build, whole ? inputs.build.rows : spec.join.sizes.chunk_rows);
    FarSource probe(inputs.probe, whole ? inputs.probe.rows : spec.join.sizes.chunk_rows);
    const FarRows none;
    FarSink sink(rows == nullptr ? none : *rows);
    device.synchronize();
    OutOfCoreSample sample;
    const cuda::HostClock setup;
    const std::unique_ptr<cuda::StreamOperator> join = cuda::open_baseline_join(device, algorithm, spec);
    device.synchronize();
    sample.setup_ms = setup.passed_ms();
    // Until the clock stops: the end of a join waits for all that the device does.
    const auto busy = std::make_unique<BusyMultiprocessors>(device, busy_multiprocessors);
    const cuda::HostClock clock;
    join->run(cuda::kBuildSide, build, nullptr);
    join->run(cuda::kProbeSide, probe, rows == nullptr ? nullptr : &sink);
    sample.wall_ms = clock.passed_ms();
    busy->end();
    measurement.report = join->report();
    measurement.stages = join->stages();
    measurement.problem = sink.complete() ? "" : "rows of the result are missing, or blocks of it were not closed";
    sample.build_ms = measurement.report.input_ms[cuda::kBuildSide];
    sample.probe_ms = measurement.report.input_ms[cuda::kProbeSide];
    sample.spilled_ms = measurement.report.spilled_ms;
    return sample;
}

// The device whose free memory takes spilled rows; nullptr: none does.
std::unique_ptr<cuda::Device> open_spill_peer(cuda::Device& device, const OutOfCoreOptions& options) {
    if (options.spill_place() != FarPlace::kPeer) return nullptr;
    auto peer = std::make_unique<cuda::Device>(options.peer(), 0);
    // Both ways: the copy engines of either may do the work.
    cuda::enable_peer_access(*peer, device);
    cuda::enable_peer_access(device, *peer);
    return peer;
}

OutOfCoreMeasurement measure_out_of_core(const OutOfCoreOptions& options, const FarInputs& inputs,
                                         const FarRows* rows) {
    const BenchOptions& bench = options.bench;
    // The spill memory may be the device's pool of pinned memory, whose limit is its only one.
    const uint64_t host_bytes = std::max(options.sizes.spill_bytes, 2 * options.input_bytes());
    cuda::Device device(bench.device, bench.memory_limit, std::max(cuda::kStagingLimitBytes, host_bytes));
    const std::unique_ptr<cuda::Device> peer = open_spill_peer(device, options);
    cuda::BaselineSpec spec = make_far_spec(options);
    spec.peer = peer.get();
    // No row is to end up on the host where the peer's memory is measured.
    if (peer != nullptr) std::swap(spec.join.sizes.spill_bytes, spec.join.sizes.peer_bytes);
    add_coherent(spec, options);
    OutOfCoreMeasurement measurement;
    measurement.device = device.properties().name;
    double spent_ms = 0;
    bool last = false;
    for (uint64_t run = 0; !last; ++run) {
        // Tables beyond GPU memory take hundreds of times as long as what they are compared with.
        last = run + 1 == bench.warmup + bench.samples || spent_ms >= static_cast<double>(options.budget_ms);
        if (last && rows != nullptr) spoil_far_rows(device, *rows);
        const bool counts = run >= bench.warmup || last;
        const auto busy = static_cast<uint32_t>(counts ? options.busy_multiprocessors : 0);
        const OutOfCoreSample sample =
            run_out_of_core(device, options.algorithm, spec, inputs, rows, busy, measurement);
        if (counts) measurement.samples.push_back(sample);
        spent_ms += sample.wall_ms;
    }
    measurement.peak_device_bytes = device.memory().peak_bytes();
    measurement.peak_host_bytes = device.staging().peak_bytes();
    if (peer != nullptr) measurement.peak_peer_bytes = peer->memory().peak_bytes();
    return measurement;
}

std::string check_far_totals(const OutOfCoreOptions& options, const cuda::StreamReport& report,
                             const FarTotals& expected) {
    const Workload& workload = options.bench.workload;
    if (report.rows[cuda::kBuildSide] != workload.build_rows || report.rows[cuda::kProbeSide] != workload.probe_rows) {
        return "the join counts other numbers of rows of its inputs than they have";
    }
    if (report.result_rows != expected.rows) {
        return "the result has " + std::to_string(report.result_rows) + " rows instead of " +
               std::to_string(expected.rows);
    }
    // Without repeated build keys there are as many probe rows with a partner as result rows.
    if (workload.unique_build_keys() && report.dropped_rows > workload.probe_rows - expected.rows) {
        return "the filter has dropped more probe rows than have no partner";
    }
    const bool same = std::equal(report.sums.begin(), report.sums.end(), expected.sums.begin(), expected.sums.end());
    return options.result == FarResult::kSums && !same ? "the result has wrong sums" : "";
}

// Why the devices cannot be used; empty = they can.
std::string far_obstacle(const OutOfCoreOptions& options) {
    const std::string obstacle = device_obstacle(options.bench.device);
    return obstacle.empty() && options.uses_peer() ? device_obstacle(options.peer()) : obstacle;
}

}  // namespace

int run_out_of_core_bench(int count, char** arguments) {
    const OutOfCoreOptions options = parse_out_of_core_options(count, arguments);
    const std::string obstacle = far_obstacle(options);
    if (!obstacle.empty()) {
        std::fprintf(stderr, "Nothing was measured: no GPU can be used (%s).\n", obstacle.c_str());
        return kNothingRan;
    }
    FarInputs inputs;
    FarTotals expected;
    LinkRates rates;
    {
        // Not limited: what checks the result is no part of what is measured.
        cuda::Device device(options.bench.device, 0);
        inputs = make_far_inputs(device, options);
        expected = expected_far_totals(device, options, inputs);
        rates = measure_links(device, options);
    }
    const bool has_rows = options.result == FarResult::kRows;
    FarRows rows;
    if (has_rows) rows = make_far_rows(options, expected.rows);
    OutOfCoreMeasurement measurement = measure_out_of_core(options, inputs, has_rows ? &rows : nullptr);
    measurement.rates = rates;
    const std::string wrong = check_far_totals(options, measurement.report, expected);
    if (!wrong.empty()) measurement.problem = wrong;
    if (measurement.problem.empty() && has_rows) {
        cuda::Device device(options.bench.device, 0);
        measurement.problem = check_far_rows(device, options, rows, expected);
    }
    std::printf("%s\n", out_of_core_json(options, measurement).c_str());
    return measurement.problem.empty() ? 0 : 1;
}

}  // namespace spillway::gpu_bench
