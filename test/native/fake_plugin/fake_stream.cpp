// SPDX-License-Identifier: Apache-2.0
#include "fake_stream.hpp"

#include "fake_staged_group_by.hpp"
#include "fake_staged_join.hpp"
#include "memory_model/stream_memory.hpp"

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
        source.release(source.context);
    };
    for (;;) {
        check(gpu_);
        if (taken.size() == sizes_.chunk_slots) use_oldest();
        Chunk chunk;
        if (call_back([&] { return source.next(source.context, &chunk); }) == 0) break;
        if (chunk.rows > sizes_.chunk_rows || chunk.columns.size() != widths.size()) {
            throw Failure{SPILLWAY_CUDA_INVALID, "a chunk is too large, or has other columns"};
        }
        report_.rows[input] += chunk.rows;
        report_.h2d_bytes += chunk.rows * key_bytes;
        for (const uint32_t width : widths) report_.h2d_bytes += chunk.rows * width;
        if (chunk.key_valid != nullptr) report_.h2d_bytes += spillway::cuda::validity_bytes(chunk.rows);
        taken.push_back(chunk);
        fail_here(asked);
    }
    while (!taken.empty()) use_oldest();
}

bool Stream::spills_to_disk(int input, uint64_t bytes) {
    ++report_.spilled_rows[input];
    report_.spilled_bytes[input] += bytes;
    if (memory_bytes_ + bytes <= sizes_.spill_bytes) {
        memory_bytes_ += bytes;
        return false;
    }
    if (disk_.usable()) return true;
    Failure failure{SPILLWAY_CUDA_OUT_OF_MEMORY, "spilled rows", memory_bytes_ + bytes};
    failure.host_memory = true;
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
    Window window{pending_rows_, std::vector<void*>(pending_.size()), std::move(pending_)};
    call_back([&] { return sink_->open(sink_->context, window.rows, window.columns.data()); });
    for (const std::string& values : window.values) report_.d2h_bytes += values.size();
    pending_.assign(window.values.size(), {});
    open_.push_back(std::move(window));
    pending_rows_ = 0;
}

void Stream::close_oldest() {
    const Window& window = open_.front();
    for (size_t c = 0; c < window.columns.size(); ++c) {
        std::memcpy(window.columns[c], window.values[c].data(), window.values[c].size());
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

void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status) {
    begin(gpu, stream, status, [&] { return std::make_unique<StagedGroupBy>(gpu, *spec, disk); });
}

void run_stream(spillway_cuda_stream* stream, int32_t input, const SourceCalls* source, const SinkCalls* sink,
                StreamReport* report, spillway_cuda_status* status) {
    *report = {};
    guarded(stream->gpu, status, [&] {
        if (input != stream->next_input++) {
            throw Failure{SPILLWAY_CUDA_INVALID, "an operator's inputs come in order, each once"};
        }
        stream->work->run(input, *source, sink);
        *report = stream->work->report();
        report->peak_bytes = stream->gpu->peak_bytes;
    });
}

void free_stream(spillway_cuda_stream* stream) {
    if (stream == nullptr) return;
    const std::lock_guard<std::recursive_mutex> hold(lock());
    --stream->gpu->children;
    delete stream;
}

}  // namespace fake
