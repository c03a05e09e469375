// SPDX-License-Identifier: Apache-2.0
// The C interface of plugin.h over Device. Nothing is thrown out of here: every body runs in guarded().
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "api/plugin.h"
#include "device/device.hpp"
#include "device/guard.hpp"
#include "plugin/functions.hpp"
#include "plugin/handles.hpp"

namespace cuda = spillway::cuda;

namespace {

using cuda::require;

void open_device(int32_t ordinal, uint64_t memory_limit_bytes, uint64_t pinned_limit_bytes, spillway_cuda_gpu** gpu,
                 spillway_cuda_status* status) {
    *gpu = nullptr;
    cuda::guarded(status, [&] {
        *gpu = std::make_unique<spillway_cuda_gpu>(ordinal, memory_limit_bytes, pinned_limit_bytes).release();
    });
}

void close_device(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    cuda::guarded(status, [&] {
        if (gpu == nullptr) return;
        const int64_t children = gpu->children.load();
        if (children > 0) {
            throw cuda::Error(cuda::ErrorCode::kInvalid, "the GPU cannot be closed: " + std::to_string(children) +
                                                             " of its blocks, tables or transfers are in use");
        }
        delete gpu;
    });
}

void memory_info(spillway_cuda_gpu* gpu, spillway_cuda_memory* memory, spillway_cuda_status* status) {
    *memory = {};
    cuda::guarded(status, [&] {
        const cuda::MemoryPool& pool = gpu->device.memory();
        memory->used_bytes = pool.used_bytes();
        memory->peak_bytes = pool.peak_bytes();
        memory->limit_bytes = pool.limit_bytes();
        memory->free_bytes = pool.free_bytes();
        memory->reserved_bytes = pool.reserved_bytes();
        const cuda::StagingPool& pinned = gpu->device.staging();
        memory->pinned_used_bytes = pinned.used_bytes();
        memory->pinned_peak_bytes = pinned.peak_bytes();
        memory->pinned_limit_bytes = pinned.limit_bytes();
        memory->pinned_reserved_bytes = pinned.reserved_bytes();
    });
}

void reset_peak(spillway_cuda_gpu* gpu) {
    cuda::guarded(nullptr, [&] {
        gpu->device.memory().reset_peak();
        gpu->device.staging().reset_peak();
    });
}

void trim(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    cuda::guarded(status, [&] {
        // An operation needs again, with its next chunk, what the last one has given back to the pool.
        const std::unique_lock<std::mutex> lock(gpu->mutex, std::try_to_lock);
        if (lock.owns_lock() && gpu->operations == 0) {
            gpu->device.memory().trim();
            if (gpu->peer != nullptr) gpu->peer->memory().trim();
        }
        gpu->device.staging().trim();
    });
}

void set_cancelled(spillway_cuda_gpu* gpu, int32_t cancelled) {
    gpu->device.set_cancelled(cancelled != 0);
}

void synchronize(spillway_cuda_gpu* gpu, spillway_cuda_status* status) {
    cuda::guarded(status, [&] {
        std::lock_guard<std::mutex> lock(gpu->mutex);
        gpu->uploader.wait();
        gpu->downloader.wait();
        gpu->device.synchronize();
    });
}

void allocate(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_buffer** buffer,
              uint64_t* address, spillway_cuda_status* status) {
    *buffer = nullptr;
    *address = 0;
    cuda::guarded(status, [&] {
        auto made = std::make_unique<spillway_cuda_buffer>(gpu, gpu->device.memory().allocate(bytes, purpose));
        *address = reinterpret_cast<uint64_t>(made->block.as<void>());
        *buffer = made.release();
    });
}

void free_buffer(spillway_cuda_buffer* buffer) {
    delete buffer;
}

void allocate_pinned(spillway_cuda_gpu* gpu, uint64_t bytes, const char* purpose, spillway_cuda_pinned** block,
                     void** address, spillway_cuda_status* status) {
    *block = nullptr;
    *address = nullptr;
    cuda::guarded(status, [&] {
        auto made = std::make_unique<spillway_cuda_pinned>(gpu, gpu->device.staging().allocate(bytes, purpose));
        *address = made->block.as<void>();
        *block = made.release();
    });
}

void free_pinned(spillway_cuda_pinned* block) {
    delete block;
}

uint8_t* range_of(const spillway_cuda_buffer* buffer, uint64_t offset_bytes, uint64_t bytes) {
    require(buffer != nullptr, "a copy has no buffer");
    const uint64_t held_bytes = buffer->block.bytes();
    require(offset_bytes <= held_bytes && bytes <= held_bytes - offset_bytes, "a copy exceeds its buffer");
    return buffer->block.as<uint8_t>() + offset_bytes;
}

void upload(spillway_cuda_gpu* gpu, spillway_cuda_buffer* to, uint64_t offset_bytes, const void* from, uint64_t bytes,
            spillway_cuda_transfer** transfer, spillway_cuda_status* status) {
    *transfer = nullptr;
    cuda::guarded(status, [&] { *transfer = cuda::start_upload(gpu, range_of(to, offset_bytes, bytes), from, bytes); });
}

void download(spillway_cuda_gpu* gpu, void* to, const spillway_cuda_buffer* from, uint64_t offset_bytes, uint64_t bytes,
              spillway_cuda_transfer** transfer, spillway_cuda_status* status) {
    *transfer = nullptr;
    cuda::guarded(status,
                  [&] { *transfer = cuda::start_download(gpu, to, range_of(from, offset_bytes, bytes), bytes); });
}

// Without the lock: a thread may wait while another starts copies.
void wait(spillway_cuda_transfer* transfer, spillway_cuda_status* status) {
    const std::unique_ptr<spillway_cuda_transfer> owned(transfer);
    cuda::guarded(status, [&] {
        if (owned == nullptr) return;
        owned->child.gpu()->device.make_current();
        owned->copied.synchronize();
    });
}

constexpr spillway_cuda_functions kFunctions = {
    SPILLWAY_CUDA_ABI_VERSION,
    SPILLWAY_CUDA_FUNCTION_COUNT,
    open_device,
    close_device,
    memory_info,
    reset_peak,
    trim,
    set_cancelled,
    synchronize,
    allocate,
    free_buffer,
    allocate_pinned,
    free_pinned,
    upload,
    download,
    wait,
    cuda::create_table,
    cuda::free_table,
    cuda::table_size,
    cuda::table_column,
    cuda::open_lane,
    cuda::send_rows,
    cuda::fetch_rows,
    cuda::wait_lane,
    cuda::close_lane,
    cuda::join_tables_call,
    cuda::count_join_call,
    cuda::group_table_call,
    cuda::begin_join_call,
    cuda::next_piece_call,
    cuda::free_pieces,
    cuda::begin_staged_join,
    cuda::begin_coherent_join,
    cuda::begin_staged_group_by,
    cuda::run_streams,
    cuda::free_stream,
    cuda::open_peer,
    cuda::begin_baseline_join,
};
static_assert(sizeof(spillway_cuda_functions) ==
                  offsetof(spillway_cuda_functions, open_device) + SPILLWAY_CUDA_FUNCTION_COUNT * sizeof(void (*)()),
              "SPILLWAY_CUDA_FUNCTION_COUNT counts all of them");

}  // namespace

extern "C" __attribute__((visibility("default"))) const spillway_cuda_functions* spillway_cuda_get_functions(void) {
    return &kFunctions;
}
