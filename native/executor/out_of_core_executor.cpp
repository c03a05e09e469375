// SPDX-License-Identifier: Apache-2.0
#include "executor/out_of_core_executor.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "executor/chunk_feeder.hpp"

namespace spillway {

namespace {

// Chunks that are filled while the GPU's copy engines read the others.
constexpr uint64_t kSpareChunks = 2;

// A join that found too little memory before it gave rows can be done in another way, by whoever asked for it.
[[noreturn]] void rethrow(const Error& error, bool gave_rows) {
    const bool memory = error.code() == ErrorCode::kBudgetTooSmall || error.code() == ErrorCode::kOutOfMemory;
    if (!memory || gave_rows) throw;
    auto details = error.details();
    details.emplace_back("delivered", "nothing");
    throw Error(error.code(), error.message(), std::move(details));
}

class OutOfCore {
  public:
    OutOfCore(Source* const (&sources)[2], const OutOfCoreStage& stage, GpuDevice& device, const DevicePause& pause,
              BatchSink* sink, MemoryBudget& budget, JobControl& control)
        : sources_{sources[kBuildSide], sources[kProbeSide]},
          stage_(stage),
          budget_(budget),
          control_(control),
          columns_{columns_of(kBuildSide), columns_of(kProbeSide)},
          spill_(budget.reserve(stage.join.sizes.spill_bytes, "rows that the GPU spills")),
          ring_(device, budget, ring_slots(),
                std::max(columns_[kBuildSide].chunk_bytes(), columns_[kProbeSide].chunk_bytes())) {
        if (sink != nullptr) blocks_.emplace(device, stage, *sink, budget, control, pause);
        join_ = GpuOutOfCoreJoin::begin(device, stage.join);
    }

    OutOfCoreRun run() {
        OutOfCoreRun done;
        GpuResultSink* const rows = blocks_ ? &*blocks_ : nullptr;
        phase(kBuildSide, [&](GpuChunkSource& chunks) { done.partition_rows = join_.build(chunks, rows); });
        phase(kProbeSide, [&](GpuChunkSource& chunks) {
            done.report = join_.probe(chunks, rows);
            // The last rows may wait for a reader who needs the memory of both before he reads on.
            join_.reset();
            spill_.release();
        });
        return done;
    }

    bool gave_rows() const { return blocks_ && blocks_->gave_rows(); }

  private:
    ChunkColumns columns_of(size_t side) const {
        return ChunkColumns(*sources_[side], stage_.sides[side], stage_.join.key_bytes, stage_.join.sizes.chunk_rows);
    }
    // Small relations have no use for all of them.
    uint64_t ring_slots() const {
        const auto rows = static_cast<uint64_t>(std::max(sources_[0]->rows(), sources_[1]->rows()));
        const uint64_t chunks = rows / stage_.join.sizes.chunk_rows + 1;
        return std::min(stage_.join.sizes.chunk_slots + kSpareChunks, chunks);
    }

    // One side is read: by the join on this thread, with chunks that workers fill, whose rows others deliver.
    template <class Use>
    void phase(size_t side, Use use) {
        ChunkFeeder feeder(*sources_[side], columns_[side], ring_, stage_.join.sizes.chunk_rows, budget_, control_);
        const int feeders = feeder.workers_max(stage_.workers);
        const int deliverers = blocks_ ? stage_.workers : 0;
        if (blocks_) blocks_->begin(deliverers);
        const auto body = [&](int worker) {
            if (worker == 0) {
                use(feeder);
                if (!blocks_) return;
                blocks_->end();
                blocks_->drain();
            } else if (worker <= feeders) {
                feeder.work();
            } else {
                blocks_->work(worker - feeders - 1);
            }
        };
        parallel_run(1 + feeders + deliverers, body, [&] {
            control_.cancelled.store(true, std::memory_order_relaxed);
            feeder.wake();
            if (blocks_) blocks_->wake();
        });
    }

    Source* const sources_[2];
    const OutOfCoreStage& stage_;
    MemoryBudget& budget_;
    JobControl& control_;
    const ChunkColumns columns_[2];
    Reservation spill_;
    ChunkRing ring_;
    std::optional<ResultBlocks> blocks_;
    // Last, so that copies have ended before their memory goes.
    GpuOutOfCoreJoin join_;
};

}  // namespace

OutOfCoreRun join_out_of_core(Source& build, Source& probe, const OutOfCoreStage& stage, GpuDevice& device,
                              const DevicePause& pause, BatchSink* sink, MemoryBudget& budget, JobControl& control) {
    const bool wants_rows = stage.join.result == GpuOutOfCoreResult::kRows;
    SPILLWAY_CHECK(wants_rows == (sink != nullptr && sink->wants_columns()));
    std::optional<OutOfCore> join;
    OutOfCoreRun done;
    try {
        Source* const sources[2] = {&build, &probe};
        join.emplace(sources, stage, device, pause, wants_rows ? sink : nullptr, budget, control);
        done = join->run();
    } catch (const Error& error) {
        rethrow(error, join && join->gave_rows());
    }
    if (sink == nullptr) control.rows_out.fetch_add(done.report.result_rows, std::memory_order_relaxed);
    if (sink != nullptr && !wants_rows) sink->add_rows(0, done.report.result_rows);
    return done;
}

}  // namespace spillway
