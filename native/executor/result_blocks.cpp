// SPDX-License-Identifier: Apache-2.0
#include "executor/result_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "executor/result_part.hpp"

namespace spillway {

namespace {

constexpr uint64_t kSpareBlocks = 2;

uint64_t result_row_bytes(const OutOfCoreStage& stage) {
    uint64_t bytes = 0;
    for (const ResultColumn& column : stage.columns) bytes += chunk_width(*column.type);
    return std::max<uint64_t>(bytes, 1);
}

}  // namespace

ResultBlocks::ResultBlocks(GpuDevice& device, const OutOfCoreStage& stage, BatchSink& sink, MemoryBudget& budget,
                           JobControl& control, DevicePause pause)
    : stage_(stage), sink_(sink), budget_(budget), control_(control), pause_(std::move(pause)) {
    constexpr const char* kPurpose = "result rows of the GPU";
    const GpuOutOfCoreSizes& sizes = stage.join.sizes;
    uint64_t bytes = 0;
    for (const GpuOutputColumn& output : stage.join.outputs) {
        column_at_.push_back(bytes);
        bytes += pinned_column_bytes(sizes.result_rows * stage.join.output_width(output));
    }
    const BatchSize size = sink.batch_size();
    const uint64_t fitting = std::max<uint64_t>(size.bytes / result_row_bytes(stage), 1);
    batch_rows_ = std::max<uint64_t>(std::min(static_cast<uint64_t>(size.rows), fitting), 1);
    const uint64_t count = sizes.result_slots + kSpareBlocks;
    bytes = std::max(bytes, kPinnedColumnAlign);
    reservation_ = budget.reserve(count * bytes, kPurpose);
    for (uint64_t i = 0; i < count; ++i) {
        blocks_.emplace_back();
        blocks_.back().memory = device.allocate_pinned(bytes, kPurpose);
        free_.push_back(&blocks_.back());
    }
}

void ResultBlocks::wait_for_block() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (free_.empty()) {
        control_.check();
        changed_.wait_for(lock, kOutOfCorePoll);
    }
}

void ResultBlocks::open(uint64_t rows, void** columns) {
    SPILLWAY_CHECK(rows <= stage_.join.sizes.result_rows);
    gave_rows_ = true;
    bool waits = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        waits = free_.empty();
    }
    // The reader of the rows may be slow, and may run queries of its own before it reads on.
    if (waits) pause_([this] { wait_for_block(); });
    control_.check();
    const std::lock_guard<std::mutex> lock(mutex_);
    Block* const block = free_.front();
    free_.pop_front();
    block->rows = rows;
    block->taken = 0;
    block->delivered = 0;
    opened_.push_back(block);
    for (size_t i = 0; i < column_at_.size(); ++i) {
        columns[i] = static_cast<uint8_t*>(block->memory.data()) + column_at_[i];
    }
}

void ResultBlocks::close() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    ready_.push_back(opened_.front());
    opened_.pop_front();
    changed_.notify_all();
}

class ResultBlocks::Working {
  public:
    explicit Working(ResultBlocks& blocks) : blocks_(blocks) {}
    ~Working() {
        const std::lock_guard<std::mutex> lock(blocks_.mutex_);
        --blocks_.working_;
        blocks_.changed_.notify_all();
    }
    Working(const Working&) = delete;

  private:
    ResultBlocks& blocks_;
};

void ResultBlocks::begin(int workers) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = false;
    working_ = workers;
}

void ResultBlocks::drain() {
    pause_([this] {
        std::unique_lock<std::mutex> lock(mutex_);
        while (working_ > 0) {
            control_.check();
            changed_.wait_for(lock, kOutOfCorePoll);
        }
    });
}

void ResultBlocks::end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
}

void ResultBlocks::wake() {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
}

bool ResultBlocks::take(Stripe& stripe) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (ready_.empty()) {
        control_.check();
        if (ended_) return false;
        changed_.wait_for(lock, kOutOfCorePoll);
    }
    Block* const block = ready_.front();
    stripe = {block, block->taken, std::min(batch_rows_, block->rows - block->taken)};
    block->taken += stripe.rows;
    if (block->taken == block->rows) ready_.pop_front();
    return true;
}

void ResultBlocks::work(int worker) {
    const Working working(*this);
    for (Stripe stripe; take(stripe);) {
        control_.check();
        OutputBatch batch = batch_of(stripe);
        {
            // The block may be filled again while the batch waits for its reader.
            const std::lock_guard<std::mutex> lock(mutex_);
            stripe.block->delivered += stripe.rows;
            if (stripe.block->delivered == stripe.block->rows) {
                free_.push_back(stripe.block);
                changed_.notify_all();
            }
        }
        sink_.push(worker, std::move(batch));
    }
}

OutputBatch ResultBlocks::batch_of(const Stripe& stripe) {
    std::vector<const uint8_t*> outputs;
    for (size_t i = 0; i < column_at_.size(); ++i) {
        const uint64_t width = stage_.join.output_width(stage_.join.outputs[i]);
        outputs.push_back(static_cast<const uint8_t*>(stripe.block->memory.data()) + column_at_[i] +
                          stripe.row * width);
    }
    OutputBatch batch;
    batch.rows = static_cast<int64_t>(stripe.rows);
    for (const ResultColumn& column : stage_.columns) {
        batch.columns.push_back(result_column(stage_, column, outputs, stripe.rows, budget_));
    }
    return batch;
}

}  // namespace spillway
