// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>

#include "cuda/device/plugin.h"
#include "device/gpu_error.hpp"
#include "device/gpu_out_of_core.hpp"

// Sources, sinks and disks of operations out of core as the plugin calls them.
namespace spillway {

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

inline int32_t next_chunk(void* context, spillway_cuda_chunk* told) {
    return static_cast<Kept<GpuChunkSource>*>(context)->call([told](GpuChunkSource& source) {
        GpuChunk chunk;
        if (!source.next(chunk)) return 0;
        *told = {chunk.rows, chunk.key, chunk.key_valid, chunk.columns};
        return 1;
    });
}

inline void release_chunk(void* context) {
    static_cast<Kept<GpuChunkSource>*>(context)->object->release();
}

inline int32_t open_rows(void* context, uint64_t rows, void** columns) {
    return static_cast<Kept<GpuResultSink>*>(context)->call([rows, columns](GpuResultSink& sink) {
        sink.open(rows, columns);
        return 0;
    });
}

inline void close_rows(void* context) {
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

inline int32_t write_disk(void* context, const void* data, uint64_t bytes, uint64_t* at) {
    return call_disk(context, [&](GpuSpillDisk& disk) { *at = disk.write(data, bytes); });
}

inline int32_t read_disk(void* context, uint64_t at, uint64_t offset, void* data, uint64_t bytes) {
    return call_disk(context, [&](GpuSpillDisk& disk) { disk.read(at, offset, data, bytes); });
}

inline spillway_cuda_disk plain_disk(GpuSpillDisk* disk) {
    return {disk, write_disk, read_disk};
}

// A source and perhaps a sink for one call, and why it failed if they did.
struct Callbacks {
    Callbacks(GpuChunkSource& from, GpuResultSink* to) : source{&from, &thrown}, sink{to, &thrown} {}
    Callbacks(const Callbacks&) = delete;

    const spillway_cuda_sink* rows() const { return sink.object == nullptr ? nullptr : &plain_sink; }
    void check(const spillway_cuda_status& status, int ordinal, GpuSpillDisk* disk = nullptr) const {
        if (thrown) std::rethrow_exception(thrown);
        const std::exception_ptr of_disk = disk == nullptr ? nullptr : disk->kept();
        if (of_disk) std::rethrow_exception(of_disk);
        check_gpu(status, ordinal);
    }

    std::exception_ptr thrown;
    Kept<GpuChunkSource> source;
    Kept<GpuResultSink> sink;
    const spillway_cuda_source plain_source{&source, next_chunk, release_chunk};
    const spillway_cuda_sink plain_sink{&sink, open_rows, close_rows};
};

}  // namespace spillway
