// SPDX-License-Identifier: Apache-2.0
#include "fake_stream.hpp"

#include <algorithm>

#include "fake_pipe.hpp"
#include "fake_staged_group_by.hpp"
#include "fake_staged_join.hpp"
#include "memory_model/stream_memory.hpp"
#include "test/gpu/support/packed_reference.hpp"

namespace fake {

template <class Call>
int32_t Stream::call_back(Call call) {
    const uint64_t bytes = memory_.chunks.bytes();
    memory_.chunks = Room();
    lock().unlock();
    const int32_t told = call();
    lock().lock();
    if (told < 0) throw Failure{SPILLWAY_CUDA_CANCELLED, "a source or sink of the caller failed"};
    const ClaimUser user(memory_.claim);
    memory_.chunks = Room(memory_.of, bytes, "chunks");
    return told;
}

void Stream::read(int input, const SourceCalls& source, uint32_t key_bytes, const ColumnWidths& widths,
                  const char* asked, const std::function<void(const Chunk&)>& use) {
    std::deque<Chunk> taken;
    const auto use_oldest = [&] {
        use(taken.front());
        taken.pop_front();
        if (!unpacked_.empty()) unpacked_.pop_front();
        source.release(source.context);
    };
    for (;;) {
        check(gpu_);
        while (taken.size() > sizes_.host_chunk_slots / 2) use_oldest();
        Chunk chunk;
        if (call_back([&] { return source.next(source.context, &chunk); }) == 0) break;
        if (chunk.rows > sizes_.chunk_rows || chunk.columns.size() != widths.size()) {
            throw Failure{SPILLWAY_CUDA_INVALID, "a chunk is too large, or has other columns"};
        }
        report_.rows[input] += chunk.rows;
        uint64_t bytes = chunk.rows * key_bytes;
        for (const uint32_t width : widths) bytes += chunk.rows * width;
        const uint64_t sent_bytes = unpack(chunk, key_bytes, widths);
        report_.saved_bytes += bytes - std::min(bytes, sent_bytes);
        bytes = sent_bytes;
        if (chunk.key_valid != nullptr) bytes += spillway::cuda::validity_bytes(chunk.rows);
        if (!piped_in_) report_.h2d_bytes += bytes;
        taken.push_back(chunk);
        fail_here(asked);
    }
    while (!taken.empty()) use_oldest();
}

// Makes the chunk one of values as they are, in memory that stays until it has been used; returns what crossed the
// link.
uint64_t Stream::unpack(Chunk& chunk, uint32_t key_bytes, const ColumnWidths& widths) {
    uint64_t sent = 0;
    std::vector<std::vector<uint8_t>> columns;
    const auto column = [&](const void* from, const PackedBlock* blocks, uint32_t width) -> const void* {
        if (blocks == nullptr) {
            sent += chunk.rows * width;
            return from;
        }
        const uint64_t count = spillway::gpu_test::packed_blocks(width, chunk.rows);
        for (uint64_t b = 0; b < count; ++b) sent += spillway::cuda::packed_bytes(blocks[b].bits) + sizeof *blocks;
        columns.emplace_back(chunk.rows * width);
        spillway::gpu_test::unpack_reference(blocks, const_cast<void*>(from), width, chunk.rows, columns.back().data());
        return columns.back().data();
    };
    chunk.key = column(chunk.key, chunk.key_blocks, key_bytes);
    for (size_t c = 0; c < widths.size(); ++c) {
        const PackedBlock* const blocks = chunk.column_blocks.empty() ? nullptr : chunk.column_blocks[c];
        chunk.columns[c] = column(chunk.columns[c], blocks, widths[c]);
    }
    unpacked_.push_back(std::move(columns));
    return sent;
}

bool Stream::spills_to_disk(int input, uint64_t bytes) {
    ++report_.spilled_rows[input];
    report_.spilled_bytes[input] += bytes;
    const uint64_t peer_free_bytes = gpu_->peer_bytes - gpu_->peer_used_bytes;
    if (bytes <= peer_free_bytes && peer_bytes_ + bytes <= sizes_.peer_bytes) {
        peer_bytes_ += bytes;
        gpu_->peer_used_bytes += bytes;
        report_.peer_bytes += bytes;
        return false;
    }
    const bool fits = memory_bytes_ + bytes <= sizes_.spill_bytes;
    if (fits && !is_asked_for("pins-nothing")) {
        memory_bytes_ += bytes;
        return false;
    }
    if (disk_.usable()) return true;
    Failure failure{SPILLWAY_CUDA_OUT_OF_MEMORY, std::string(kSpilledRows) + " of the fake", memory_bytes_ + bytes};
    failure.limit_reached = !fits;
    failure.host_memory = true;
    failure.free_bytes = sizes_.spill_bytes - memory_bytes_;
    failure.limit_bytes = sizes_.spill_bytes;
    throw failure;
}

void Stream::give(const std::vector<std::string>& values) {
    for (size_t c = 0; c < values.size(); ++c) pending_[c] += values[c];
    if (++pending_rows_ == sizes_.result_rows) flush();
}

void Stream::finish() {
    flush();
    while (!open_.empty()) close_oldest();
    for (int input = 0; input < 2; ++input) {
        report_.h2d_bytes += report_.spilled_bytes[input];
        report_.d2h_bytes += report_.spilled_bytes[input];
    }
    report_.disk_written_bytes = disk_.written_bytes();
    report_.disk_read_bytes = disk_.read_bytes();
    report_.spilled_ms = 0.125;
}

void Stream::flush() {
    if (pending_rows_ == 0) return;
    check(gpu_);
    if (open_.size() == sizes_.result_slots) close_oldest();
    Window window{pending_rows_, std::vector<void*>(pending_.size()), std::vector<PackedBlock*>(pending_.size()),
                  std::move(pending_)};
    call_back([&] { return sink_->open(sink_->context, window.rows, window.columns.data(), window.blocks.data()); });
    for (const std::string& values : window.values) report_.d2h_bytes += piped_out_ ? 0 : values.size();
    pending_.assign(window.values.size(), {});
    open_.push_back(std::move(window));
    pending_rows_ = 0;
}

void Stream::close_oldest() {
    const Window& window = open_.front();
    for (size_t c = 0; c < window.columns.size(); ++c) {
        const std::string& values = window.values[c];
        if (window.blocks[c] == nullptr) {
            std::memcpy(window.columns[c], values.data(), values.size());
        } else {
            spillway::gpu_test::pack_reference(reinterpret_cast<const uint8_t*>(values.data()), output_widths_[c],
                                               window.rows, static_cast<uint8_t*>(window.columns[c]), window.blocks[c]);
        }
    }
    open_.pop_front();
    sink_->close(sink_->context);
    if (++closed_windows_ == kWindowsBeforeLoss) fail_here("lost-result");
}

namespace {

template <class Make>
void begin(spillway_cuda_gpu* gpu, spillway_cuda_stream** stream, spillway_cuda_status* status, const Make& make) {
    *stream = nullptr;
    guarded(gpu, status, [&] {
        *stream = new spillway_cuda_stream{gpu, make()};
        ++gpu->children;
    });
}

}  // namespace

void begin_staged_join(spillway_cuda_gpu* gpu, const StagedJoinSpec* spec, const DiskCalls* disk,
                       spillway_cuda_stream** stream, spillway_cuda_status* status) {
    begin(gpu, stream, status, [&] { return std::make_unique<StagedJoin>(gpu, *spec, disk); });
}

void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    begin(gpu, stream, status, [&] { return std::make_unique<StagedJoin>(gpu, *spec); });
}

