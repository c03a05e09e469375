// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_stream.hpp"

#include <utility>

#include "base/error.hpp"
#include "cuda/api/plugin.h"
#include "device/gpu_error.hpp"

namespace spillway {

namespace {

// What C callbacks are given: nothing may be thrown through the plugin, so the exception waits here.
template <class Object>
struct Kept {
    Object* object;
    std::exception_ptr* thrown;

    template <class Call>
    int32_t call(Call&& body) noexcept {
        try {
            return body(*object);
        } catch (...) {
            *thrown = std::current_exception();
            return -1;
        }
    }
};

int32_t next_chunk(void* context, cuda::Chunk* chunk) {
    return static_cast<Kept<GpuChunkSource>*>(context)->call(
        [chunk](GpuChunkSource& source) { return source.next(*chunk) ? 1 : 0; });
}

void release_chunk(void* context) {
    static_cast<Kept<GpuChunkSource>*>(context)->object->release();
}

int32_t open_rows(void* context, uint64_t rows, void** columns, cuda::PackedBlock** blocks) {
    return static_cast<Kept<GpuResultSink>*>(context)->call([rows, columns, blocks](GpuResultSink& sink) {
        sink.open(rows, columns, blocks);
        return 0;
    });
}

void close_rows(void* context) {
    static_cast<Kept<GpuResultSink>*>(context)->object->close();
}

// Nothing may be thrown through the plugin.
template <class Call>
int32_t call_disk(void* context, Call&& call) noexcept {
    auto* const disk = static_cast<GpuSpillDisk*>(context);
    try {
        call(*disk);
        return 0;
    } catch (...) {
        disk->keep(std::current_exception());
        return -1;
    }
}

int32_t write_disk(void* context, const void* data, uint64_t bytes, uint64_t* at) {
    return call_disk(context, [&](GpuSpillDisk& disk) { *at = disk.write(data, bytes); });
}

int32_t read_disk(void* context, uint64_t at, uint64_t offset, void* data, uint64_t bytes) {
    return call_disk(context, [&](GpuSpillDisk& disk) { disk.read(at, offset, data, bytes); });
}

// make(&handle, &status) is a call of the plugin.
template <class Make>
spillway_cuda_stream* begun(const GpuDevice& device, const Make& make) {
    spillway_cuda_status status{};
    spillway_cuda_stream* handle = nullptr;
    make(&handle, &status);
    check_gpu(status, device.ordinal());
    return handle;
}

}  // namespace

template <>
void detail::GpuOwned<spillway_cuda_stream>::reset() noexcept {
    if (handle_ != nullptr) open_->functions.free_stream(std::exchange(handle_, nullptr));
    open_.reset();
}

void GpuSpillDisk::keep(std::exception_ptr thrown) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!thrown_) thrown_ = std::move(thrown);
}

std::exception_ptr GpuSpillDisk::kept() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return thrown_;
}

GpuStream::GpuStream(GpuDevice& device, spillway_cuda_stream* handle, GpuSpillDisk* disk)
    : GpuOwned(device.shared(), handle), disk_(disk) {}

GpuStream GpuStream::begin(GpuDevice& device, const cuda::StagedJoinSpec& spec, GpuSpillDisk* disk) {
    const cuda::DiskCalls calls{disk, write_disk, read_disk};
    spillway_cuda_stream* const handle = begun(device, [&](auto* stream, auto* status) {
        device.functions().begin_staged_join(device.handle(), &spec, disk == nullptr ? nullptr : &calls, stream,
                                             status);
    });
    return GpuStream(device, handle, disk);
}

GpuStream GpuStream::begin(GpuDevice& device, const cuda::CoherentJoinSpec& spec) {
    spillway_cuda_stream* const handle = begun(device, [&](auto* stream, auto* status) {
        device.functions().begin_coherent_join(device.handle(), &spec, stream, status);
    });
    return GpuStream(device, handle, nullptr);
}

GpuStream GpuStream::begin(GpuDevice& device, const cuda::BaselineJoinSpec& spec) {
    spillway_cuda_stream* const handle = begun(device, [&](auto* stream, auto* status) {
        device.functions().begin_baseline_join(device.handle(), &spec, stream, status);
    });
    return GpuStream(device, handle, nullptr);
}

GpuStream GpuStream::begin(GpuDevice& device, const cuda::StagedGroupBySpec& spec, GpuSpillDisk* disk) {
    const cuda::DiskCalls calls{disk, write_disk, read_disk};
    spillway_cuda_stream* const handle = begun(device, [&](auto* stream, auto* status) {
        device.functions().begin_staged_group_by(device.handle(), &spec, disk == nullptr ? nullptr : &calls, stream,
                                                 status);
    });
    return GpuStream(device, handle, disk);
}

cuda::StreamReport GpuStream::run(int input, GpuChunkSource& source, GpuResultSink* sink) {
    return run_path({{this, input, nullptr}}, source, sink)[0];
}

std::vector<cuda::StreamReport> GpuStream::run_path(const std::vector<GpuStep>& path, GpuChunkSource& source,
                                                    GpuResultSink* sink) {
    SPILLWAY_CHECK(!path.empty());
    std::exception_ptr thrown;
    Kept<GpuChunkSource> kept_source{&source, &thrown};
    Kept<GpuResultSink> kept_sink{sink, &thrown};
    const cuda::SourceCalls source_calls{&kept_source, next_chunk, release_chunk};
    const cuda::SinkCalls sink_calls{&kept_sink, open_rows, close_rows};
    std::vector<spillway_cuda_step> steps;
    for (const GpuStep& step : path) steps.push_back({step.stream->handle_, step.pipe, step.input});
    const auto& open = *path[0].stream->open_;
    spillway_cuda_status status{};
    std::vector<cuda::StreamReport> reports(path.size());
    open.functions.run_streams(steps.data(), steps.size(), &source_calls, sink == nullptr ? nullptr : &sink_calls,
                               reports.data(), &status);
    if (thrown) std::rethrow_exception(thrown);
    for (const GpuStep& step : path) {
        GpuSpillDisk* const disk = step.stream->disk_;
        const std::exception_ptr of_disk = disk == nullptr ? nullptr : disk->kept();
        if (of_disk) std::rethrow_exception(of_disk);
    }
    check_gpu(status, open.ordinal);
    return reports;
}

}  // namespace spillway
