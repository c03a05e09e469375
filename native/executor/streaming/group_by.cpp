// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/group_by.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "cuda/memory_model/stream_memory.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/group_result.hpp"
#include "executor/streaming/phase.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/spill_disk.hpp"
#include "memory/memory_budget.hpp"

namespace spillway {

namespace {

// Groups that are looked at and go nowhere end here.
class NoSink final : public BatchSink {
  public:
    bool wants_columns() const override { return false; }
    void add_rows(int, uint64_t) override {}
    void push(int, OutputBatch&&) override {}
    BatchSize batch_size() const override { return {.rows = 1 << 16}; }
};

class OutOfCoreGroup {
  public:
    OutOfCoreGroup(const ChunkInput& input, const OutOfCoreGroupStage& stage, KeptPinned& pinned,
                   const DevicePause& pause, BatchSink* sink, JobControl& control,
                   const std::shared_ptr<SpillSpace>& space)
        : input_(input),
          stage_(stage),
          pause_(pause),
          budget_(pinned.budget()),
          control_(control),
          sink_(sink),
          way_(space, control),
          texts_(budget_),
          result_(stage.group, stage.columns, key_flags(), texts_, budget_),
          columns_(chunk_columns()),
          spill_(pinned.reserve(pinned_spill_bytes(stage.group.sizes), "groups that the GPU spills")),
          ring_(pinned, ring_slots(), columns_.chunk_bytes(),
                chunk_header_bytes(columns_, stage.group.sizes.host_chunk_rows)) {
        if (sink != nullptr) blocks_.emplace(pinned, result_.form(), *sink, control, pause);
        if (sink == nullptr && stage.key_words > 0) {
            blocks_.emplace(pinned, result_.counted_form(), nowhere_, control, pause);
        }
        disk_ = way_.open(stage.group.sizes.disk_blocks);
        group_by_ = GpuStream::begin(pinned.device(), stage.group, disk_.get());
    }

    cuda::StreamReport run() {
        cuda::StreamReport report;
        ResultBlocks* const blocks = blocks_ ? &*blocks_ : nullptr;
        ChunkFeeder feeder(input_, columns_, ring_, stage_.group.sizes.host_chunk_rows, budget_, control_, pause_);
        run_phase(feeder, blocks, stage_.workers, control_, {}, [&] {
            report = group_by_.run(0, feeder, blocks);
            // The last groups may wait for a reader who needs the memory of both before he reads on.
            group_by_.reset();
            disk_.reset();
            spill_.release();
        });
        if (stage_.side.keys.empty() && report.result_rows == 0) {
            report.result_rows = 1;
            if (sink_ != nullptr) result_.give_empty_group(*sink_);
        }
        return report;
    }

    bool gave_rows() const { return sink_ != nullptr && blocks_ && blocks_->gave_rows(); }
    Error told(const Error& error) const { return way_.told(error); }

  private:
    KeyFlags key_flags() const {
        if (stage_.side.numbered) return {0, true};
        return {stage_.side.null_byte, false, stage_.key_words};
    }
    ChunkColumns chunk_columns() {
        Source& source = *input_.source;
        const std::vector<ChunkColumn>& wanted = stage_.side.columns;
        if (std::any_of(wanted.begin(), wanted.end(), [](const ChunkColumn& of) { return of.distinct.has_value(); })) {
            seen_.emplace(budget_);
        }
        if (std::any_of(wanted.begin(), wanted.end(), [](const ChunkColumn& of) { return is_text_extreme(of.part); })) {
            extremes_.emplace(texts_, budget_);
        }
        const ChunkTexts texts{&texts_, false, seen_ ? &*seen_ : nullptr, extremes_ ? &*extremes_ : nullptr};
        ChunkKeys keys{stage_.group.key_bytes};
        if (stage_.side.numbered) {
            keys.mode = OutOfCoreKeys::kNumbered;
            keys.null_keys = NullKeys::kEqual;
        }
        ChunkColumns columns(source, stage_.side, keys, stage_.group.sizes.host_chunk_rows, texts);
        source.load_dictionaries(columns.read(), budget_, control_);
        return columns;
    }
    uint64_t ring_slots() const { return useful_slots(input_, stage_.group.sizes); }

    const ChunkInput input_;
    const OutOfCoreGroupStage& stage_;
    const DevicePause pause_;
    MemoryBudget& budget_;
    JobControl& control_;
    BatchSink* const sink_;
    NoSink nowhere_;
    SpillWay way_;
    TextCodes texts_;
    std::optional<TextCodes> seen_;
    std::optional<TextExtremes> extremes_;
    const GroupResult result_;
    const ChunkColumns columns_;
    PinnedReservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    std::unique_ptr<SpillDisk> disk_;
    // Last, so that copies have ended before their memory goes, and threads of the plugin before the disk.
    GpuStream group_by_;
};

}  // namespace

cuda::StreamReport group_out_of_core(const ChunkInput& input, const OutOfCoreGroupStage& stage, KeptPinned& pinned,
                                     const DevicePause& pause, BatchSink* sink, JobControl& control,
                                     const std::shared_ptr<SpillSpace>& space) {
    const bool wants_rows = sink != nullptr && sink->wants_columns();
    std::optional<OutOfCoreGroup> group;
    cuda::StreamReport report;
    try {
        group.emplace(input, stage, pinned, pause, wants_rows ? sink : nullptr, control, space);
        report = group->run();
    } catch (const Error& error) {
        rethrow_undelivered(group ? group->told(error) : error, group && group->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(report.result_rows, std::memory_order_relaxed);
    if (sink != nullptr && !wants_rows) sink->add_rows(0, report.result_rows);
    return report;
}

}  // namespace spillway