void begin_baseline_join(spillway_cuda_gpu* gpu, const BaselineJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    begin(gpu, stream, status, [&] { return std::make_unique<StagedJoin>(gpu, *spec); });
}

void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status) {
    begin(gpu, stream, status, [&] { return std::make_unique<StagedGroupBy>(gpu, *spec, disk); });
}

namespace {

void check_step(const spillway_cuda_step& step, const spillway_cuda_step* before) {
    if (step.input != step.stream->next_input++) {
        throw Failure{SPILLWAY_CUDA_INVALID, "an operator's inputs come in order, each once"};
    }
    const Stream& work = *step.stream->work;
    require(step.input < work.inputs(), "an operator has no such input");
    require((step.pipe != nullptr) == (before != nullptr), "a pipe between two steps");
    if (before == nullptr) return;
    require(before->input + 1 == before->stream->work->inputs(), "rows of an operator whose inputs have been read");
    const bool fits = step.pipe->key_bytes == work.key_bytes() && step.pipe->widths() == work.widths(step.input);
    require(fits, "a pipe that makes other chunks");
}

// Operators one after the other, each with all rows of the one before.
void run_steps(const spillway_cuda_step* steps, uint64_t step_count, const SourceCalls& source, const SinkCalls* sink) {
    std::unique_ptr<PipedRows> rows;
    for (uint64_t i = 0; i < step_count; ++i) {
        const spillway_cuda_step& step = steps[i];
        Stream& work = *step.stream->work;
        const bool last = i + 1 == step_count;
        std::unique_ptr<PipeSource> chunks;
        if (i > 0) {
            rows->check(*step.pipe);
            chunks = std::make_unique<PipeSource>(*rows, *step.pipe, work.sizes().chunk_rows);
        }
        auto next = last ? nullptr : std::make_unique<PipedRows>(work.result_widths());
        const SinkCalls into = last ? SinkCalls{} : next->sink();
        work.pipe(i > 0, !last);
        work.run(step.input, i == 0 ? source : chunks->source(), last ? sink : &into);
        rows = std::move(next);
    }
}

}  // namespace

void run_streams(const spillway_cuda_step* steps, uint64_t step_count, const SourceCalls* source, const SinkCalls* sink,
                 StreamReport* reports, spillway_cuda_status* status) {
    std::fill_n(reports, step_count, StreamReport{});
    spillway_cuda_gpu* const gpu = steps[0].stream->gpu;
    guarded(gpu, status, [&] {
        uint64_t pipe_bytes = 0;
        for (uint64_t i = 0; i < step_count; ++i) {
            check_step(steps[i], i == 0 ? nullptr : &steps[i - 1]);
            const Stream& work = *steps[i].stream->work;
            if (i > 0) pipe_bytes += work.chunk_bytes(steps[i].input);
        }
        const Room pipes = pipe_bytes == 0 ? Room() : Room(gpu, pipe_bytes, "rows between operators");
        run_steps(steps, step_count, *source, sink);
        for (uint64_t i = 0; i < step_count; ++i) {
            reports[i] = steps[i].stream->work->report();
            reports[i].peak_bytes = gpu->peak_bytes;
        }
    });
}

void free_stream(spillway_cuda_stream* stream) {
    if (stream == nullptr) return;
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --stream->gpu->children;
    delete stream;
}

}  // namespace fake
