// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/join.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

#include "base/error.hpp"
#include "cuda/memory_model/stream_memory.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/held_columns.hpp"
#include "executor/streaming/join_result.hpp"
#include "executor/streaming/phase.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/result_gather.hpp"
#include "executor/streaming/spill_disk.hpp"

namespace spillway {

namespace {

ResultForm form_of(const OutOfCoreStage& stage, const HeldSides& held, const TextCodes& texts, MemoryBudget& budget) {
    ResultForm form =
        join_result_form({stage.join, stage.presence, &texts, stage.packs_results}, stage.columns, budget);
    if (held[kBuildSide] == nullptr && held[kProbeSide] == nullptr) return form;
    form.column = nullptr;
    form.packed.clear();
    form.deliverer = [&](BatchSink& sink, int worker) -> DeliverRows {
        auto rows_of = std::make_shared<ResultGather>(gathered_rows(stage, held, &texts), sink, budget, worker);
        return [rows_of](const GpuOutputs& outputs, uint64_t rows, const std::function<void()>& read) {
            return rows_of->deliver(outputs, rows, read);
        };
    };
    return form;
}

class OutOfCore {
  public:
    OutOfCore(const ChunkInput (&inputs)[2], const OutOfCoreStage& stage, KeptPinned& pinned, const DevicePause& pause,
              BatchSink* sink, JobControl& control, const std::shared_ptr<SpillSpace>& space)
        : inputs_{inputs[kBuildSide], inputs[kProbeSide]},
          stage_(stage),
          pause_(pause),
          sink_(sink),
          budget_(pinned.budget()),
          control_(control),
          way_(space, control),
          texts_(budget_),
          columns_{columns_of(kBuildSide), columns_of(kProbeSide)},
          held_columns_{hold(kBuildSide), hold(kProbeSide)},
          held_{held_columns_[kBuildSide].get(), held_columns_[kProbeSide].get()},
          spill_(pinned.reserve(pinned_spill_bytes(stage.join.sizes), "rows that the GPU spills")),
          ring_(pinned, ring_slots(), std::max(columns_[kBuildSide].chunk_bytes(), columns_[kProbeSide].chunk_bytes()),
                std::max(header_bytes(kBuildSide), header_bytes(kProbeSide))) {
        if (sink != nullptr) blocks_.emplace(pinned, form_of(stage, held_, texts_, budget_), *sink, control, pause);
        disk_ = way_.open(stage.join.sizes.disk_blocks);
        join_ = begin(pinned.device());
    }

    cuda::StreamReport run() {
        cuda::StreamReport report;
        GpuResultSink* const rows = blocks_ ? &*blocks_ : nullptr;
        phase(kBuildSide, [&](GpuChunkSource& chunks) { join_.run(kBuildSide, chunks, rows); });
        phase(kProbeSide, [&](GpuChunkSource& chunks) {
            report = join_.run(kProbeSide, chunks, rows);
            // The last rows may wait for a reader who needs the memory of both before he reads on.
            join_.reset();
            disk_.reset();
            spill_.release();
        });
        // The GPU counts pairs of the same hash.
        if (blocks_) report.result_rows = blocks_->delivered_rows();
        if (blocks_) blocks_->count_saved(report);
        return report;
    }

    // Rows that are counted are given when all have been.
    bool gave_rows() const { return blocks_ && blocks_->gave_rows() && sink_->wants_columns(); }
    Error told(const Error& error) const { return way_.told(error); }

  private:
    GpuStream begin(GpuDevice& device) {
        if (stage_.baseline) return begin_baseline(device);
        if (!stage_.coherent) return GpuStream::begin(device, stage_.join, disk_.get());
        for (const int side : {kBuildSide, kProbeSide}) SPILLWAY_CHECK(inputs_[side].stream == nullptr);
        const uint64_t rows[2] = {static_cast<uint64_t>(source_of(kBuildSide).rows()),
                                  static_cast<uint64_t>(source_of(kProbeSide).rows())};
        return GpuStream::begin(device, coherent_spec(stage_.join, *stage_.coherent, rows));
    }

    GpuStream begin_baseline(GpuDevice& device) {
        cuda::BaselineJoinSpec spec;
        spec.algorithm = stage_.baseline->algorithm;
        spec.join = stage_.join;
        for (const int side : {kBuildSide, kProbeSide}) SPILLWAY_CHECK(inputs_[side].stream == nullptr);
        spec.build_rows = static_cast<uint64_t>(source_of(kBuildSide).rows());
        spec.shares = stage_.baseline->shares;
        spec.stream_probe = stage_.baseline->stream_probe;
        spec.overlap = stage_.baseline->overlap;
        spec.threads = static_cast<uint32_t>(stage_.workers);
        return GpuStream::begin(device, spec);
    }

