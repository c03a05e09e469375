// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coherent_join/coherent_join.hpp"
#include "device/guard.hpp"
#include "memory_model/staged_memory.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"
#include "plugin/stream_calls.hpp"
#include "staged_group_by/staged_group_by.hpp"
#include "staged_join/staged_join.hpp"

// The child is the first member, so that it is counted until the memory is back in its pools.
struct spillway_cuda_stream {
    spillway_cuda_stream(spillway_cuda_gpu* gpu, size_t output_columns, const spillway::cuda::DiskCalls* given,
                         spillway::cuda::PoolClaim claim)
        : child(gpu), open(gpu), outputs(output_columns), disk(given), memory(std::move(claim)) {}
    spillway::cuda::Child child;
    spillway::cuda::OpenOperation open;
    const size_t outputs;  // columns of the result
    spillway::cuda::CallbackDisk disk;
    spillway::cuda::PoolClaim memory;  // all that it will take: between callbacks it has less
    std::unique_ptr<spillway::cuda::StreamOperator> work;
};

namespace spillway::cuda { inline namespace plugin {

namespace {

// More would be chunks of few rows: each leaves a page of each partition unfilled.
constexpr uint32_t kChunksMax = 1U << 20;

// make(device, disk) makes the operator, which takes no more than so many bytes.
template <class Make>
void begin(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, size_t outputs, const DiskCalls* disk,
           spillway_cuda_stream** stream, const Make& make) {
    PoolClaim memory = gpu->device.memory().claim(bytes, purpose);
    const PoolClaim::User user(memory);
    auto begun = std::make_unique<spillway_cuda_stream>(gpu, outputs, disk, std::move(memory));
    begun->work = make(gpu->device, begun->disk.usable());
    *stream = begun.release();
}

// With the device to itself.
template <class Body>
void with_device(spillway_cuda_gpu* gpu, spillway_cuda_stream** stream, spillway_cuda_status* status,
                 const Body& body) {
    *stream = nullptr;
    guarded(status, [&] {
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        body();
    });
}

}  // namespace

void begin_staged_join(spillway_cuda_gpu* gpu, const StagedJoinSpec* spec, const DiskCalls* disk,
                       spillway_cuda_stream** stream, spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        require(spec->sizes.radix_bits >= 0 && spec->sizes.radix_bits < 32,
                "a join out of core has too many radix bits");
        const uint64_t bytes = staged_join_memory(*spec).device_bytes;
        begin(gpu, bytes, "a join out of core", spec->output.size(), disk, stream,
              [&](Device& device, SpillDisk* to) { return std::make_unique<StagedJoin>(device, *spec, nullptr, to); });
    });
}

void begin_coherent_join(spillway_cuda_gpu* gpu, const CoherentJoinSpec* spec, spillway_cuda_stream** stream,
                         spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        require(spec->options.chunks <= kChunksMax, "a join by kernels alone has too many chunks");
        const uint64_t bytes = std::min(spec->options.device_bytes, gpu->device.memory().free_bytes());
        begin(gpu, bytes, "a join out of core", spec->join.output.size(), nullptr, stream,
              [&](Device& device, SpillDisk*) { return std::make_unique<CoherentJoin>(device, *spec); });
    });
}

void begin_staged_group_by(spillway_cuda_gpu* gpu, const StagedGroupBySpec* spec, const DiskCalls* disk,
                           spillway_cuda_stream** stream, spillway_cuda_status* status) {
    with_device(gpu, stream, status, [&] {
        require(spec->sizes.radix_bits >= 0 && spec->sizes.radix_bits < 32,
                "a group-by out of core has too many radix bits");
        require(spec->sizes.chunk_slots > 0, "a group-by out of core has no room for a chunk");
        const uint64_t bytes = staged_group_by_memory(*spec).device_bytes;
        begin(gpu, bytes, "a group-by out of core", spec->output_widths().size(), disk, stream,
              [&](Device& device, SpillDisk* to) { return std::make_unique<StagedGroupBy>(device, *spec, to); });
    });
}

// With the device to itself, but for the time in callbacks.
void run_stream(spillway_cuda_stream* stream, int32_t input, const SourceCalls* source, const SinkCalls* sink,
                StreamReport* report, spillway_cuda_status* status) {
    *report = {};
    guarded(status, [&] {
        spillway_cuda_gpu* const gpu = stream->child.gpu();
        require(input >= 0 && input < stream->work->inputs(), "an operator has no such input");
        std::unique_lock<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        gpu->device.check_cancelled();
        const PoolClaim::User user(stream->memory);
        CallbackSource chunks(*source, lock);
        if (sink == nullptr) {
            stream->work->run(input, chunks, nullptr);
        } else {
            CallbackSink rows(*sink, stream->outputs, lock);
            stream->work->run(input, chunks, &rows);
        }
        *report = stream->work->report();
        report->peak_bytes = gpu->device.memory().peak_bytes();
    });
}

// Its destructors wait for the device, which others may use meanwhile but not take memory of in between.
void free_stream(spillway_cuda_stream* stream) {
    if (stream == nullptr) return;
    guarded(nullptr, [&] {
        spillway_cuda_gpu* const gpu = stream->child.gpu();
        const std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->device.make_current();
        delete stream;
    });
}

}}  // namespace spillway::cuda::plugin
