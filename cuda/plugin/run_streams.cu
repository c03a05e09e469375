// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/guard.hpp"
#include "plugin/functions.hpp"
#include "plugin/stream_handle.hpp"
#include "stream/check_pipe.hpp"
#include "stream/chunk_pipe.hpp"

namespace spillway::cuda { inline namespace plugin {

namespace {

using StreamSteps = std::vector<spillway_cuda_step>;

StreamSteps steps_of(const spillway_cuda_step* steps, uint64_t step_count) {
    require(steps != nullptr && step_count > 0, "no operator is to be run");
    StreamSteps path(steps, steps + step_count);
    for (const spillway_cuda_step& step : path) {
        require(step.stream != nullptr, "a step has no operator");
        require(step.stream->child.gpu() == path[0].stream->child.gpu(),
                "operators of two GPUs stand behind each other");
        for (const spillway_cuda_step* other = path.data(); other != &step; ++other) {
            require(other->stream != step.stream, "an operator stands behind itself");
        }
    }
    return path;
}

void check_inputs(const StreamSteps& path) {
    for (const spillway_cuda_step& step : path) {
        const spillway_cuda_stream& stream = *step.stream;
        require(step.input == stream.next_input && step.input < stream.work->inputs(),
                "an operator's inputs come in order, each once, and none after an error");
        if (&step == &path.back()) break;
        require(stream.shape.gives_rows, "rows are wanted of an operator that gives none");
        require(step.input == stream.work->inputs() - 1, "rows are wanted of an operator that has not all its inputs");
    }
}

void check_pipes(const StreamSteps& path) {
    require(path[0].pipe == nullptr, "the first operator has a pipe before it");
    for (size_t i = 1; i < path.size(); ++i) {
        require(path[i].pipe != nullptr, "no pipe leads to an operator");
        const PipeSpec& pipe = *path[i].pipe;
        check_pipe(pipe, path[i - 1].stream->shape.outputs);
        const StreamShape& to = path[i].stream->shape;
        require(pipe.key_bytes == to.key_bytes && pipe.widths() == to.inputs[path[i].input],
                "a pipe gives other columns than its operator reads");
    }
}

// The first operator runs, the others are given its rows as they come. Whatever an operator takes of the GPU's memory
// is of its own claim; the pipes' is of none.
void run_path(Device& device, const StreamSteps& path, ChunkSource& source, ResultSink* sink) {
    std::vector<std::unique_ptr<ChunkPipe>> pipes;
    for (size_t i = 1; i < path.size(); ++i) {
        pipes.push_back(std::make_unique<ChunkPipe>(device, *path[i].pipe, path[i - 1].stream->shape.outputs,
                                                    path[i].stream->shape.sizes.chunk_rows));
    }
    for (size_t i = path.size() - 1; i > 0; --i) {
        pipes[i - 1]->begin(*path[i].stream->work, path[i].input, sink, &path[i].stream->memory);
        sink = pipes[i - 1].get();
    }
    {
        const PoolClaim::User user(path[0].stream->memory);
        path[0].stream->work->run(path[0].input, source, sink);
    }
    for (const std::unique_ptr<ChunkPipe>& pipe : pipes) pipe->end();
}

}  // namespace

// With the device to itself, but for the time in callbacks.
void run_streams(const spillway_cuda_step* steps, uint64_t step_count, const SourceCalls* source, const SinkCalls* sink,
                 StreamReport* reports, spillway_cuda_status* status) {
    bool refuses = false;
    guarded(status, [&] {
        const StreamSteps path = steps_of(steps, step_count);
        for (size_t i = 0; i < path.size(); ++i) reports[i] = {};
        spillway_cuda_gpu* const gpu = path[0].stream->child.gpu();
        std::unique_lock<std::mutex> lock(gpu->mutex);
        check_inputs(path);
        check_pipes(path);
        for (const spillway_cuda_step& step : path) {
            step.stream->next_input = step.stream->work->inputs();  // unless it succeeds
        }
        gpu->device.make_current();
        gpu->device.check_cancelled();
        refuses = path.back().stream->shape.refuses;
        CallbackSource chunks(*source, lock);
        std::optional<CallbackSink> rows;
        if (sink != nullptr) rows.emplace(*sink, path.back().stream->shape.outputs.size(), lock);
        run_path(gpu->device, path, chunks, rows ? &*rows : nullptr);
        for (size_t i = 0; i < path.size(); ++i) {
            path[i].stream->next_input = path[i].input + 1;
            reports[i] = path[i].stream->work->report();
            reports[i].peak_bytes = gpu->device.memory().peak_bytes();
        }
    });
    if (refuses && status->code == SPILLWAY_CUDA_INVALID) status->code = SPILLWAY_CUDA_UNSUPPORTED;
}

}}  // namespace spillway::cuda::plugin
