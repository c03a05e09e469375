// SPDX-License-Identifier: Apache-2.0
#include "executor/streaming/result_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cuda/memory_model/stream_memory.hpp"

namespace spillway {

namespace {

// Where the columns of a block begin, and the blocks of those that are packed.
struct Places {
    explicit Places(const ResultForm& form) {
        constexpr uint64_t kValues = cuda::kPackedValues;
        const uint64_t whole = (form.block_rows + kValues - 1) / kValues;  // blocks of packed values
        for (size_t c = 0; c < form.widths.size(); ++c) {
            const uint32_t width = form.widths[c];
            values.push_back(bytes);
            bytes += cuda::column_bytes(width, is_packed(form, c) ? whole * kValues : form.block_rows);
            blocks.push_back(bytes);
            if (is_packed(form, c)) {
                bytes += cuda::column_bytes(cuda::packed_planes(width) * sizeof(cuda::PackedBlock), whole);
            }
        }
        bytes = std::max(bytes, cuda::kColumnAlignBytes);
    }
    static bool is_packed(const ResultForm& form, size_t column) { return !form.packed.empty() && form.packed[column]; }

    std::vector<uint64_t> values;
    std::vector<uint64_t> blocks;
    uint64_t bytes = 0;
};

}  // namespace

ResultBlocks::ResultBlocks(KeptPinned& pinned, ResultForm form, BatchSink& sink, JobControl& control, DevicePause pause)
    : form_(std::move(form)), sink_(sink), control_(control), pause_(std::move(pause)) {
    constexpr const char* kPurpose = "result rows of the GPU";
    const BatchSize size = sink.batch_size();
    const uint64_t fitting = std::max<uint64_t>(size.bytes / std::max<uint64_t>(form_.row_bytes, 1), 1);
    batch_rows_ = std::max<uint64_t>(std::min(static_cast<uint64_t>(size.rows), fitting), 1);
    // Batches begin with a block of packed values, and one that is not complete has room that no plan counts.
    const bool fits = batch_rows_ >= cuda::kPackedValues && form_.block_rows % cuda::kPackedValues == 0;
    if (!fits) form_.packed.clear();
    if (!form_.packed.empty()) batch_rows_ -= batch_rows_ % cuda::kPackedValues;
    const Places places(form_);
    const uint64_t count = form_.slots + uint64_t{cuda::kHostSlots};
    reservation_ = pinned.reserve(count * places.bytes, kPurpose);
    for (uint64_t i = 0; i < count; ++i) {
        blocks_.emplace_back();
        Block& block = blocks_.back();
        block.memory = pinned.device().allocate_pinned(places.bytes, kPurpose);
        const auto* const data = static_cast<const uint8_t*>(block.memory.data());
        for (size_t c = 0; c < form_.widths.size(); ++c) {
            const auto* const blocks = reinterpret_cast<const cuda::PackedBlock*>(data + places.blocks[c]);
            block.outputs.push_back(
                {data + places.values[c], Places::is_packed(form_, c) ? blocks : nullptr, form_.widths[c]});
        }
        free_.push_back(&block);
    }
}

void ResultBlocks::wait_for_block() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (free_.empty()) {
        control_.check();
        changed_.wait_for(lock, kAbortPoll);
    }
}