    ChunkColumns columns_of(size_t side) {
        const ChunkKeys keys{stage_.join.key_bytes, stage_.keys, stage_.null_keys};
        // A text of the probe side counts if the build side has it, which was read before.
        const ChunkTexts texts{&texts_, side == kProbeSide};
        ChunkColumns columns(source_of(side), stage_.sides[side], keys, stage_.join.sizes.host_chunk_rows, texts);
        source_of(side).load_dictionaries(columns.read(), budget_, control_);
        return columns;
    }
    std::unique_ptr<HeldColumns> hold(size_t side) const {
        const std::vector<int32_t> columns = gathered_columns(stage_, side);
        if (columns.empty()) return nullptr;
        // The rows of a stream are gone when they are wanted.
        SPILLWAY_CHECK(inputs_[side].stream == nullptr);
        source_of(side).load_dictionaries(columns, budget_, control_);
        return std::make_unique<HeldColumns>(source_of(side), columns, budget_, control_);
    }
    void load_held() {
        for (HeldColumns* const held : held_) {
            if (held != nullptr) held->load();
        }
    }
    void wake_held() {
        for (HeldColumns* const held : held_) {
            if (held != nullptr) held->wake();
        }
    }
    uint64_t header_bytes(size_t side) const {
        return chunk_header_bytes(columns_[side], stage_.join.sizes.host_chunk_rows);
    }
    uint64_t ring_slots() const {
        const auto useful = [&](size_t side) { return useful_slots(inputs_[side], stage_.join.sizes); };
        return std::max(useful(kBuildSide), useful(kProbeSide));
    }
    Source& source_of(size_t side) const { return *inputs_[side].source; }

    // One side is read.
    template <class Use>
    void phase(size_t side, Use use) {
        ChunkFeeder feeder(inputs_[side], columns_[side], ring_, stage_.join.sizes.host_chunk_rows, budget_, control_,
                           pause_);
        // Those who will deliver have nothing to do before the first rows of the result are there.
        const PhaseHooks hooks{[&] {
                                   if (side == kBuildSide) load_held();
                               },
                               [&] { wake_held(); }};
        run_phase(feeder, blocks_ ? &*blocks_ : nullptr, stage_.workers, control_, hooks, [&] { use(feeder); });
    }

    const ChunkInput inputs_[2];
    const OutOfCoreStage& stage_;
    const DevicePause pause_;
    BatchSink* const sink_;
    MemoryBudget& budget_;
    JobControl& control_;
    SpillWay way_;
    TextCodes texts_;
    const ChunkColumns columns_[2];
    const std::unique_ptr<HeldColumns> held_columns_[2];
    const HeldSides held_;
    PinnedReservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    std::unique_ptr<SpillDisk> disk_;
    // Last, so that copies have ended before their memory goes, and threads of the plugin before the disk.
    GpuStream join_;
};

}  // namespace

cuda::CoherentJoinSpec coherent_spec(const cuda::StagedJoinSpec& join, const cuda::CoherentOptions& options,
                                     const uint64_t (&rows)[2]) {
    cuda::CoherentJoinSpec spec;
    spec.join = join;
    spec.options = options;
    spec.options.page_rows = join.sizes.page_rows;
    for (const int side : {kBuildSide, kProbeSide}) {
        spec.rows[side] = rows[side];
        const uint64_t chunks = (rows[side] + join.sizes.chunk_rows - 1) / join.sizes.chunk_rows;
        // No pages suffice for so many: each chunk leaves one page at least, and kernels number fewer than 2^26.
        const uint64_t counted = std::min<uint64_t>(chunks, std::numeric_limits<uint32_t>::max());
        spec.options.chunks = std::max(spec.options.chunks, static_cast<uint32_t>(counted));
    }
    return spec;
}

cuda::StreamReport join_out_of_core(const ChunkInput& build, const ChunkInput& probe, const OutOfCoreStage& stage,
                                    KeptPinned& pinned, const DevicePause& pause, BatchSink* sink, JobControl& control,
                                    const std::shared_ptr<SpillSpace>& space) {
    const bool wants_rows = stage.join.result == cuda::JoinResultKind::kRows;
    // Pairs of the same hash can only be counted when their keys have been compared.
    const bool compares = stage.keys == OutOfCoreKeys::kHashed;
    SPILLWAY_CHECK(wants_rows == (sink != nullptr && (sink->wants_columns() || compares)));
    std::optional<OutOfCore> join;
    cuda::StreamReport report;
    try {
        const ChunkInput inputs[2] = {build, probe};
        join.emplace(inputs, stage, pinned, pause, wants_rows ? sink : nullptr, control, space);
        report = join->run();
    } catch (const Error& error) {
        rethrow_undelivered(join ? join->told(error) : error, join && join->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(report.result_rows, std::memory_order_relaxed);
    if (sink != nullptr && !sink->wants_columns()) sink->add_rows(0, report.result_rows);
    return report;
}

}  // namespace spillway
