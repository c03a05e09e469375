// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "link/link_copy.hpp"
#include "memory_model/stream_memory.hpp"
#include "stream/result_writer.hpp"

namespace spillway::cuda { inline namespace stream {

namespace {

// Numbers of 4 or 8 bytes, as many as registers hold.
void check_sums(const StagedJoinSpec& spec, const ResultWindow& window) {
    if (spec.output.size() > kSumColumnsMax) {
        throw Error(ErrorCode::kInvalid, "a join gives at most " + std::to_string(kSumColumnsMax) + " sums");
    }
    for (int32_t c = 0; c < window.columns; ++c) {
        if (spec.output[static_cast<size_t>(c)].side == OutputSide::kPresence) {
            throw Error(ErrorCode::kInvalid, "presence bytes cannot be summed");
        }
        const uint16_t width = window.column[c].width;
        if (width != 4 && width != 8) throw Error(ErrorCode::kInvalid, "sums are of columns of 4 or 8 bytes");
    }
}

}  // namespace

ResultWindow ResultWindow::make(const StagedJoinSpec& spec, const RowLayout& build, const RowLayout& probe) {
    ResultWindow window;
    window.key_bytes = build.key_words * 4;
    for (const JoinOutputColumn& wanted : spec.output) {
        ResultColumn& column = window.column[window.columns++];
        column.side = static_cast<uint8_t>(wanted.side);
        if (wanted.side == OutputSide::kKey) {
            column.width = static_cast<uint16_t>(window.key_bytes);
        } else if (wanted.side == OutputSide::kPresence) {
            column.width = 1;
        } else {
            const RowLayout& side = wanted.side == OutputSide::kBuild ? build : probe;
            if (wanted.column >= side.widths.size()) {
                throw Error(ErrorCode::kInvalid, "the result asks for a column that its side does not have");
            }
            column.width = static_cast<uint16_t>(side.widths[wanted.column]);
            column.offset = static_cast<uint8_t>(side.offsets[wanted.column]);
        }
    }
    if (spec.result == JoinResultKind::kSums) check_sums(spec, window);
    return window;
}

std::vector<uint32_t> ResultWindow::widths() const {
    std::vector<uint32_t> all;
    for (int32_t c = 0; c < columns; ++c) all.push_back(column[c].width);
    return all;
}

uint64_t ResultWindow::row_bytes() const {
    const std::vector<uint32_t> all = widths();
    return std::accumulate(all.begin(), all.end(), uint64_t{0});
}

ResultWriter::ResultWriter(Device& device, const ResultWindow& columns, uint32_t slots, uint64_t rows,
                           cudaStream_t stream)
    : device_(device), columns_(columns), rows_(rows), stream_(stream == nullptr ? own_.get() : stream) {
    if (slots == 0 || rows == 0) throw Error(ErrorCode::kInvalid, "a result needs a buffer of at least a row");
    slots_.resize(slots);
    const uint64_t slot_bytes = result_bytes(columns.widths(), rows);
    for (Slot& slot : slots_) slot.memory = device.memory().allocate(slot_bytes, "result rows");
}

ResultWriter::~ResultWriter() {
    discard(cudaStreamSynchronize(stream_));  // a lost device copies nothing any more
}

void ResultWriter::close_copied(size_t keep) {
    while (!open_.empty() && (open_.size() > keep || slots_[open_.front()].copied.done())) {
        slots_[open_.front()].copied.synchronize();
        open_.pop_front();
        sink_->close();
    }
}

ResultWindow ResultWriter::window_of(const Slot& slot, uint64_t first, uint64_t total) const {
    ResultWindow window = columns_;
    window.first = first;
    window.rows = std::min(rows_, total - first);
    uint8_t* at = slot.memory.as<uint8_t>();
    for (int32_t c = 0; c < window.columns; ++c) {
        window.column[c].data = at;
        at += column_bytes(window.column[c].width, rows_);
    }
    return window;
}

void ResultWriter::copy_out(Slot& slot, const ResultWindow& window) {
    slot.written.record(device_.stream());
    SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(stream_, slot.written.get(), 0));
    const std::vector<void*> to = sink_->open(window.rows);
    const std::vector<PackedBlock*> blocks = sink_->packed_blocks();
    device_.make_current();
    std::vector<LinkCopy> packed;
    for (int32_t c = 0; c < window.columns; ++c) {
        const auto at = static_cast<size_t>(c);
        const uint32_t width = window.column[c].width;
        auto* const from = static_cast<uint8_t*>(window.column[c].data);
        const uint64_t bytes = window.rows * width;
        copied_bytes_ += bytes;
        if (!blocks.empty() && blocks.at(at) != nullptr) {
            packed.push_back({from, static_cast<uint8_t*>(to.at(at)), blocks[at], bytes, width});
            continue;
        }
        SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(to.at(at), from, bytes, cudaMemcpyDefault, stream_));
    }
    fetch_to_host(packed, stream_);
    slot.copied.record(stream_);
    open_.push_back(next_);
    next_ = (next_ + 1) % slots_.size();
}

// Who takes the rows on the GPU has read them, in the order of the stream, before the slot is written again.
void ResultWriter::hand_over(const ResultWindow& window) {
    std::vector<const void*> columns;
    for (int32_t c = 0; c < window.columns; ++c) columns.push_back(window.column[c].data);
    sink_->take(columns, window.rows);
    device_.make_current();
}

void ResultWriter::write(uint64_t total, const std::function<void(const ResultWindow&)>& write) {
    const bool stays = sink_->is_on_device();
    for (uint64_t first = 0; first < total; first += rows_) {
        device_.check_cancelled();
        Slot& slot = slots_[next_];
        // Also before the sink is asked for room: it may have none until older rows were delivered.
        close_copied(slots_.size() - 1);
        if (slot.used) SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(device_.stream(), slot.copied.get(), 0));
        slot.used = !stays;
        const ResultWindow window = window_of(slot, first, total);
        write(window);
        stays ? hand_over(window) : copy_out(slot, window);
    }
}

void ResultWriter::finish() {
    close_copied(0);
}

}}  // namespace spillway::cuda::stream
