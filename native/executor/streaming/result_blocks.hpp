// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/job_control.hpp"
#include "executor/device_job.hpp"
#include "executor/kept_pinned.hpp"
#include "executor/streaming/gpu_outputs.hpp"
#include "executor/streaming/join_spec.hpp"
#include "memory/batch_memory.hpp"
#include "model/batch_sink.hpp"

namespace spillway {

// Gives a sink rows of the GPU. `read` is called when they are needed no more, before the sink is given the last batch.
// Returns how many of the rows were part of the result.
using DeliverRows =
    std::function<uint64_t(const GpuOutputs& outputs, uint64_t rows, const std::function<void()>& read)>;

// What the GPU's rows are, and what becomes of them.
struct ResultForm {
    uint64_t block_rows = 0;  // at most
    uint32_t slots = 2;       // buffers of the GPU
    // By output column: the GPU packs its values; empty: none. Whoever makes columns takes them by copy() alone.
    std::vector<bool> packed;
    std::vector<uint32_t> widths;
    uint64_t row_bytes = 1;  // of a row of a batch
    // Makes column `at` of the `columns` of a batch.
    size_t columns = 0;
    std::function<OutputColumn(size_t at, const GpuOutputs& outputs, uint64_t rows, BatchMemory& memory)> column;
    // Makes the memory of a batch of so many rows, for its columns.
    std::function<std::unique_ptr<BatchMemory>(uint64_t rows)> memory;
    // Instead, where set: one worker's way to make batches.
    std::function<DeliverRows(BatchSink& sink, int worker)> deliverer;
};

// Result rows on their way from the GPU to a sink: copy engines, or a kernel that packs values, write them into blocks
// of pinned memory, workers make batches of them and push those, while the join goes on as long as there is a free
// block. Where a batch takes most of a block, there are fewer of them at a time than workers, who then make the columns
// of each together.
class ResultBlocks final : public GpuResultSink {
  public:
    // One block more than the GPU has buffers is being filled while another is delivered.
    ResultBlocks(KeptPinned& pinned, ResultForm form, BatchSink& sink, JobControl& control, DevicePause pause);

    void open(uint64_t rows, void** columns, cuda::PackedBlock** blocks) override;
    void close() noexcept override;

    // begin() says how many call work(); each returns when end() was called and what was closed before has been
    // delivered.
    void begin(int workers);
    void work(int worker);
    void end();
    // Waits for all of them.
    void drain();
    // Those who wait look at the job again: it was cancelled.
    void wake();
    // For the thread of open(): has it been called?
    bool gave_rows() const { return gave_rows_; }
    // Without pairs whose keys differ; when all have been delivered.
    uint64_t delivered_rows() const { return delivered_rows_; }
    // Counts in a report what values have saved of the link that came packed.
    void count_saved(cuda::StreamReport& report) const;

  private:
    struct Block {
        PinnedBlock memory;
        std::vector<GpuOutput> outputs;
        uint64_t rows = 0;
        uint64_t taken = 0;  // by workers
        uint64_t delivered = 0;
    };
    struct RowRange {
        Block* block = nullptr;
        uint64_t row = 0;
        uint64_t rows = 0;
    };
    // A batch whose columns several workers make.
    struct SharedBatch {
        RowRange range;
        OutputBatch batch;
        std::unique_ptr<BatchMemory> memory;
        size_t taken = 0;  // columns; so are those that are made
        size_t made = 0;
    };
    // Rows for a batch of one worker, or a column of a batch of several.
    struct Piece {
        RowRange range;
        std::shared_ptr<SharedBatch> shared;
        size_t column = 0;
    };
    class Working;
    bool take(Piece& piece);
    RowRange take_range();
    void take_column(Piece& piece);
    void make_column(int worker, const Piece& piece);
    OutputBatch batch_of(const GpuOutputs& outputs, uint64_t rows) const;
    void has_read(const RowRange& range);
    void wait_for_block();

    ResultForm form_;
    BatchSink& sink_;
    JobControl& control_;
    const DevicePause pause_;
    uint64_t batch_rows_ = 1;
    PinnedReservation reservation_;
    std::deque<Block> blocks_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Block*> free_;
    std::deque<Block*> opened_;
    std::deque<Block*> ready_;
    std::shared_ptr<SharedBatch> sharing_;  // one with columns that nobody has taken
    bool shares_ = false;
    bool ended_ = false;
    bool gave_rows_ = false;
    int working_ = 0;
    std::atomic<uint64_t> delivered_rows_{0};
    std::atomic<uint64_t> saved_bytes_{0};
};

}  // namespace spillway
