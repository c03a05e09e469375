// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/group_by.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "executor/streaming/chunk_feeder.hpp"
#include "executor/streaming/group_result.hpp"
#include "executor/streaming/phase.hpp"
#include "executor/streaming/result_blocks.hpp"
#include "executor/streaming/spill_disk.hpp"

namespace spillway {

namespace {

class OutOfCoreGroup {
  public:
    OutOfCoreGroup(Source& source, const OutOfCoreGroupStage& stage, KeptPinned& pinned, const DevicePause& pause,
                   BatchSink* sink, JobControl& control, const std::shared_ptr<SpillSpace>& space)
        : source_(source),
          stage_(stage),
          budget_(pinned.budget()),
          control_(control),
          sink_(sink),
          widths_(stage.group.output_widths()),
          columns_(source, stage.side, {stage.group.key_bytes}, stage.group.sizes.chunk_rows),
          spill_(pinned.reserve(pinned_spill_bytes(stage.group.sizes), "groups that the GPU spills")),
          ring_(pinned, ring_slots(), columns_.chunk_bytes()) {
        if (sink != nullptr) blocks_.emplace(pinned, form(), *sink, control, pause);
        if (space != nullptr && stage.group.sizes.disk_blocks > 0) disk_.emplace(space, control);
        group_by_ = GpuOutOfCoreGroupBy::begin(pinned.device(), stage.group, disk_ ? &*disk_ : nullptr);
    }

    GpuOutOfCoreGroupReport run() {
        GpuOutOfCoreGroupReport report;
        ResultBlocks* const blocks = blocks_ ? &*blocks_ : nullptr;
        ChunkFeeder feeder(source_, columns_, ring_, stage_.group.sizes.chunk_rows, budget_, control_);
        run_phase(feeder, blocks, stage_.workers, control_, {}, [&] {
            report = group_by_.run(feeder, blocks);
            // The last groups may wait for a reader who needs the memory of both before he reads on.
            group_by_.reset();
            disk_.reset();
            spill_.release();
        });
        if (stage_.side.keys.empty() && report.groups == 0) give_empty_group(report);
        return report;
    }

    bool gave_rows() const { return blocks_ && blocks_->gave_rows(); }

  private:
    // Small relations have no use for all of them.
    uint64_t ring_slots() const {
        const uint64_t chunks = static_cast<uint64_t>(source_.rows()) / stage_.group.sizes.chunk_rows + 1;
        return std::min(stage_.group.sizes.chunk_slots + kSpareChunks, chunks);
    }

    std::vector<OutputColumn> columns(const std::vector<const uint8_t*>& outputs, uint64_t rows) const {
        std::vector<OutputColumn> made;
        const GroupOutputs groups{widths_, outputs, stage_.side.null_byte};
        for (const GroupResultColumn& column : stage_.columns) {
            const std::string name =
                column.column < 0 ? std::string() : source_.columns()[static_cast<size_t>(column.column)]->name;
            made.push_back(group_result_column(column, groups, rows, name, budget_));
        }
        return made;
    }

    ResultForm form() const {
        ResultForm form;
        form.block_rows = stage_.group.sizes.result_rows;
        form.slots = stage_.group.sizes.result_slots;
        form.widths = widths_;
        form.row_bytes = 0;
        for (const GroupResultColumn& column : stage_.columns) form.row_bytes += chunk_width(*column.type);
        form.columns = [this](const std::vector<const uint8_t*>& outputs, uint64_t rows) {
            return columns(outputs, rows);
        };
        return form;
    }

    // Without keys there is a group also without rows: its counts are 0, and all else is NULL.
    void give_empty_group(GpuOutOfCoreGroupReport& report) {
        report.groups = 1;
        if (sink_ == nullptr) return;
        const uint64_t zero[2] = {};
        OutputBatch batch;
        batch.rows = 1;
        batch.columns = columns(std::vector<const uint8_t*>(widths_.size(), reinterpret_cast<const uint8_t*>(zero)), 1);
        sink_->push(0, std::move(batch));
    }

    Source& source_;
    const OutOfCoreGroupStage& stage_;
    MemoryBudget& budget_;
    JobControl& control_;
    BatchSink* const sink_;
    const std::vector<uint32_t> widths_;  // of the GPU's result columns
    const ChunkColumns columns_;
    PinnedReservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    std::optional<SpillDisk> disk_;
    // Last, so that copies have ended before their memory goes, and threads of the plugin before the disk.
    GpuOutOfCoreGroupBy group_by_;
};

}  // namespace

GpuOutOfCoreGroupReport group_out_of_core(Source& source, const OutOfCoreGroupStage& stage, KeptPinned& pinned,
                                          const DevicePause& pause, BatchSink* sink, JobControl& control,
                                          const std::shared_ptr<SpillSpace>& space) {
    const bool wants_rows = sink != nullptr && sink->wants_columns();
    std::optional<OutOfCoreGroup> group;
    GpuOutOfCoreGroupReport report;
    try {
        group.emplace(source, stage, pinned, pause, wants_rows ? sink : nullptr, control, space);
        report = group->run();
    } catch (const Error& error) {
        rethrow_undelivered(error, group && group->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(report.groups, std::memory_order_relaxed);
    if (sink != nullptr && !wants_rows) sink->add_rows(0, report.groups);
    return report;
}

}  // namespace spillway