void ResultBlocks::open(uint64_t rows, void** columns, cuda::PackedBlock** blocks) {
    SPILLWAY_CHECK(rows <= form_.block_rows);
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
    // The GPU writes there.
    for (size_t i = 0; i < block->outputs.size(); ++i) {
        columns[i] = const_cast<uint8_t*>(block->outputs[i].data);
        blocks[i] = const_cast<cuda::PackedBlock*>(block->outputs[i].blocks);
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
    const uint64_t batches = (form_.block_rows + batch_rows_ - 1) / batch_rows_ * blocks_.size();
    shares_ = form_.deliverer == nullptr && form_.columns > 1 && batches < static_cast<uint64_t>(workers);
}

void ResultBlocks::drain() {
    pause_([this] {
        std::unique_lock<std::mutex> lock(mutex_);
        while (working_ > 0) {
            control_.check();
            changed_.wait_for(lock, kAbortPoll);
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

bool ResultBlocks::take(Piece& piece) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (sharing_ == nullptr && ready_.empty()) {
        control_.check();
        if (ended_) return false;
        changed_.wait_for(lock, kAbortPoll);
    }
    if (shares_) {
        take_column(piece);
    } else {
        piece.range = take_range();
    }
    return true;
}

ResultBlocks::RowRange ResultBlocks::take_range() {
    Block* const block = ready_.front();
    const RowRange range{block, block->taken, std::min(batch_rows_, block->rows - block->taken)};
    block->taken += range.rows;
    if (block->taken == block->rows) ready_.pop_front();
    return range;
}

void ResultBlocks::take_column(Piece& piece) {
    if (sharing_ == nullptr) {
        auto made = std::make_shared<SharedBatch>();
        made->range = take_range();
        made->batch.rows = static_cast<int64_t>(made->range.rows);
        made->batch.columns.resize(form_.columns);
        made->memory = form_.memory(made->range.rows);
        sharing_ = std::move(made);  // others see it when it is whole
        changed_.notify_all();
    }
    piece.shared = sharing_;
    piece.column = sharing_->taken++;
    if (sharing_->taken == form_.columns) sharing_.reset();
}

// Whoever makes the last column pushes the batch.
void ResultBlocks::make_column(int worker, const Piece& piece) {
    SharedBatch& shared = *piece.shared;
    const RowRange& range = shared.range;
    const GpuOutputs outputs(range.block->outputs, range.row, range.rows);
    shared.batch.columns[piece.column] = form_.column(piece.column, outputs, range.rows, *shared.memory);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (++shared.made < form_.columns) return;
    }
    has_read(shared.range);
    shared.batch.memory = shared.memory->take_block();
    delivered_rows_ += shared.range.rows;
    sink_.push(worker, std::move(shared.batch));
}

void ResultBlocks::work(int worker) {
    const Working working(*this);
    const DeliverRows deliver = form_.deliverer ? form_.deliverer(sink_, worker) : nullptr;
    for (Piece piece; take(piece); piece = {}) {
        control_.check();
        if (piece.shared != nullptr) {
            make_column(worker, piece);
            continue;
        }
        const RowRange& range = piece.range;
        const GpuOutputs outputs(range.block->outputs, range.row, range.rows);
        if (deliver) {
            delivered_rows_ += deliver(outputs, range.rows, [&] { has_read(range); });
            continue;
        }
        OutputBatch batch = batch_of(outputs, range.rows);
        has_read(range);
        delivered_rows_ += range.rows;
        sink_.push(worker, std::move(batch));
    }
}

// The block may be filled again while the last batch of its rows waits for its reader.
void ResultBlocks::has_read(const RowRange& range) {
    saved_bytes_ += GpuOutputs(range.block->outputs, range.row, range.rows).saved_bytes();
    const std::lock_guard<std::mutex> lock(mutex_);
    range.block->delivered += range.rows;
    if (range.block->delivered == range.block->rows) {
        free_.push_back(range.block);
        changed_.notify_all();
    }
}

OutputBatch ResultBlocks::batch_of(const GpuOutputs& outputs, uint64_t rows) const {
    OutputBatch batch;
    batch.rows = static_cast<int64_t>(rows);
    const std::unique_ptr<BatchMemory> memory = form_.memory(rows);
    for (size_t at = 0; at < form_.columns; ++at) batch.columns.push_back(form_.column(at, outputs, rows, *memory));
    batch.memory = memory->take_block();
    return batch;
}

void ResultBlocks::count_saved(cuda::StreamReport& report) const {
    report.d2h_bytes -= saved_bytes_;
    report.result_saved_bytes += saved_bytes_;
}

}  // namespace spillway
